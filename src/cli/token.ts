// `herald token`: tokens for other programs (PR1): made, shown once, listed, taken back. Works beside a running gateway, or several on
// PostgreSQL, which look the token up anew at every request.
import { findStoreUrl, loadConfig } from "../config/config.ts";
import { didYouMean } from "../config/nearest.ts";
import { systemClock } from "../core/clock.ts";
import { agentIdOf, isAgentId } from "../core/ids.ts";
import { isProgramName, SCOPES, type Scope } from "../core/program.ts";
import { openBeside } from "../stores/beside.ts";
import type { Database } from "../stores/database.ts";
import { createProgramTokens, type NewProgramToken, type ProgramToken } from "../stores/program-tokens.ts";
import { createSessions } from "../stores/sessions.ts";
import { type Call, EXIT, isSet, refuseFlags, textOf, UsageError } from "./command.ts";
import { iso, line } from "./run-lines.ts";
import { stateFolderOf } from "./state-folder.ts";

const DEFAULT_SCOPES: readonly Scope[] = ["spawn", "read"];
const MAX_DAYS = 3650;
const DAY_MS = 24 * 3600 * 1000;

export async function token(call: Call): Promise<number> {
  const { words, terminal } = call;
  const [word = "list", name = "", ...rest] = words;
  const prepare = Object.hasOwn(WORDS, word) ? WORDS[word] : undefined;
  if (prepare === undefined) throw new UsageError(`token has no "${line(word)}".${didYouMean(word, Object.keys(WORDS))}`);
  const extra = word === "list" ? words[1] : rest[0];
  if (extra !== undefined) throw new UsageError(`token ${word} takes no further words: "${line(extra)}".`);
  refuseFlags(call, `token ${word}`, FLAGS[word] ?? []);
  const work = prepare(call, name);
  const from = { env: terminal.env, cwd: terminal.cwd };
  const db = await openBeside({ stateDir: stateFolderOf(terminal), url: findStoreUrl(from), name: "herald token" });
  try {
    const said = await work(createProgramTokens({ db, clock: systemClock }), db);
    if (said !== "") terminal.say(said);
    return EXIT.fine;
  } finally {
    await db.close();
  }
}

const FLAGS: Readonly<Record<string, readonly string[]>> = { list: ["json"], new: ["scope", "chat", "agent", "days", "json"], revoke: [] };

type Work = (tokens: ReturnType<typeof createProgramTokens>, db: Database) => Promise<string>;

/** What is wrong by itself is wrong use, and said before the database is opened. */
const WORDS: Readonly<Record<string, (call: Call, name: string) => Work>> = {
  list: (call) => async (tokens) => (isSet(call, "json") ? (await tokens.list()).map(toJson).join("\n") : listed(await tokens.list())),
  new(call, name) {
    const { chat, ...wanted } = readWanted(call, name);
    return async (tokens, db) => {
      const secret = await tokens.make({ ...wanted, address: chat === undefined ? null : await chatOf(db, chat) });
      if (secret === null) throw new Error(`There is a token "${name}" already. Take it back first, or choose another name.`);
      if (isSet(call, "json")) return JSON.stringify({ name, scopes: wanted.scopes, token: secret });
      return `The token "${name}" (${wanted.scopes.join(", ")}), shown this once:\n\n${secret}\n\nIt goes into the program's header Authorization: Bearer <token>, for <the page's address>/mcp.`;
    };
  },
  revoke(_, name) {
    if (name === "") throw new UsageError("Which token?");
    return async (tokens) => {
      if (!(await tokens.revoke(name))) throw new Error(`There is no token "${line(name)}".\n\n${listed(await tokens.list())}`);
      return `The token "${name}" opens nothing any more. Runs that it sent out go on; the page shows and stops them.`;
    };
  },
};

interface Wanted extends Omit<NewProgramToken, "address"> {
  /** Its session key; undefined: bound to none. */
  readonly chat: string | undefined;
}

