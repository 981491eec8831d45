// Carrying out the tool calls of one model step. Whatever goes wrong is a result the model can read (AG3); each
// result is in the transcript before the next step; an abort is checked before every call and ends a hanging one.
import { hash } from "node:crypto";
import { z } from "zod";
import type { Address } from "../core/address.ts";
import { AppError, publicErrorText } from "../core/errors.ts";
import type { HitFailpoint } from "../core/failpoints.ts";
import { disarm, fence, newFenceToken } from "../core/fence.ts";
import { createInTurn } from "../core/in-turn.ts";
import type { Logger } from "../core/logger.ts";
import type { Wait } from "../core/run.ts";
import { safeParse } from "../core/safe-parse.ts";
import type { CutSecrets } from "../core/secrets.ts";
import { type Capability, type Tool, type ToolContext, type ToolResult, toolError } from "../core/tool.ts";
import { createTurnstile } from "../core/turnstile.ts";
import { capText, visibleLine, visibleText } from "../core/visible-text.ts";
import type { ToolSpec } from "../models/model.ts";
import type { NewEntry, TranscriptRef } from "../stores/transcripts.ts";
import type { RecordedCall } from "./context.ts";

/** What a call needs to know of the turn it belongs to. */
export interface CallingTurn {
  readonly id: string;
  readonly ref: TranscriptRef;
  readonly sessionKey: string;
  readonly runId: string | null;
  readonly address: Address | null;
  readonly workspace: string;
  readonly readOnly: boolean;
  readonly signal: AbortSignal;
  readonly log: Logger;
  tools(): readonly Tool[];
  onDoing(doing: string): void;
  /** Where another process may have ended it: asked of its row before every call of a model or a tool. */
  isOver?(): Promise<boolean>;
}

/** Where results go, and what all of a step together may take: more than the window holds would be of no use to anybody. */
export interface ResultSpace {
  readonly maxChars: number;
  append(fresh: readonly NewEntry[]): Promise<void>;
}

export interface ToolCalls {
  /**
   * Every call gets a result, the first hundred by being carried out; but for those that wait, and those that must come after
   * one that does: they have none until they are resumed.
   */
  run(turn: CallingTurn, calls: readonly RecordedCall[], space: ResultSpace): Promise<CallsDone>;
  /** Calls that waited, or that a crash left without a result: repeatable ones are made again, of the others the outcome is unknown. */
  resume(turn: CallingTurn, left: LeftCalls, space: ResultSpace): Promise<readonly Wait[]>;
  /** What the model is told of the tools, and how long that is as JSON. */
  specs(tools: readonly Tool[]): { specs: ToolSpec[]; chars: number };
}

/** Of the calls a step `made`, those without a result. */
export interface LeftCalls {
  readonly calls: readonly RecordedCall[];
  readonly made: number;
}

export interface CallsDone {
  /** Of calls and results, by which a turn notices that it goes in circles. */
  readonly digest: string;
  readonly waits: readonly Wait[];
}

const MAX_RESULT = 64 * 1024;
/** A result that is cut shorter than this says nothing any more. */
const LEAST_RESULT = 500;
const MAX_CALLS = 100;
const MAX_PROGRESS = 200;
const PARALLEL: ReadonlySet<Capability> = new Set(["read", "net", "session"]);
const OVER_CAP = `Not carried out: at most ${MAX_CALLS} calls of one answer are. Call it again if it is still needed.`;
const UNKNOWN_OUTCOME = "The gateway restarted while this tool ran. Whether it took effect is unknown: check before you do it again.";

export interface ToolCallDeps {
  readonly failpoint: HitFailpoint;
  readonly secrets: CutSecrets;
}

