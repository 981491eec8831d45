// What is asked at the end of a chaos run, however many processes there were: what is still open, what tabs were shown, what leaked.
import { hash } from "../support/random.ts";
import { type GatewayProcess, until } from "./gateway-process.ts";
import type { Rows } from "./record.ts";
import { findSecrets, type Secrets, searchFolder } from "./secrets.ts";
import type { Front } from "./spots.ts";
import type { ChatMessage, Tabs } from "./tabs.ts";

export interface Waiting {
  readonly inbox: number;
  readonly runs: number;
  readonly outbox: number;
  readonly archive: number;
  /** Questions nobody has settled, and messages that do not show yet what became of theirs. */
  readonly asked: number;
  /** Of those, what needs a yes. */
  readonly unallowed: number;
}

export interface Open extends Waiting {
  readonly total: number;
}

/** What is accepted and not settled. */
export const OPEN_SQL = `SELECT (SELECT count(*) FROM inbox WHERE state <> 'done') AS inbox,
  (SELECT count(*) FROM runs WHERE state IN ('queued', 'running', 'waiting')) AS runs,
  (SELECT count(*) FROM outbox WHERE state IN ('queued', 'sending', 'unknown')) AS outbox,
  (SELECT count(*) FROM runs WHERE cleanup = 'delete' AND settled_at IS NOT NULL AND archived_at IS NULL) AS archive,
  (SELECT count(*) FROM questions WHERE state = 'open') + (SELECT count(*) FROM live_messages WHERE state IN ('new', 'posted', 'shown')) AS asked,
  (SELECT count(*) FROM questions WHERE state = 'open' AND kind = 'approve') AS unallowed`;

export function toOpen([row]: readonly Waiting[]): Open {
  const { inbox = 0, runs = 0, outbox = 0, archive = 0, asked = 0, unallowed = 0 } = row ?? {};
  return { inbox, runs, outbox, archive, asked, unallowed, total: inbox + runs + outbox + archive + asked };
}

/**
 * How much there is to do. A place that is backing off fills the outbox without keeping anybody busy; and who waits for a yes waits for
 * a day, or for the end of this: with enough of those nobody would say anything new any more.
 */
export const busyness = ({ inbox, runs, outbox, unallowed }: Open): number => inbox + runs + outbox / 4 - unallowed;

/** As many may wait for a yes while it goes on: more would only be the work of the last minutes, and no more of it is learnt. */
export const MOST_UNALLOWED = 25;

/** Whoever has the page answers what needs a yes and got none, the oldest first, until `most` are left: nobody waits a day here. */
export async function answerLeft(front: Front, rows: Rows, most = 0): Promise<void> {
  const headers = { "content-type": "application/json" };
  const open = await rows<{ id: string }>("SELECT id FROM questions WHERE state = 'open' AND kind = 'approve' ORDER BY created_at");
  for (const { id } of open.slice(0, Math.max(0, open.length - most))) {
    const body = JSON.stringify({ verdict: hash(id) % 2 === 0 ? "yes" : "no" });
    await front.request(`/api/questions/${id}/answer`, { method: "POST", headers, body });
  }
}

export const MESSAGES_SQL = "SELECT chat, seq FROM web_messages ORDER BY seq";

const TABS_MS = 10_000;

/** After the drain: the open tabs have all of their chats, and none ever saw a message twice or missed one. */
export async function checkTabs(tabs: Tabs, read: () => ChatMessage[] | Promise<ChatMessage[]>): Promise<string[]> {
  const messages = await read();
  const isThere = await until(() => tabs.behind(messages) === 0, TABS_MS, 50);
  const missing = isThere ? [] : [`${tabs.behind(messages)} messages never reached the tabs that were open`];
  return [...missing, ...tabs.faults(messages)];
}

/** Everything the page and the metrics show, but for the oldest messages of long chats. */
export async function readPage(front: Front): Promise<string> {
  const get = async (path: string): Promise<string> => (await front.request(path)).text();
  const chats = JSON.parse(await get("/api/chats")) as { chats: { id: string }[] };
  const runs = JSON.parse(await get("/api/runs")) as { runs: { id: string }[] };
  const paths = [
    ...["/metrics", "/healthz", "/api/pairing", "/api/chats", "/api/runs"],
    ...chats.chats.map(({ id }) => `/api/chats/${id}/messages`),
    ...runs.runs.flatMap(({ id }) => [`/api/runs/${id}`, `/api/runs/${id}/transcript`]),
  ];
  const texts: string[] = [];
  for (const path of paths) texts.push(await get(path));
  return texts.join("\n");
}

/** `shown`: what people saw on the platforms and the page. */
export function leaks({ planted }: Secrets, processes: readonly GatewayProcess[], shown: string): string[] {
  return [
    ...processes.flatMap(({ stateDir }) => searchFolder(planted, stateDir)).map((found) => `a secret stands in ${found}`),
    ...processes.flatMap((process) => [...process.leaked()]).map((name) => `the secret ${name} stands in the log`),
    ...findSecrets(planted, shown).map((name) => `the secret ${name} was shown to people`),
  ];
}
