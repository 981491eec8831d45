// Ollama's native API on loopback: `/api/chat`, one JSON object per line.
import {
  createFakeModelServer,
  type FakeMessage,
  type FakeModelServer,
  type Respond,
  type Script,
  type WireFormat,
} from "./fake-model-server.ts";

export const createFakeOllama = ({ respond }: { respond: Respond }): Promise<FakeModelServer> => createFakeModelServer(() => chat, respond);

const line = (message: object, extra: object = { done: false }): string =>
  `${JSON.stringify({ model: "fake", created_at: "2026-01-01T00:00:00Z", message: { role: "assistant", content: "", ...message }, ...extra })}\n`;

const chat: WireFormat = {
  basePath: "/api",
  contentType: "application/x-ndjson",
  junk: "{not json\n",
  parse: (body) => ({
    model: body.model,
    system: body.messages
      .filter((m: { role: string }) => m.role === "system")
      .map((m: { content: string }) => m.content)
      .join("\n"),
    messages: body.messages.filter((m: { role: string }) => m.role !== "system").map(fromMessage),
    tools: (body.tools ?? []).map((tool: { function: { name: string } }) => tool.function.name),
    thinking: body.think,
  }),
  start: (script) => (script.reasoning ? [line({ thinking: script.reasoning })] : []),
  piece: (content) => line({ content }),
  end: (script) => {
    const frames = (script.toolCalls ?? []).map((call) =>
      line({ tool_calls: [{ function: { name: call.name, arguments: call.args }, ...(call.id && { id: call.id }) }] }),
    );
    if (script.finish === "none") return frames;
    const counts = script.usage ? { prompt_eval_count: script.usage.input, eval_count: script.usage.output } : {};
    return [...frames, line({}, { done: true, done_reason: doneReason(script), ...counts })];
  },
  errorEvent: (kind) => `${JSON.stringify({ error: `the model is ${kind}` })}\n`,
  errorBody: (_status, message) => ({ error: message }),
};

const doneReason = (script: Script): string =>
  script.finish === "length" ? "length" : script.finish === "filter" ? "content_filter" : "stop";

// biome-ignore lint/suspicious/noExplicitAny: the wire format
function fromMessage(message: any): FakeMessage {
  const toolCalls = (message.tool_calls ?? []).map((call: { id: string; function: { name: string; arguments: unknown } }) => ({
    id: call.id,
    name: call.function.name,
    args: call.function.arguments,
  }));
  const result = { role: message.role, text: message.content, toolCalls };
  return message.role === "tool" ? { ...result, callId: message.tool_call_id } : result;
}