export function createToolCalls({ failpoint, secrets }: ToolCallDeps): ToolCalls {
  // Made once per tool: the conversion costs more than the rest of a step.
  const known = new WeakMap<Tool, { spec: ToolSpec; chars: number }>();
  const described = (tool: Tool): { spec: ToolSpec; chars: number } => {
    const found = known.get(tool);
    if (found !== undefined) return found;
    const spec = toSpec(tool);
    const fresh = { spec, chars: JSON.stringify(spec).length };
    known.set(tool, fresh);
    return fresh;
  };
  return {
    specs(tools) {
      const all = tools.map(described);
      return { specs: all.map(({ spec }) => spec), chars: all.reduce((sum, { chars }) => sum + chars + 1, 2) };
    },
    async run(turn, calls, space) {
      const cap = capOf(calls.length, space);
      const waits: Wait[] = [];
      const one = async (call: RecordedCall): Promise<string> => {
        failpoint("turn.before-tool");
        const result = await carryOut(turn, call, secrets);
        failpoint("turn.after-tool");
        if ("wait" in result) {
          waits.push(result.wait);
          return "";
        }
        await space.append([toEntry(call, readyToCut(result, secrets), cap)]);
        failpoint("turn.result-appended");
        // The results themselves may be large, and this is kept until the next step is done.
        return hash("sha256", JSON.stringify([call.name, call.args, result.text, result.quoted?.text]), "base64");
      };
      const carried = calls.slice(0, MAX_CALLS);
      const pass = createTurnstile();
      // A model that sends somebody out and tells or stops them in one answer means the one it sent out.
      const inTurn = createInTurn();
      const begin = (call: RecordedCall): Promise<string> => {
        const start = (): Promise<string> => pass().then(() => one(call));
        return toolOf(turn, call)?.capability === "session" ? inTurn(start) : start();
      };
      // What must come after a call that waits is not begun: it would read what isn't there yet.
      const done = isParallel(turn, carried) ? await allOf(carried.map(begin)) : await inOrder(carried, one, () => waits.length > 0);
      await space.append(calls.slice(MAX_CALLS).map((call) => toEntry(call, toolError(OVER_CAP), cap)));
      return { digest: done.join(), waits };
    },
    async resume(turn, { calls, made }, space) {
      const cap = capOf(made, space);
      const waits: Wait[] = [];
      // One after the other, those behind a call that waited were never begun: nothing of them is unknown.
      const inSequence = !isParallel(turn, calls);
      let isBehindWait = false;
      for (const call of calls) {
        const isKnown = isBehindWait || isRepeatable(turn, call);
        const result = isKnown ? await carryOut(turn, call, secrets) : toolError(UNKNOWN_OUTCOME);
        if ("wait" in result) waits.push(result.wait);
        else await space.append([toEntry(call, readyToCut(result, secrets), cap)]);
        if (inSequence && waits.length > 0) break;
        isBehindWait ||= inSequence && canWait(turn, call);
      }
      return waits;
    },
  };
}

/** Characters for each result of a step of so many calls. */
const capOf = (count: number, { maxChars }: ResultSpace): number =>
  Math.max(LEAST_RESULT, Math.min(MAX_RESULT, Math.floor(maxChars / Math.max(1, count))));

const toolOf = (turn: CallingTurn, call: RecordedCall): Tool | undefined => turn.tools().find((known) => known.name === call.name);

/** Calls that change something run one after the other, in the model's order. */
const isParallel = (turn: CallingTurn, calls: readonly RecordedCall[]): boolean =>
  calls.every((call) => PARALLEL.has(toolOf(turn, call)?.capability ?? "write"));

/** Was it a wait that kept this call without a result? Of a tool that can wait, only such a call may be made again. */
const canWait = (turn: CallingTurn, call: RecordedCall): boolean => toolOf(turn, call)?.waitsFor !== undefined && isRepeatable(turn, call);

/** One that throws ends the turn, but only when the others are over: what they append later would stand in the middle of the next try. */
async function allOf<T>(works: readonly Promise<T>[]): Promise<T[]> {
  await Promise.allSettled(works);
  return Promise.all(works);
}

async function inOrder<T, R>(items: readonly T[], work: (item: T) => Promise<R>, isOver: () => boolean): Promise<R[]> {
  const results: R[] = [];
  for (const item of items) {
    if (isOver()) break;
    results.push(await work(item));
  }
  return results;
}

function isRepeatable(turn: CallingTurn, call: RecordedCall): boolean {
  const tool = toolOf(turn, call);
  if (typeof tool?.repeatable !== "function") return tool?.repeatable === true;
  const args = safeParse(tool.schema, call.args ?? {});
  return args.success && tool.repeatable(args.data);
}

