// May this tool call be made? Asked in one place, right before a tool runs (tool-calls.ts); who answers is wired by app/. A decision
// is made anew each time the call is: what it rests on are rows, so a call that waited for a person finds its answer after any restart.
import type { Wait } from "../core/run.ts";
import type { Tool, ToolContext, ToolResult } from "../core/tool.ts";

/** A call whose arguments fit, about to be made. */
export interface WantedCall {
  readonly tool: Tool;
  readonly args: unknown;
  readonly context: ToolContext;
  /** It stood without a result in the transcript: it may have been asked about before. */
  readonly isAgain: boolean;
}

export type Decision =
  /** `basis`: what the permission rests on (`Preview`). A tool that finds something else does nothing. */
  | { readonly go: true; readonly basis?: string }
  | { readonly wait: Wait }
  /** What the model reads instead of a result. */
  | { readonly refused: ToolResult };

export interface Gate {
  decide(call: WantedCall): Promise<Decision>;
  /** It was held back here and not let through since: nothing of it has begun, whatever its tool is. */
  isUnbegun(context: ToolContext): Promise<boolean>;
}
