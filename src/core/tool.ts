// What a tool is. Tools are arguments of a turn: agents/ runs whatever it is handed and never knows who made it.
import type { z } from "zod";
import type { Address } from "./address.ts";
import type { Quoted } from "./fence.ts";
import type { Logger } from "./logger.ts";
import type { Person } from "./question.ts";
import type { Wait } from "./run.ts";
import type { CutSecrets } from "./secrets.ts";
import { replaceUnseen } from "./visible-text.ts";

/** What a tool touches; the policy and the role postures decide by this, not by its name. */
export type Capability = "read" | "write" | "exec" | "net" | "memory" | "session";

/** Who is calling, and where: made by the runtime, never by the model. */
export interface ToolContext {
  readonly agentId: string;
  readonly sessionKey: string;
  readonly sessionId: string;
  /** The turn this call belongs to; with `callId` the key that makes a repeated call recognisable after a crash. */
  readonly turnId: string;
  /** Names the call for good; a provider's own id for it may come again in the same turn. */
  readonly callId: string;
  /** When the model made the call; the same when it is made again after a wait or a restart. */
  readonly calledAt: number;
  /** The run whose child session this is, or null in a main session. */
  readonly runId: string | null;
  readonly address: Address | null;
  /** Whose message is being worked on; null: nobody's in particular. */
  readonly person: Person | null;
  /** The message that pays for what the call sets off, where it is not the turn's own. */
  readonly message?: string;
  readonly workspace: string;
  /** The workspace may only be read (roles explore, verifier). */
  readonly readOnly: boolean;
  /** What a person's yes to this call rests on (`Preview.basis`): whoever finds something else does nothing. */
  readonly basis?: string;
  readonly signal: AbortSignal;
  readonly log: Logger;
  readonly secrets: CutSecrets;
  /** A short line about what is going on, for the page and `/subagents list`. */
  progress(text: string): void;
}

export interface ToolResult {
  /** Our own words; they stand behind what is quoted. */
  readonly text: string;
  /** What nobody of ours wrote: a file, a page, a program, a server, a sub-agent. Models read it behind a fence (IN4). */
  readonly quoted?: Quoted;
  readonly isError?: boolean;
}

/** What a call would do, for the person who is asked whether it may (QA4). */
export interface Preview {
  /** Markdown, complete: what isn't shown isn't allowed. */
  readonly markdown: string;
  /** What it rests on beside the arguments, a file's present content say: changed since, the yes means nothing any more. */
  readonly basis?: string;
}

export interface Tool<S extends z.ZodType = z.ZodType> {
  readonly name: string;
  /** One paragraph a model understands. */
  readonly description: string;
  readonly schema: S;
  readonly capability: Capability;
  /** Calling again with the same turn and call id has no second effect, so a resumed turn may simply call it again. */
  readonly repeatable?: boolean | ((args: z.output<S>) => boolean);
  /** Taken, it ends the turn (`CallingTurn.isFinished`): it is made before the other calls of its step, and none of those after it. */
  readonly endsTurn?: boolean;
  /**
   * What must come true before the call is carried out, asked anew each time; null: nothing any more. Until then the turn waits
   * as a row, without its slot, and the call is made again afterwards: so it must follow from arguments and rows alone.
   */
  waitsFor?(args: z.output<S>, context: ToolContext): Promise<Wait | null>;
  /** Left out: the arguments say it all. What it throws refuses the call. */
  preview?(args: z.output<S>, context: ToolContext): Promise<Preview>;
  /** Failures the model can act on are results with `isError`; what throws is a bug and becomes one too. */
  run(args: z.output<S>, context: ToolContext): Promise<ToolResult>;
}

/** Keeps the schema's type inside `run` while the list of tools forgets it. */
export const defineTool = <S extends z.ZodType>(tool: Tool<S>): Tool => tool as unknown as Tool;

/** What somebody else wrote, and what we have to say about it. */
export const toolQuote = (source: string, text: string, remark = ""): ToolResult => ({ text: remark, quoted: { source, text } });
export const toolError = (text: string): ToolResult => ({ text, isError: true });
export const toolJson = (value: unknown): ToolResult => ({ text: JSON.stringify(value) });

/** Arguments for people's eyes: one line, and what can't be seen is spelled out, so that a command reads as it was run. */
export const argsText = (args: unknown): string =>
  replaceUnseen(JSON.stringify(args) ?? "", (char) => `\\u{${char.codePointAt(0)?.toString(16)}}`);
