// `herald runs log`: the last entries of a run's transcript, and with -f those that come, until it ends. What was shown is known by its
// place in the transcript, so a gateway that restarts meanwhile costs neither a gap nor a line twice.
import { setTimeout as delay } from "node:timers/promises";
import { isUnfinished } from "../core/run.ts";
import { visibleText } from "../core/visible-text.ts";
import type { LogView } from "../web/run-log.ts";
import { type Call, EXIT, isSet, textOf, UsageError } from "./command.ts";
import { findGateway, GatewayAway } from "./gateway.ts";
import { line } from "./run-lines.ts";
import { openReader, overGateway, type RunReader } from "./run-reader.ts";
import { findRun, targetOf } from "./run-target.ts";
import type { Terminal } from "./terminal.ts";

const LAST = 20;
const PAGE_SIZE = 100;
/** A ring that was lost costs at most this. */
const LOOK_MS = 2_000;
const AWAY_MS = 300;

export async function log(call: Call): Promise<number> {
  const { terminal } = call;
  const count = Number(textOf(call, "lines") ?? LAST);
  if (!Number.isInteger(count) || count < 1) throw new UsageError("--lines is a whole number from 1.");
  const target = targetOf(call, false);
  const show = printer(terminal, isSet(call, "json"));
  const reader = await openReader(terminal);
  try {
    const id = await findRun(reader, target);
    const found = await reader.find(id);
    if (found === null) throw new Error("There is no such run.");
    const entries = await readLast(reader, id, count);
    for (const entry of entries) show(entry);
    if (!isSet(call, "follow") || reader.gateway === null || !isUnfinished(found.run.state)) return EXIT.fine;
    await follow(terminal, { id, from: entries.at(-1)?.position ?? -1, show });
  } finally {
    reader.close();
  }
  return EXIT.fine;
}

type Log = Pick<RunReader, "log">;

async function readLast(reader: Log, id: string, count: number): Promise<LogView[]> {
  const found: LogView[] = [];
  let before: number | null = null;
  do {
    const page = await reader.log(id, { before, limit: Math.min(PAGE_SIZE, count - found.length) });
    found.unshift(...page.entries);
    before = page.before;
  } while (before !== null && found.length < count);
  return found;
}

/** Everything behind this place, oldest first. */
async function readBehind(reader: Log, id: string, from: number): Promise<LogView[]> {
  const found: LogView[] = [];
  let before: number | null = null;
  do {
    const page = await reader.log(id, { before, limit: PAGE_SIZE });
    found.unshift(...page.entries.filter(({ position }) => position > from));
    before = page.before;
  } while (before !== null && before > from);
  return found;
}

interface Following {
  readonly id: string;
  from: number;
  show(entry: LogView): void;
}

async function follow(terminal: Terminal, following: Following): Promise<void> {
  let isAway = false;
  while (!terminal.ended.aborted) {
    try {
      const reader = overGateway(findGateway(terminal));
      const isOver = await catchUp(reader, following);
      isAway = false;
      if (isOver) return;
      await ring(terminal, following.id);
    } catch (error) {
      if (terminal.ended.aborted) return;
      if (!(error instanceof GatewayAway)) throw error;
      if (!isAway) terminal.remark("The gateway is away; this goes on when it is back.");
      isAway = true;
      await delay(AWAY_MS, undefined, { signal: terminal.ended }).catch(() => {});
    }
  }
}

/** Its state before its words: one that had ended by then writes no more. */
async function catchUp(reader: RunReader, following: Following): Promise<boolean> {
  const found = await reader.find(following.id);
  for (const entry of await readBehind(reader, following.id, following.from)) {
    following.show(entry);
    following.from = entry.position;
  }
  return found === null || !isUnfinished(found.run.state);
}

/** Until the run may have changed. */
async function ring(terminal: Terminal, id: string): Promise<void> {
  const over = new AbortController();
  const timer = setTimeout(() => over.abort(), LOOK_MS);
  try {
    for await (const { name, data } of findGateway(terminal).events(over.signal)) {
      if (name === "run" && (data as { id?: string }).id === id) return;
    }
  } catch (error) {
    if (!over.signal.aborted) throw error;
  } finally {
    clearTimeout(timer);
    over.abort();
  }
}

const MARK: Readonly<Record<LogView["kind"], string>> = {
  task: "»",
  sent: "»",
  said: "«",
  call: "→",
  result: "←",
  note: "·",
  summary: "·",
};

function printer(terminal: Terminal, isJson: boolean): (entry: LogView) => void {
  if (isJson)
    return ({ position, at, kind, who, text = "", isError = false }) =>
      terminal.say(JSON.stringify({ position, at, kind, who, text, isError }));
  return ({ at, kind, who, text = "", isError }) => {
    const head = `${terminal.paint("dim", at.slice(11, 19))} ${MARK[kind]} ${line(who)}`;
    const words = visibleText(text).replaceAll("\n", "\n  ");
    terminal.say(`${isError === true ? terminal.paint("red", head) : terminal.paint("bold", head)}\n  ${words}`);
  };
}
