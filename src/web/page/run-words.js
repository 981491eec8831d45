// What a run is doing, in words: for its line on the board and for the panel that shows it.
import { clockTime, cost, dayKey, dayName, duration, tokens } from "./words.js";

export const isUnfinished = (run) => ["queued", "running", "waiting"].includes(run.state);

/** What each state means, in a word; those that failed differ. */
export const STATE_WORDS = {
  queued: "queued",
  running: "running",
  waiting: "waiting",
  done: "done",
  error: "failed",
  timeout: "timed out",
  stopped: "stopped",
  interrupted: "interrupted",
};

export const stateWord = (run) => (run.isAsking ? "asks you" : (STATE_WORDS[run.state] ?? run.state));

const DELIVERY = {
  none: null,
  pending: "announcement pending",
  sending: "announcing",
  delivered: "delivered",
  skipped: "no announcement",
  blocked: "not delivered",
};

/** `running · 2/5 Read the sources · read a.md`, `queued, number 3`, `done in 42s` */
export function stateText(run) {
  if (run.state === "queued") return run.position === null ? "queued" : `queued, number ${run.position}`;
  if (run.state === "running") return ["running", run.step, run.doing].filter(Boolean).join(" · ");
  // What it does is to wait, and for what.
  if (run.state === "waiting") return [run.doing ?? "waiting", run.step].filter(Boolean).join(" · ");
  return run.endedAt === null || run.startedAt === null ? run.state : `${run.state} in ${duration(run.endedAt - run.startedAt)}`;
}

/** What is held back goes out with others, and whoever looks wants to know when. */
function deliveryText({ delivery, digestAt, group }) {
  if (delivery === "pending" && group !== null) return "announced with its group";
  return delivery !== "pending" || digestAt === null ? DELIVERY[delivery] : `goes out with the digest at ${moment(digestAt)}`;
}

const moment = (at) => (dayKey(at) === dayKey(Date.now()) ? clockTime(at) : `${clockTime(at)}, ${dayName(at)}`);

/** Its group, tokens, cost and what became of the announcement; what is not known is left out. Of a side that has a limit, what is spent of it. */
export function numbersText(run) {
  const used = run.tokens === null ? null : tokens(run.tokens);
  const paid = run.costUsd === null ? null : cost(run.costUsd);
  const spent = [run.limit?.tokens ?? used, run.limit?.usd ?? paid];
  const group = run.group === null ? null : `group ${run.group}`;
  return [group, ...spent, deliveryText(run)].filter((part) => part !== null).join(" · ");
}

/** `$0.12 of $0.50, 18k of 20k tokens` */
export const spentText = ({ usd, tokens: count }) => [usd, count].filter((part) => part !== null).join(", ");

export function ageText(run) {
  const since = run.startedAt ?? run.createdAt;
  return run.endedAt === null ? duration(Date.now() - since) : `${duration(Date.now() - run.endedAt)} ago`;
}

/** Where it was asked for, when that is not a chat of this page: `Telegram 5551`. */
export const originText = ({ origin }) => origin.charAt(0).toUpperCase() + origin.slice(1);
