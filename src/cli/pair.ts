// `herald pair`: who is paired, waits or was refused, and the operator's word about them. Works beside a running gateway, or several on
// PostgreSQL, which look the person up anew at every message and tell them what was decided, now or at the next start.
import { findStoreUrl } from "../config/config.ts";
import { systemClock } from "../core/clock.ts";
import { openBeside } from "../stores/beside.ts";
import { createPairing, type Pairing, type Person } from "../stores/pairing.ts";
import { type Call, EXIT } from "./command.ts";
import { stateFolderOf } from "./state-folder.ts";

type Named = Pick<Person, "senderName" | "senderId" | "channel">;

/** Names are what people call themselves: no line break or terminal escape of theirs reaches the operator's screen. */
const nameOf = ({ senderName, channel, senderId }: Named): string =>
  `${senderName.replace(/\p{C}/gu, "") || "somebody"} (${channel} ${senderId})`;

async function decide(pairing: Pairing, { words: [word = "list", ...rest], usage }: Call): Promise<string> {
  switch (word) {
    case "list":
      return list(pairing);
    case "refuse":
      return `${nameOf(decided(await pairing.refuse(rest[0] ?? ""), usage, rest[0]))} is not let in and will be told so once.`;
    case "revoke":
      return revoke(pairing, usage, rest);
    case "help":
      return usage;
    default: {
      const code = word === "approve" ? rest[0] : word;
      return `${nameOf(decided(await pairing.approve(code ?? ""), usage, code))} may now talk to Herald and will be told so.`;
    }
  }
}

function decided<T>(person: T | null, usage: string, code = ""): T {
  if (person !== null) return person;
  throw new Error(
    `There is no pairing code ${JSON.stringify(code.slice(0, 20))}; codes live for one hour, or for less when many ask. Who writes to the bot once more may get a new one.\n\n${usage}`,
  );
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

async function revoke(pairing: Pairing, usage: string, [channel = "", senderId = ""]: readonly string[]): Promise<string> {
  const found = (await pairing.listPeople()).filter((person) => person.channel === channel && person.senderId === senderId);
  // One person under two accounts of a channel: both are meant.
  for (const person of found) await pairing.revoke(person);
  const [first] = found;
  if (first === undefined) throw new Error(`Nobody is paired or refused as ${channel} ${senderId}.\n\n${await list(pairing)}\n\n${usage}`);
  return first.state === "paired" ? `${nameOf(first)} may no longer talk to Herald.` : `${nameOf(first)} may ask again.`;
}

export async function pair(call: Call): Promise<number> {
  const from = { env: call.terminal.env, cwd: call.terminal.cwd };
  const db = await openBeside({ stateDir: stateFolderOf(call.terminal), url: findStoreUrl(from), name: "herald pair" });
  try {
    call.terminal.say(await decide(createPairing({ db, clock: systemClock }), call));
    return EXIT.fine;
  } finally {
    await db.close();
  }
}
