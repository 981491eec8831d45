// `herald runs list`: once, or drawn anew in place for as long as somebody looks at it.
import { setTimeout as delay } from "node:timers/promises";
import { stripVTControlCharacters } from "node:util";
import type { BoardRow } from "../web/board.ts";
import { type Call, EXIT, isSet, UsageError } from "./command.ts";
import { findGateway, type Gateway, GatewayAway } from "./gateway.ts";
import { fitting, runFields, runLine, widthOf } from "./run-lines.ts";
import { openReader } from "./run-reader.ts";
import type { Terminal } from "./terminal.ts";

const NONE = "No sub-agents yet.";
const TICK_MS = 1_000;
const HIDE = "\u001b[?25l";
const SHOW = "\u001b[?25h";

export async function list(call: Call): Promise<number> {
  const { terminal } = call;
  if (call.words.length > 0) throw new UsageError(`runs list takes no further words.`);
  const reader = await openReader(terminal);
  try {
    const rows = await reader.list();
    const isOnce = !terminal.isLive || isSet(call, "json") || isSet(call, "once") || reader.gateway === null;
    if (isSet(call, "json")) for (const run of rows) terminal.say(JSON.stringify(runFields(run)));
    else if (isOnce) for (const text of rows.length === 0 ? [NONE] : linesOf(rows, terminal)) terminal.say(text);
    else await watch(terminal, rows);
  } finally {
    reader.close();
  }
  return EXIT.fine;
}

const linesOf = (rows: readonly BoardRow[], { paint, size }: Terminal): string[] =>
  rows.map((run) => runLine(run, { now: Date.now(), columns: size().columns, paint }));

/** Until Ctrl-C; the cursor is back whatever happens. */
async function watch(terminal: Terminal, first: readonly BoardRow[]): Promise<void> {
  const screen = createScreen(terminal);
  let rows = first;
  let note = "";
  const draw = (): void => screen.draw(frameOf(rows, note, terminal));
  const listen = async (): Promise<void> => {
    while (!terminal.ended.aborted) {
      try {
        const gateway: Gateway = findGateway(terminal);
        for await (const { name, data } of gateway.events(terminal.ended)) {
          if (name !== "runs") continue;
          [rows, note] = [data as BoardRow[], ""];
          draw();
        }
      } catch (error) {
        if (!(error instanceof GatewayAway) && !terminal.ended.aborted) throw error;
      }
      note = "The gateway is away; this is the last it said.";
      await pause(terminal.ended);
    }
  };
  const tick = async (): Promise<void> => {
    while (!terminal.ended.aborted) {
      draw();
      await pause(terminal.ended);
    }
  };
  terminal.write(HIDE);
  try {
    await Promise.race([listen(), tick()]);
  } finally {
    // The terminal itself wrote ^C there.
    terminal.write(`\r\u001b[K${SHOW}`);
  }
}

const pause = (ended: AbortSignal): Promise<void> => delay(TICK_MS, undefined, { signal: ended }).catch(() => {});

/** As many as the screen has room for; those that need somebody and those at work come first anyway. */
function frameOf(rows: readonly BoardRow[], note: string, terminal: Terminal): string[] {
  const { columns, rows: height } = terminal.size();
  const room = Math.max(1, height - 3);
  const lines = rows.length === 0 ? [NONE] : linesOf(rows.slice(0, room), terminal);
  const more = rows.length > room ? `${rows.length - room} more (herald runs list | less)` : "";
  const foot = [more, note, "Ctrl-C ends this"].filter((part) => part !== "").join(" · ");
  return [...lines, terminal.paint("dim", fitting(foot, columns))];
}

/** Draws each frame over the one before, which takes more lines now if the terminal became narrower. */
function createScreen(terminal: Terminal): { draw(lines: readonly string[]): void } {
  let shown: readonly string[] = [];
  return {
    draw(lines) {
      const { columns } = terminal.size();
      const height = shown.reduce((sum, line) => sum + Math.max(1, Math.ceil(widthOf(stripVTControlCharacters(line)) / columns)), 0);
      const back = height === 0 ? "" : `\u001b[${height}A`;
      terminal.write(`${back}\r\u001b[J${lines.join("\n")}\n`);
      shown = lines;
    },
  };
}
