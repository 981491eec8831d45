// Carrying out the tool calls of one model step. Whatever goes wrong is a result the model can read (AG3); each
// result is in the transcript before the next step; an abort is checked before every call and ends a hanging one.
import { hash } from "node:crypto";
import { z } from "zod";
import type { Address } from "../core/address.ts";
import { AppError, publicErrorText } from "../core/errors.ts";
import type { HitFailpoint } from "../core/failpoints.ts";
import { createInTurn } from "../core/in-turn.ts";
import type { Logger } from "../core/logger.ts";
import type { Person } from "../core/question.ts";
import type { Wait } from "../core/run.ts";
import { safeParse } from "../core/safe-parse.ts";
import type { CutSecrets } from "../core/secrets.ts";
import { type Capability, type Tool, type ToolContext, type ToolResult, toolError } from "../core/tool.ts";
import { createTurnstile } from "../core/turnstile.ts";
import { visibleLine, visibleText } from "../core/visible-text.ts";
import type { ToolSpec } from "../models/model.ts";
import type { TranscriptRef } from "../stores/transcripts.ts";
import type { RecordedCall } from "./context.ts";
import type { Gate } from "./gate.ts";
import { capOf, type ResultSpace, readyToCut, toEntry } from "./tool-results.ts";
import { acceptedOf, toSpec } from "./tool-specs.ts";

/** What a call needs to know of the turn it belongs to. */
export interface CallingTurn {
  readonly id: string;
  readonly ref: TranscriptRef;
  readonly sessionKey: string;
  readonly runId: string | null;
  readonly address: Address | null;
  readonly person: Person | null;
  /** What pays for it (`budgets.message`), where that is not the turn itself. */
  readonly message?: string;
  readonly workspace: string;
  readonly readOnly: boolean;
  readonly signal: AbortSignal;
  readonly log: Logger;
  tools(): readonly Tool[];
  onDoing(doing: string): void;
  /** Left out: every call may be made. */
  readonly gate?: Gate;
  /** Where another process may have ended it: asked of its row before every call of a model or a tool. */
  isOver?(): Promise<boolean>;
  /** Its result is on record (`Tool.endsTurn`): no further call of a model or a tool is made. Asked of rows, so it holds after a restart. */
  isFinished?(): Promise<boolean>;
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
  readonly made: readonly RecordedCall[];
}

export interface CallsDone {
  /** Of calls and results, by which a turn notices that it goes in circles. */
  readonly digest: string;
  readonly waits: readonly Wait[];
}

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
  const made = async (turn: CallingTurn, call: RecordedCall, isAgain: boolean): Promise<ToolResult | { readonly wait: Wait }> => {
    failpoint("turn.before-tool");
    const result = await carryOut(turn, call, { secrets, isAgain });
    failpoint("turn.after-tool");
    return result;
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
        const result = await made(turn, call, false);
        if ("wait" in result) {
          waits.push(result.wait);
          return "";
        }
        if (isLeft(turn, call)) return "";
        await space.append([toEntry(call, readyToCut(result, secrets), cap)]);
        failpoint("turn.result-appended");
        // The results themselves may be large, and this is kept until the next step is done.
        return hash("sha256", JSON.stringify([call.name, call.args, result.text, result.quoted?.text]), "base64");
      };
      const allowed = calls.slice(0, MAX_CALLS);
      // What ends the turn is decided first: carried out before it in the model's order, the others would change things behind a result
      // that is final already.
      const ending = await inOrder(
        allowed.filter((call) => endsTurn(turn, call)),
        one,
        () => false,
      );
      const carried = allowed.filter((call) => !endsTurn(turn, call));
      const pass = createTurnstile();
      // A model that sends somebody out and tells or stops them in one answer means the one it sent out.
      const inTurn = createInTurn();
      const begin = (call: RecordedCall): Promise<string> => {
        const start = (): Promise<string> => pass().then(() => one(call));
        return toolOf(turn, call)?.capability === "session" ? inTurn(start) : start();
      };
      // What must come after a call that waits is not begun: it would read what isn't there yet.
      const done = isParallel(turn, carried) ? await allOf(carried.map(begin)) : await inOrder(carried, one, () => waits.length > 0);
      done.unshift(...ending);
      await space.append(calls.slice(MAX_CALLS).map((call) => toEntry(call, toolError(OVER_CAP), cap)));
      return { digest: done.join(), waits };
    },
    async resume(turn, left, space) {
      const cap = capOf(left.made.length, space);
      const waits: Wait[] = [];
      // One after the other, those behind a call that waited were never begun: nothing of them is unknown.
      const inSequence = !isParallel(turn, left.made);
      let isBehindWait = false;
      const isFirst = (call: RecordedCall): number => Number(!endsTurn(turn, call));
      for (const call of left.calls.toSorted((one, other) => isFirst(one) - isFirst(other))) {
        // A yes is used up before its call begins: with one that is not, nothing was lost in a crash.
        const isHeld = (await turn.gate?.isUnbegun(contextOf(turn, call, secrets))) === true;
        const isKnown = isBehindWait || isHeld || isRepeatable(turn, call) || (await isRefused(turn, call));
        const result = isKnown ? await made(turn, call, true) : toolError(UNKNOWN_OUTCOME);
        if ("wait" in result) waits.push(result.wait);
        else if (!isLeft(turn, call)) await space.append([toEntry(call, readyToCut(result, secrets), cap)]);
        if (inSequence && waits.length > 0) break;
        isBehindWait ||= inSequence && (isHeld || canWait(turn, call));
      }
      return waits;
    },
  };
}

