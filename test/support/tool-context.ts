// A ToolContext for tests that call a tool directly.

import { newId } from "../../src/core/ids.ts";
import { silentLogger } from "../../src/core/logger.ts";
import { createSecrets } from "../../src/core/secrets.ts";
import type { Tool, ToolContext, ToolResult } from "../../src/core/tool.ts";

export const toolContext = (overrides: Partial<ToolContext> = {}): ToolContext => ({
  agentId: "main",
  sessionKey: "agent:main:web:dm:me",
  sessionId: "session",
  turnId: "turn",
  // Each call is an entry of its own.
  callId: newId(),
  calledAt: 0,
  runId: null,
  address: null,
  person: null,
  workspace: "/nonexistent",
  readOnly: false,
  signal: new AbortController().signal,
  log: silentLogger,
  secrets: createSecrets(),
  progress() {},
  ...overrides,
});

/** What a turn does with a call: check the arguments, then run. `text` is all that is said, what is quoted first. */
export async function callTool(tool: Tool, args: unknown, overrides: Partial<ToolContext> = {}): Promise<ToolResult> {
  const { quoted, ...result } = await runTool(tool, args, overrides);
  return quoted === undefined ? result : { ...result, text: [quoted.text, result.text].filter((part) => part !== "").join("\n\n") };
}

/** The same, with what is quoted and from where apart. */
export const runTool = (tool: Tool, args: unknown, overrides: Partial<ToolContext> = {}): Promise<ToolResult> =>
  tool.run(tool.schema.parse(args), toolContext(overrides));
