// The official MCP client as a program would use it, in either of its modes.
import { Client, type ClientOptions, StreamableHTTPClientTransport } from "@modelcontextprotocol/client";
import { plan, type Step } from "./brain.ts";

/** What it does unless told otherwise, and the newer protocol. */
export const MODES: readonly (readonly [string, ClientOptions])[] = [
  ["2025", {}],
  ["2026", { versionNegotiation: { mode: "auto" } }],
];

export interface Called {
  readonly text: string;
  readonly data: Record<string, unknown>;
  readonly isError: boolean;
}

export interface CallOptions {
  readonly onprogress?: (message: string) => void;
  readonly signal?: AbortSignal;
}

export interface McpProgram extends AsyncDisposable {
  readonly client: Client;
  call(name: string, args?: Record<string, unknown>, options?: CallOptions): Promise<Called>;
  /** The id of a run that goes through these steps; throws what was refused. */
  spawn(label: string, steps: readonly Step[], more?: Record<string, unknown>): Promise<string>;
}

export async function connectProgram(origin: string, token: string, options: ClientOptions = {}): Promise<McpProgram> {
  const client = new Client({ name: "tried", version: "1" }, options);
  const requestInit = { headers: { authorization: `Bearer ${token}` } };
  await client.connect(new StreamableHTTPClientTransport(new URL(`${origin}/mcp`), { requestInit }));
  const call: McpProgram["call"] = async (name, args = {}, { onprogress, signal } = {}) => {
    const { content, structuredContent, isError } = await client.callTool(
      { name, arguments: args },
      {
        ...(onprogress === undefined ? {} : { onprogress: ({ message }) => onprogress(message ?? "") }),
        ...(signal === undefined ? {} : { signal }),
      },
    );
    const text = (content as { text: string }[]).map((part) => part.text).join("\n");
    return { text, data: (structuredContent ?? {}) as Record<string, unknown>, isError: isError === true };
  };
  return {
    client,
    call,
    async spawn(label, steps, more) {
      const { data, text, isError } = await call("spawn", { task: plan(steps), label, ...more });
      if (isError) throw new Error(text);
      return String(data.runId);
    },
    [Symbol.asyncDispose]: () => client.close(),
  };
}
