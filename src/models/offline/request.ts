// From a request in words to things to do: politeness off, sub-agents first, then clause by clause.
// offline.ts → toErrands → spawn.ts | intents.ts
import { summarise } from "./files.ts";
import { findJob } from "./intents.ts";
import { type Desk, type Job, say } from "./job.ts";
import { delegate, parseDelegation } from "./spawn.ts";
import { VERBS } from "./verbs.ts";

/** One thing to do: its name for a plan, and the work. Null job: no rule fits. */
export interface Errand {
  readonly title: string;
  readonly job: (() => Job) | null;
}

const MAX_ERRANDS = 8;
/** Rules are patterns; on a longer text they would be slow, and it was hardly meant for them. */
const MAX_REQUEST = 8000;

/** The request as things to do, at most a handful. `maySpawn`: false in a sub-agent that must do it itself. */
export function toErrands(request: string, desk: Desk, maySpawn: boolean): Errand[] {
  if (request.length > MAX_REQUEST) {
    return [{ title: "a very long request", job: () => say(`That is longer than the ${MAX_REQUEST} characters my rules can follow.`) }];
  }
  const text = polish(request);
  const delegation = parseDelegation(text);
  if (delegation !== null && maySpawn) return [{ title: text, job: () => delegate(desk, delegation) }];
  const own = delegation === null ? text : polish(delegation.what);
  const whole = findJob(own, desk, true);
  const clauses = whole === null ? splitClauses(own) : [];
  return whole === null
    ? clauses.slice(0, MAX_ERRANDS).map((clause) => ({ title: clause, job: findJob(clause, desk, false) }))
    : [{ title: own, job: whole }];
}

/** A request no rule fits may still name a file or folder: that much can be looked at. */
export function lookAtMentioned(text: string, desk: Desk): (() => Job) | null {
  const path = /(?<![\w:/])(?:`(?<ticked>[\w@~./-]+)`|(?<bare>[\w@~-]+(?:\/[\w@~.-]+)+|[\w-]+\.(?:md|txt|[cm]?[jt]s|json5?)))/.exec(
    text,
  )?.groups;
  const target = path?.ticked ?? path?.bare?.replace(/\.$/, "");
  return target === undefined ? null : () => lookOnly(desk, target, text);
}

function* lookOnly(desk: Desk, target: string, text: string): Job {
  const seen = yield* summarise(desk, target, text);
  const limit = `I have no rule for this request, so I only looked at \`${target}\`.`;
  return { ...seen, text: `${limit}\n\n${seen.text}`, blockers: [limit, ...(seen.blockers ?? [])] };
}

const BETWEEN = new RegExp(`\\s*;\\s*|\\s*\\n+\\s*|,?\\s+(?:and\\s+)?then,?\\s+|[.!]\\s+(?=[A-Z])|(?:,|,?\\s+and)\\s+(?=(?:${VERBS})\\s)`);

/** "wait 5 seconds, then list src and read README.md" → three clauses; bullets and numbers before them go. */
function splitClauses(text: string): string[] {
  // A separator inside back-ticks belongs to the command.
  const held: string[] = [];
  const safe = text.replace(/`[^`]*`/g, (code) => `\uE000${held.push(code) - 1}\uE000`);
  return safe
    .split(BETWEEN)
    .map((clause) =>
      polish((clause ?? "").replace(/\uE000(\d+)\uE000/g, (_, n: string) => held[Number(n)] ?? "").replace(/^(?:[-*•]|\d+[.)])\s+/, "")),
    )
    .filter((clause) => clause !== "");
}

/** Without the politeness around it, and without "(2 of 3)" that numbers equal tasks. */
function polish(text: string): string {
  let plain = text
    .replace(/[\u200b-\u200f\u202a-\u202e\u2066-\u2069]/g, "")
    .trim()
    .replace(/\s*\(\d+ of \d+\)$/, "");
  const opening =
    /^(?:(?:hi|hello|hey)(?:\s+herald|\s+there)?\s*[,!.]\s+|@?herald[,:]\s+|please,?\s+|(?:can|could|would|will)\s+you\s+(?:please\s+)?|i\s+(?:want|would like)\s+you\s+to\s+|now,?\s+|first,?\s+|also,?\s+|and\s+)/i;
  for (let n = 0; n < 4 && opening.test(plain); n++) plain = plain.replace(opening, "");
  return plain.replace(/,?\s+please[.!?]?$/i, "").trim();
}
