// The board as the page asks for it (WB4): which runs, by what its address says, and one line of each. What an address says that makes no
// sense is left out and named, so that nobody takes the whole list for what was looked for.
import { isChannelName } from "../core/address.ts";
import { parseKey } from "../core/ids.ts";
import { RUN_STATES, type RunState } from "../core/run.ts";
import { RUN_RANKS, type RunFilter, type RunPlace, type RunRank } from "../stores/run-search.ts";
import type { RunView } from "./board.ts";

/** A run as a line of the board. */
export interface RunLine extends RunView {
  readonly rank: RunRank;
  readonly seq: number;
  readonly agentId: string;
  readonly model: string;
  /** The main session at the top of its tree. */
  readonly sessionKey: string;
  /** Why it ended as it did, or why its announcement did not arrive; of one that is done the first words of what came of it. */
  readonly outcome: string | null;
  /** It has a limit of its own, which can be raised. */
  readonly hasBudget: boolean;
}

export interface RunLinePage {
  readonly rows: readonly RunLine[];
  /** Those that sent these out and are not among them: for their place in the tree. */
  readonly above: readonly RunLine[];
  readonly next: RunPlace | null;
}

export interface RunTotalsView {
  readonly states: Readonly<Record<string, number>>;
  readonly needy: number;
  readonly isWhole: boolean;
  /** What there is to choose from. */
  readonly agents: readonly string[];
  readonly models: readonly string[];
  readonly channels: readonly string[];
  readonly chats: readonly { readonly key: string; readonly origin: string; readonly chat: string | null }[];
}

export interface RunLines {
  page(filter: RunFilter, after: RunPlace | null, limit: number): Promise<RunLinePage>;
  among(filter: RunFilter, ids: readonly string[]): Promise<readonly RunLine[]>;
  totals(filter: RunFilter): Promise<RunTotalsView>;
}

export interface ReadFilter {
  readonly filter: RunFilter;
  /** What was left out, in words. */
  readonly dropped: readonly string[];
}

const MAX_TEXT = 200;
const MAX_NAME = 300;
const HOUR_MS = 3_600_000;
const TIMES: ReadonlyMap<string, number> = new Map([
  ["1h", HOUR_MS],
  ["24h", 24 * HOUR_MS],
  ["7d", 7 * 24 * HOUR_MS],
  ["30d", 30 * 24 * HOUR_MS],
]);
const LIVE: readonly RunState[] = ["queued", "running", "waiting"];
const isState = (word: string): word is RunState => (RUN_STATES as readonly string[]).includes(word);

/** Undefined: that is none. */
type Side = (value: string, now: number) => RunFilter | undefined;

const name =
  (side: "agentId" | "model" | "channel"): Side =>
  (value) =>
    value.length <= MAX_NAME ? { [side]: value } : undefined;

const SIDES: ReadonlyMap<string, Side> = new Map<string, Side>([
  ["agent", name("agentId")],
  ["model", name("model")],
  ["channel", (value) => (isChannelName(value) ? { channel: value } : undefined)],
  ["chat", (value) => (parseKey(value)?.kind === "chat" ? { rootKey: value } : undefined)],
  ["cost", (value) => (/^\d{1,7}(?:\.\d{1,6})?$/.test(value) ? { minCostUsd: Number(value) } : undefined)],
  ["time", (value, now) => (TIMES.has(value) ? { since: now - (TIMES.get(value) ?? 0) } : undefined)],
  ["q", (value) => (value.length <= MAX_TEXT ? { text: value } : undefined)],
]);

/** `running,waiting`, `live`, `needs`: any of them. */
function readStates(value: string, dropped: string[]): RunFilter {
  const words = [...new Set(value.split(","))].slice(0, 20);
  const isKnown = (word: string): boolean => isState(word) || word === "live" || word === "needs";
  const known = words.filter(isKnown);
  for (const word of words) if (!isKnown(word)) dropped.push(shown("state", word));
  if (known.length === 0) return {};
  if (known.includes("needs")) return { isNeedy: true };
  return { states: known.flatMap((word) => (word === "live" ? LIVE : isState(word) ? [word] : [])) };
}

const shown = (key: string, value: string): string => `${key.slice(0, 40)}=${value.length > 40 ? `${value.slice(0, 40)}…` : value}`;

/** Names that are nobody's are the caller's to take out before. */
export function readFilter(query: URLSearchParams, now: number): ReadFilter {
  const dropped: string[] = [];
  let filter: RunFilter = {};
  for (const [key, value] of query) {
    if (value === "") continue;
    const side = key === "state" ? readStates(value, dropped) : SIDES.get(key)?.(value, now);
    if (side === undefined) dropped.push(shown(key, value));
    else filter = { ...filter, ...side };
  }
  return { filter, dropped };
}

export const placeText = ({ rank, seq }: RunPlace): string => `${rank}.${seq}`;

/** Undefined: this is none. */
export function readPlace(text: string): RunPlace | undefined {
  const [, rank, seq] = /^([a-z]+)\.(-?\d{1,16})$/.exec(text) ?? [];
  const known = RUN_RANKS.find((one) => one === rank);
  return known === undefined ? undefined : { rank: known, seq: Number(seq) };
}
