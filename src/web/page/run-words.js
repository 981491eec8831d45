// What a run is doing, in words: for its line on the board and for the panel that shows it.
import { cost, duration, tokens } from "./words.js";

export const isUnfinished = (run) => ["queued", "running", "waiting"].includes(run.state);

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

/** Tokens, cost and what became of the announcement; what is not known is left out. */
export function numbersText(run) {
  const spent = [run.tokens === null ? null : tokens(run.tokens), run.costUsd === null ? null : cost(run.costUsd)];
  return [...spent, DELIVERY[run.delivery]].filter((part) => part !== null).join(" · ");
}

export function ageText(run) {
  const since = run.startedAt ?? run.createdAt;
  return run.endedAt === null ? duration(Date.now() - since) : `${duration(Date.now() - run.endedAt)} ago`;
}

/** Where it was asked for, when that is not a chat of this page: `Telegram 5551`. */
export const originText = ({ origin }) => origin.charAt(0).toUpperCase() + origin.slice(1);
