// A ToolContext for tests that call a tool directly.
import { silentLogger } from "../../src/core/logger.ts";
import type { Tool, ToolContext, ToolResult } from "../../src/core/tool.ts";

const toolContext = (overrides: Partial<ToolContext> = {}): ToolContext => ({
  agentId: "main",
  sessionKey: "agent:main:web:dm:me",
  sessionId: "session",
  turnId: "turn",
  callId: "call",
  runId: null,
  address: null,
  workspace: "/nonexistent",
  readOnly: false,
  signal: new AbortController().signal,
  log: silentLogger,
  progress() {},
  waitOutsideLane: (work) => work(),
  ...overrides,
});

/** What a turn does with a call: check the arguments, then run. */
export async function callTool(tool: Tool, args: unknown, overrides: Partial<ToolContext> = {}): Promise<ToolResult> {
  return tool.run(tool.schema.parse(args), toolContext(overrides));
}