const toolOf = (turn: CallingTurn, call: RecordedCall): Tool | undefined => turn.tools().find((known) => known.name === call.name);

const endsTurn = (turn: CallingTurn, call: RecordedCall): boolean => toolOf(turn, call)?.endsTurn === true;

/** The turn is over with a result: what stood beside it in the same step was never begun. */
const isRefused = async (turn: CallingTurn, call: RecordedCall): Promise<boolean> =>
  !endsTurn(turn, call) && (await turn.isFinished?.()) === true;

/** Calls that change something run one after the other, in the model's order. */
const isParallel = (turn: CallingTurn, calls: readonly RecordedCall[]): boolean =>
  calls.every((call) => PARALLEL.has(toolOf(turn, call)?.capability ?? "write"));

/** Was it a wait that kept this call without a result? Of a tool that can wait, only such a call may be made again. */
const canWait = (turn: CallingTurn, call: RecordedCall): boolean => toolOf(turn, call)?.waitsFor !== undefined && isRepeatable(turn, call);

/**
 * Ended, or put aside, while it was looked at. What such a call waited for may have come, an answer that somebody gave once: as its
 * result there would stand only that the turn was ended, and nobody would ever read the answer. Without one it is made again.
 */
const isLeft = (turn: CallingTurn, call: RecordedCall): boolean => turn.signal.aborted && canWait(turn, call);

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

interface Making {
  readonly secrets: CutSecrets;
  readonly isAgain: boolean;
}

async function carryOut(
  turn: CallingTurn,
  call: RecordedCall,
  { secrets, isAgain }: Making,
): Promise<ToolResult | { readonly wait: Wait }> {
  if (turn.signal.aborted || (await turn.isOver?.()) === true) return toolError(`Not started: ${whyAborted(turn)}.`);
  if (await isRefused(turn, call)) return toolError("Not carried out: the run is finished.");
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
    const asked = contextOf(turn, call, secrets);
    const decision = (await turn.gate?.decide({ tool, args: args.data, context: asked, isAgain })) ?? { go: true };
    if (!("go" in decision)) return "wait" in decision ? decision : decision.refused;
    const context = decision.basis === undefined ? asked : { ...asked, basis: decision.basis };
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
    person: turn.person,
    ...(turn.message === undefined ? {} : { message: turn.message }),
    workspace: turn.workspace,
    readOnly: turn.readOnly,
    signal: turn.signal,
    get log() {
      return turn.log;
    },
    secrets,
    progress: (text) => turn.onDoing(`${call.name}: ${visibleLine(secrets.redact(visibleText(text)), MAX_PROGRESS)}`),
  };
}