/** Throws UsageError. */
function readWanted(call: Call, name: string): Wanted {
  if (!isProgramName(name))
    throw new UsageError("A token needs a name of at most 40 small letters, digits, dots, dashes and underscores, such as claude-code.");
  const chat = textOf(call, "chat");
  if (chat !== undefined && !isAgentId(agentIdOf(chat)))
    throw new UsageError(`"${line(chat)}" is no session key. The page and /subagents info show them, such as agent:main:telegram:dm:42.`);
  const agentId = textOf(call, "agent") ?? (chat === undefined ? null : agentIdOf(chat));
  if (agentId !== null) refuseUnknown(agentId, call.terminal);
  return { name, scopes: readScopes(textOf(call, "scope")), agentId, chat, expiresAt: readDays(textOf(call, "days")) };
}

/** One that is not configured could never send anybody out. */
function refuseUnknown(agentId: string, { env, cwd }: Call["terminal"]): void {
  if (!isAgentId(agentId)) throw new UsageError(`"${line(agentId)}" is no agent's id.`);
  const { list } = loadConfig({ env, cwd }).config.agents;
  const known = list.length === 0 ? ["main"] : list.map(({ id }) => id);
  if (!known.includes(agentId))
    throw new UsageError(`There is no agent "${line(agentId)}".${didYouMean(agentId, known)} There are: ${known.join(", ")}.`);
}

function readScopes(text: string | undefined): readonly Scope[] {
  if (text === undefined) return DEFAULT_SCOPES;
  const given = text.split(",");
  const unknown = given.find((one) => !(SCOPES as readonly string[]).includes(one));
  if (unknown !== undefined) throw new UsageError(`"${line(unknown)}" is no scope. There are: ${SCOPES.join(", ")}.`);
  return SCOPES.filter((one) => given.includes(one));
}

function readDays(text: string | undefined): number | null {
  if (text === undefined) return null;
  const days = /^\d{1,4}$/.test(text) ? Number(text) : 0;
  if (days < 1 || days > MAX_DAYS) throw new UsageError(`--days takes a whole number from 1 to ${MAX_DAYS}.`);
  return systemClock.now() + days * DAY_MS;
}

/** One that Herald knows: typed by hand, an address could lead anywhere. */
async function chatOf(db: Database, key: string): Promise<NewProgramToken["address"]> {
  const address = (await createSessions({ db, clock: systemClock }).find(key))?.address ?? null;
  if (address === null || agentIdOf(key) === "") throw new Error(`There is no chat with the session key "${line(key)}".`);
  return address;
}

/** What --json promises of a token. */
const toJson = ({ name, scopes, createdAt, usedAt, expiresAt, agentId, address }: ProgramToken): string =>
  JSON.stringify({
    ...{ name, scopes, agent: agentId, chat: address === null ? null : { channel: address.channel, chat: address.chat } },
    ...{ createdAt: iso(createdAt), usedAt: iso(usedAt), expiresAt: iso(expiresAt) },
  });

function listed(tokens: readonly ProgramToken[]): string {
  if (tokens.length === 0) return "There are no tokens. herald token new NAME makes one.";
  const day = (at: number): string => new Date(at).toISOString().slice(0, 10);
  return tokens
    .map(({ name, scopes, createdAt, usedAt, expiresAt, agentId, address }) =>
      [
        `${name}  ${scopes.join(",")}`,
        `made ${day(createdAt)}`,
        usedAt === null ? "never used" : `last used ${day(usedAt)}`,
        ...(expiresAt === null ? [] : [`${expiresAt <= systemClock.now() ? "over since" : "until"} ${day(expiresAt)}`]),
        ...(agentId === null ? [] : [`agent ${agentId}`]),
        ...(address === null ? [] : [`announces in ${line(`${address.channel} ${address.chat}`)}`]),
      ].join(", "),
    )
    .join("\n");
}
