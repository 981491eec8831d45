// The offline model sending out sub-agents: "in the background, …", "send three helpers to …" → one sessions_spawn
// call per helper in one step, "send a group of three helpers to …" → one call for all of them; then what the runtime answered,
// truthfully, and, woken when the group is through, what its members found.
import { cut, type Desk, failed, type Job, missing, type Result } from "./job.ts";
import { VERBS } from "./verbs.ts";

const MAX_HELPERS = 20;
const NUMBER_WORDS = ["one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten"];
const COUNT = `(?:an?|some|several|the|my|your|\\d{1,3}|${NUMBER_WORDS.join("|")})`;
const HELPERS = "(?:background\\s+)?(?:sub-?\\s?agents?|helpers?|workers?)";
const SEND = new RegExp(
  `^(?:spawn|start|launch|send(?:\\s+out)?|use|create|get|have|let|dispatch|ask)\\s+(an?\\s+group\\s+of\\s+)?(?:(${COUNT})\\s+)?(${HELPERS})\\b(?:\\s+(?:out|off))?` +
    "(?:\\s+(?:to|that|which|who|for|and\\s+(?:let|have)\\s+(?:it|them))\\b|\\s*[:,])?\\s+(.+)$",
  "is",
);

export interface Delegation {
  /** Null: as many as there are things to do. */
  readonly count: number | null;
  readonly what: string;
  /** They are to report together, and it is to be woken then. */
  readonly isGroup: boolean;
  /** What each of them may spend. */
  readonly budget?: { readonly tokens: number } | { readonly usd: number };
}

/** "…, with a budget of 20k tokens": so that limits can be tried without a key. */
const BUDGET = /,?\s+(?:with|on|within)\s+a\s+(?:budget|limit)\s+of\s+(?:\$(\d+(?:\.\d+)?)|(\d+)(k?)\s+tokens)(?:\s+each)?,?/i;

/** Does the person want it done by sub-agents? */
export function parseDelegation(text: string): Delegation | null {
  const [limit, usd, tokens, thousands] = BUDGET.exec(text) ?? [];
  if (limit === undefined) return parseSending(text);
  const delegation = parseSending(text.replace(limit, "").trim());
  const budget = usd === undefined ? { tokens: Number(tokens) * (thousands === "" ? 1 : 1_000) } : { usd: Number(usd) };
  return delegation === null ? null : { ...delegation, budget };
}

function parseSending(text: string): Delegation | null {
  const background =
    /^(?:in|on) the background[,:]?\s+(.+)$/is.exec(text) ??
    /^(.+?),?\s+in (?:the )?background[.!]?$/is.exec(text) ??
    /^delegate:?\s+(.+)$/is.exec(text);
  if (background?.[1] !== undefined) return parseSending(background[1].trim()) ?? { count: 1, what: background[1].trim(), isGroup: false };
  const sent = SEND.exec(text);
  if (sent?.[3] === undefined || sent[4] === undefined) return null;
  const what = sent[4].trim().replace(/[.!]+$/, "");
  if (what === "") return null;
  return { count: toCount(sent[2]?.toLowerCase(), /s$/i.test(sent[3])), what, isGroup: sent[1] !== undefined };
}

function toCount(word: string | undefined, isPlural: boolean): number | null {
  if (word !== undefined && /^\d+$/.test(word)) return Math.max(1, Number(word));
  const index = NUMBER_WORDS.indexOf(word ?? "");
  if (index >= 0) return index + 1;
  return isPlural ? null : 1;
}

const AND = /\s*,\s*(?:and\s+)?|\s+and\s+/;
const BEGINS = new RegExp(`^(?:${VERBS})\\b`, "i");
/** What "look into the north wing" does, without what it is done to. */
const LEAD = /^\S+\s+(?:(?:at|into|through|for|about|over|on|of)\s+)?(?=\S)/;

/** One task per helper: N helpers for N things get one each; N helpers for one thing get numbered tasks. */
function splitTasks({ count, what }: Delegation): string[] {
  if (count === 1) return [what];
  const wholes = what.split(/\s*;\s*|\n+|,?\s+and to\s+/).filter((part) => part !== "");
  if (wholes.length > 1 && (count === null || count === wholes.length)) return wholes.slice(0, MAX_HELPERS);
  const parts = what.split(AND);
  const later = parts.slice(1);
  const isOneEach = later.length > 0 && (count === null || count === parts.length);
  if (isOneEach && later.every((part) => BEGINS.test(part))) return parts.slice(0, MAX_HELPERS);
  const list = findEnumeration(what, count);
  const verb = LEAD.exec(parts[0] ?? "")?.[0];
  if (isOneEach && list === null && count !== null && verb !== undefined && !later.some((part) => BEGINS.test(part)))
    return [parts[0] ?? "", ...later.map((part) => `${verb}${part}`)].slice(0, MAX_HELPERS);
  const number = Math.min(count ?? list?.items.length ?? 1, MAX_HELPERS);
  if (list === null) return number === 1 ? [what] : Array.from({ length: number }, (_, i) => `${what} (${i + 1} of ${number})`);
  const { before, items, after } = list;
  if (items.length >= number) {
    const shares = Array.from({ length: number }, (_, i) => items.filter((_item, n) => n % number === i).join(" and "));
    return shares.map((share) => `${before}${share}${after}`.replace(/\b1 (second|minute)s\b/g, "1 $1"));
  }
  return Array.from({ length: number }, (_, i) => `${before}${items[i % items.length]}${after} (${i + 1} of ${number})`);
}

interface Enumeration {
  readonly before: string;
  readonly items: readonly string[];
  readonly after: string;
}

