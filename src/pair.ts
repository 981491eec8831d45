// `npm run pair`: who is paired, waits or was refused, and the operator's word about them. Works beside a running gateway, or several on
// PostgreSQL, which look the person up anew at every message and tell them what was decided, now or at the next start.
import { existsSync } from "node:fs";
import { join } from "node:path";
import { findStateDir, findStoreUrl } from "./config/config.ts";
import { systemClock } from "./core/clock.ts";
import { errorText } from "./core/errors.ts";
import { silentLogger } from "./core/logger.ts";
import { type Database, openDatabase } from "./stores/database.ts";
import { refuseHalfFilled as refuseHalfFolder } from "./stores/move-mark.ts";
import { createPairing, type Pairing, type Person } from "./stores/pairing.ts";

const USAGE = `npm run pair                         who is paired, waits or was refused
npm run pair -- CODE                 let the person in who was shown this code
npm run pair -- refuse CODE          keep them out; they are told so once
npm run pair -- revoke CHANNEL ID    take it back: who was let in is a stranger again, who was refused may ask again`;

type Named = Pick<Person, "senderName" | "senderId" | "channel">;

/** Names are what people call themselves: no line break or terminal escape of theirs reaches the operator's screen. */
const nameOf = ({ senderName, channel, senderId }: Named): string =>
  `${senderName.replace(/\p{C}/gu, "") || "somebody"} (${channel} ${senderId})`;

async function pair(pairing: Pairing, [word = "list", ...rest]: readonly string[]): Promise<string> {
  switch (word) {
    case "list":
      return list(pairing);
    case "refuse":
      return `${nameOf(decided(await pairing.refuse(rest[0] ?? ""), rest[0]))} is not let in and will be told so once.`;
    case "revoke":
      return revoke(pairing, rest);
    case "help":
    case "--help":
    case "-h":
      return USAGE;
    default: {
      const code = word === "approve" ? rest[0] : word;
      return `${nameOf(decided(await pairing.approve(code ?? ""), code))} may now talk to Herald and will be told so.`;
    }
  }
}

function decided<T>(person: T | null, code = ""): T {
  if (person !== null) return person;
  throw new Error(`There is no pairing code ${JSON.stringify(code.slice(0, 20))}; codes live for one hour.\n\n${USAGE}`);
}

async function list(pairing: Pairing): Promise<string> {
  const people = await pairing.listPeople();
  const day = (at: number): string => new Date(at).toISOString().slice(0, 10);
  const ofState = (state: Person["state"]): string[] =>
    people.filter((person) => person.state === state).map((person) => `  ${nameOf(person)}, ${day(person.at)}`);
  const groups: [string, string[]][] = [
    ["Waiting:", (await pairing.listPending()).map((one) => `  ${one.code}  ${nameOf(one)}`)],
    ["Paired:", ofState("paired")],
    ["Refused:", ofState("refused")],
  ];
  const shown = groups.filter(([, lines]) => lines.length > 0).map(([title, lines]) => [title, ...lines].join("\n"));
  return shown.length === 0 ? "Nobody is waiting, paired or refused." : shown.join("\n\n");
}

async function revoke(pairing: Pairing, [channel = "", senderId = ""]: readonly string[]): Promise<string> {
  const found = (await pairing.listPeople()).filter((person) => person.channel === channel && person.senderId === senderId);
  // One person under two accounts of a channel: both are meant.
  for (const person of found) await pairing.revoke(person);
  const [first] = found;
  if (first === undefined) throw new Error(`Nobody is paired or refused as ${channel} ${senderId}.\n\n${await list(pairing)}\n\n${USAGE}`);
  return first.state === "paired" ? `${nameOf(first)} may no longer talk to Herald.` : `${nameOf(first)} may ask again.`;
}

async function run(words: readonly string[]): Promise<string> {
  const from = { env: process.env, cwd: process.cwd() };
  const url = findStoreUrl(from);
  const db = url === undefined ? openFolder(findStateDir(from)) : await openShared(url);
  try {
    return await pair(createPairing({ db, clock: systemClock }), words);
  } finally {
    await db.close();
  }
}

function openFolder(stateDir: string): Database & { close(): void } {
  const path = join(stateDir, "herald.db");
  if (!existsSync(path)) throw new Error(`Herald has not been started with this state folder yet: ${stateDir}`);
  refuseHalfFolder(stateDir);
  return openDatabase({ path });
}

/** Loaded by whom it concerns. No node of its own, and so without a fence: what it writes is one row. */
async function openShared(url: string): Promise<Database & { close(): Promise<void> }> {
  const [{ openPostgres }, { hasTables, migrate }, { refuseHalfFilled }] = await Promise.all([
    import("./stores/postgres/database.ts"),
    import("./stores/postgres/migrate.ts"),
    import("./stores/postgres/move-mark.ts"),
  ]);
  const db = await openPostgres({ url, poolSize: 2, name: "herald pair", log: silentLogger, steady: () => performance.now() });
  try {
    if (!(await hasTables(db))) throw new Error("Herald has not been started with the database of store.url yet.");
    await migrate(db, silentLogger);
    await refuseHalfFilled(db);
    return db;
  } catch (error) {
    await db.close();
    throw error;
  }
}

try {
  process.stdout.write(`${await run(process.argv.slice(2))}\n`);
} catch (error) {
  process.stderr.write(`${errorText(error)}\n`);
  process.exitCode = 1;
}