async function carryOut(turn: CallingTurn, call: RecordedCall, secrets: CutSecrets): Promise<ToolResult | { readonly wait: Wait }> {
  if (turn.signal.aborted || (await turn.isOver?.()) === true) return toolError(`Not started: ${whyAborted(turn)}.`);
  if (call.invalid !== undefined) return toolError(call.invalid);
  const tools = turn.tools();
  const tool = tools.find((known) => known.name === call.name);
  if (tool === undefined) {
    return toolError(
      `There is no tool "${call.name.slice(0, 100)}" here. Available: ${tools.map((known) => known.name).join(", ") || "none"}.`,
    );
  }
  const args = safeParse(tool.schema, call.args ?? {});
  if (!args.success) return toolError(`Bad arguments for ${tool.name}: ${z.prettifyError(args.error)}\nAccepted: ${acceptedOf(tool)}.`);
  turn.onDoing(tool.name);
  try {
    const context = contextOf(turn, call, secrets);
    const wait = (await tool.waitsFor?.(args.data, context)) ?? null;
    if (wait !== null) return { wait };
    // Stopped while it was looked at: nothing of it may start any more (ST2).
    if (turn.signal.aborted) return toolError(`Not started: ${whyAborted(turn)}.`);
    return await unlessAborted(turn, tool.run(args.data, context));
  } catch (error) {
    // A server beside us that was away for a moment may have done what was asked: told that it failed, the model would do it again, or do
    // without. The turn breaks off instead, and what has no result is taken up when it goes on.
    if (turn.isOver !== undefined && error instanceof AppError && error.code === "storage") throw error;
    turn.log.warn({ err: error, tool: tool.name }, "a tool threw");
    return toolError(`${tool.name} failed: ${publicErrorText(error)}`);
  }
}

/** A tool that ignores its signal must not hold the turn. */
async function unlessAborted(turn: CallingTurn, work: Promise<ToolResult>): Promise<ToolResult> {
  const { promise, resolve } = Promise.withResolvers<ToolResult>();
  const stop = (): void => resolve(toolError(`Stopped while it ran: ${whyAborted(turn)}.`));
  turn.signal.addEventListener("abort", stop, { once: true });
  try {
    return await Promise.race([work, promise]);
  } finally {
    // Left in place, it would hold every result of a long turn in memory until the turn ends.
    turn.signal.removeEventListener("abort", stop);
  }
}

/** A main session is stopped by its person; a run perhaps by its requester. */
const whyAborted = ({ signal, runId }: CallingTurn): string =>
  signal.reason !== "stop" ? "the turn was ended" : runId === null ? "stopped by the person" : "the run was stopped";

function contextOf(turn: CallingTurn, call: RecordedCall, secrets: CutSecrets): ToolContext {
  return {
    agentId: turn.ref.agentId,
    sessionKey: turn.sessionKey,
    sessionId: turn.ref.sessionId,
    turnId: turn.id,
    callId: call.entryId,
    calledAt: call.calledAt,
    runId: turn.runId,
    address: turn.address,
    workspace: turn.workspace,
    readOnly: turn.readOnly,
    signal: turn.signal,
    log: turn.log,
    secrets,
    progress: (text) => turn.onDoing(`${call.name}: ${visibleLine(secrets.redact(visibleText(text)), MAX_PROGRESS)}`),
  };
}

/** The transcript redacts too, but only after the cut, which leaves a part of a secret that nobody knows again. */
function readyToCut({ text, quoted, ...result }: ToolResult, { redact }: CutSecrets): ToolResult {
  const ready = (whole: string): string => redact(visibleText(whole));
  return { ...result, text: ready(text), ...(quoted === undefined ? {} : { quoted: { ...quoted, text: ready(quoted.text) } }) };
}

/**
 * Fenced once, here, and stored so: later calls send the same bytes. Cut first, or the fence would lose its end. In our own
 * words stand paths, names and labels that somebody else may have chosen, so no mark means anything there either.
 */
function resultText({ text, quoted }: ToolResult, max: number): string {
  const cap = (whole: string): string => capText(whole, max, "ask for a smaller part");
  const own = disarm(cap(text));
  if (quoted === undefined) return own;
  return [fence({ ...quoted, text: cap(quoted.text) }, newFenceToken()), ...(own === "" ? [] : [own])].join("\n");
}

const toEntry = (call: RecordedCall, result: ToolResult, max: number): NewEntry => ({
  type: "tool_result",
  callId: call.id,
  name: call.name,
  text: resultText(result, max),
  isError: result.isError === true,
});

function toSpec(tool: Tool): ToolSpec {
  const { $schema: _, ...parameters } = z.toJSONSchema(tool.schema, { io: "input" });
  return { name: tool.name, description: tool.description, parameters };
}

function acceptedOf(tool: Tool): string {
  const { properties, required } = toSpec(tool).parameters as { properties?: Record<string, unknown>; required?: string[] };
  return Object.keys(properties ?? {})
    .map((name) => (required?.includes(name) === true ? `${name} (required)` : name))
    .join(", ");
}