/** `summarise a/b, c/d and e/f and count their lines` → the paths between a beginning and an end that apply to each. */
function findEnumeration(what: string, count: number | null): Enumeration | null {
  const path = "[`\"']?(?:https?://[^\\s,]+|[\\w@~.-]*[./][\\w@~./-]*[\\w/])[`\"']?";
  // Plain words are only taken for a list when there are as many as helpers, and nothing but a unit follows.
  const patterns = [new RegExp(listOf(path, "+"))];
  if (count !== null && count > 1 && count <= MAX_HELPERS)
    patterns.push(new RegExp(`\\b${listOf("[\\w-]+", `{${count - 1}}`)}(?=\\s*$|\\s+(?:seconds?|minutes?)\\b)`));
  for (const pattern of patterns) {
    const found = pattern.exec(what);
    if (found === null) continue;
    const items = found[0].split(AND);
    const after = what.slice(found.index + found[0].length).replace(/\btheir\b/g, "its");
    return { before: what.slice(0, found.index), items, after };
  }
  return null;
}

const listOf = (item: string, times: string): string => `${item}(?:(?:\\s*,\\s*(?:and\\s+)?|\\s+and\\s+)${item})${times}`;

/** Sends them out in one step and tells which were accepted. */
export function* delegate(desk: Desk, delegation: Delegation): Job {
  if (!desk.has("sessions_spawn")) return missing("sessions_spawn");
  const tasks = splitTasks(delegation);
  const { budget, isGroup } = delegation;
  const limit = budget === undefined ? {} : { budget };
  if (isGroup) return yield* delegateGroup(desk, tasks, limit);
  const results = yield { calls: tasks.map((task) => desk.call("sessions_spawn", { task, label: toLabel(task), ...limit })) };
  const answers = tasks.map((task, index) => readAnswer(toLabel(task), results[index]));
  const accepted = answers.filter((answer) => answer.accepted).length;
  const sent = accepted === tasks.length ? String(accepted) : `${accepted} of ${tasks.length}`;
  const head =
    accepted === 0 ? "No sub-agent was sent out:" : tasks.length === 1 ? "I sent out a sub-agent:" : `I sent out ${sent} sub-agents:`;
  const most = (delegation.count ?? 0) > MAX_HELPERS ? [`I send at most ${MAX_HELPERS} at a time.`] : [];
  const tail =
    accepted === 0
      ? []
      : [
          `${accepted === 1 ? "Its result" : "Their results"} will be announced here. \`/subagents list\` shows what is going on, \`/stop\` ends everything.`,
        ];
  return {
    text: [`${head}\n\n${answers.map((answer) => answer.line).join("\n")}`, ...most, ...tail].join("\n\n"),
    blockers: answers.filter((answer) => !answer.accepted).map((answer) => answer.line),
  };
}

function* delegateGroup(desk: Desk, tasks: readonly string[], limit: Pick<Delegation, "budget">): Job {
  const name = `${tasks.length} helpers`;
  // biome-ignore lint/suspicious/noThenProperty: the tool's word, and nobody awaits it.
  const group = { name, then: "wake" };
  const [result] = yield {
    calls: [desk.call("sessions_spawn", { tasks: tasks.map((task) => ({ task, label: toLabel(task) })), group, ...limit })],
  };
  const answer = parseObject(result?.text);
  if (answer?.status !== "accepted") {
    const line = `- **${name}**: ${answer === null ? failed("sessions_spawn", result).text : cut(String(answer.error ?? "refused"), 500)}`;
    return { text: `No sub-agent was sent out:\n\n${line}`, blockers: [line] };
  }
  const lines = tasks.map((task) => `- **${toLabel(task)}**`);
  const tail = `They are announced together as the group "${name}", and I come back to you then. \`/subagents stop "${name}"\` stops them all.`;
  return { text: [`I sent out a group of ${tasks.length}:\n\n${lines.join("\n")}`, tail].join("\n\n") };
}

const WOKEN = /\[The gateway: the group "([^"]*)" of sub-agents you sent out is complete \(([^)]*)\)/;
const MEMBER = /^\[Sub-agent \S+ — runtime status: (\w+)\]\nThe sub-agent "([^"]*)"[^\n]*\n+([^\n]*)/gm;

/** What it says when it is woken because a group is through; null: that is not what it reads. */
export function afterGroup(text: string): string | null {
  const [, name = "", counts = ""] = WOKEN.exec(text) ?? [];
  if (name === "") return null;
  const members = [...text.matchAll(MEMBER)].map(([, status, label, words = ""]) => `- **${label}**: ${status}, ${cut(words, 200)}`);
  return [`The group "${name}" is complete: ${counts}. In short:`, members.join("\n")].join("\n\n");
}

const toLabel = (task: string): string => cut(task.replace(/[`\s]+/g, " ").trim(), 60);

function readAnswer(label: string, result: Result | undefined): { accepted: boolean; line: string } {
  const answer = parseObject(result?.text);
  if (answer === null) return { accepted: false, line: `- **${label}**: ${failed("sessions_spawn", result).text}` };
  if (answer.status === "accepted") {
    const warning = typeof answer.warning === "string" ? ` (${cut(answer.warning, 300)})` : "";
    return { accepted: true, line: `- **${label}**: run \`${String(answer.runId).slice(0, 8)}\`${warning}` };
  }
  return {
    accepted: false,
    line: `- **${label}**: ${answer.status === "forbidden" ? "not allowed" : "refused"}: ${cut(String(answer.error ?? "no reason given"), 500)}`,
  };
}

function parseObject(text: string | undefined): Record<string, unknown> | null {
  try {
    const value: unknown = JSON.parse(text ?? "");
    return typeof value === "object" && value !== null && "status" in value ? { ...value } : null;
  } catch {
    // Not JSON: an error in words, told as it is.
    return null;
  }
}
