// Anthropic's Messages API on loopback: `/v1/messages`, streamed.
import {
  argsText,
  createFakeModelServer,
  type FakeMessage,
  type FakeModelServer,
  plainText,
  type Respond,
  type Script,
  sse,
  type WireFormat,
} from "./fake-model-server.ts";

export const createFakeAnthropic = ({ respond }: { respond: Respond }): Promise<FakeModelServer> =>
  createFakeModelServer(() => messages, respond);

const event = (type: string, fields: object = {}): string => sse({ type, ...fields }, type);

const messages: WireFormat = {
  basePath: "/v1",
  contentType: "text/event-stream",
  junk: "event: content_block_delta\ndata: {not json\n\n",
  parse: (body) => ({
    model: body.model,
    system: plainText(body.system),
    messages: body.messages.flatMap(fromMessage),
    tools: (body.tools ?? []).map((tool: { name: string }) => tool.name),
    thinking: body.thinking,
  }),
  start: (script, request) => {
    const usage = script.usage === null ? { input_tokens: 0, output_tokens: 0 } : { ...inputUsage(script), output_tokens: 1 };
    const message = {
      id: "msg_1",
      type: "message",
      role: "assistant",
      model: request.model,
      content: [],
      stop_reason: null,
      stop_sequence: null,
      usage,
    };
    return [
      event("message_start", { message }),
      event("ping"),
      ...(script.reasoning ? thinkingBlock(script.reasoning) : []),
      event("content_block_start", { index: 1, content_block: { type: "text", text: "" } }),
    ];
  },
  piece: (text) => event("content_block_delta", { index: 1, delta: { type: "text_delta", text } }),
  end: (script) => {
    const frames = [event("content_block_stop", { index: 1 })];
    for (const [position, call] of (script.toolCalls ?? []).entries()) {
      const index = 2 + position;
      const block = { type: "tool_use", id: call.id ?? `toolu_${position + 1}`, name: call.name, input: {} };
      frames.push(event("content_block_start", { index, content_block: block }));
      frames.push(event("content_block_delta", { index, delta: { type: "input_json_delta", partial_json: argsText(call.args) } }));
      frames.push(event("content_block_stop", { index }));
    }
    if (script.finish === "none") return frames;
    frames.push(
      event("message_delta", {
        delta: { stop_reason: stopReason(script), stop_sequence: null },
        usage: { output_tokens: script.usage?.output ?? 0 },
      }),
    );
    return [...frames, event("message_stop")];
  },
  errorEvent: (kind) =>
    event("error", {
      error: { type: kind === "overloaded" ? "overloaded_error" : "invalid_request_error", message: `the model is ${kind}` },
    }),
  errorBody: (status, message) => ({
    type: "error",
    error: { type: status === 529 ? "overloaded_error" : "invalid_request_error", message },
  }),
};

/** Anthropic counts cached tokens apart from `input_tokens`. */
function inputUsage({ usage }: Script): object {
  const { input = 0, cacheRead = 0, cacheWrite = 0 } = usage ?? {};
  return { input_tokens: input - cacheRead - cacheWrite, cache_read_input_tokens: cacheRead, cache_creation_input_tokens: cacheWrite };
}

const thinkingBlock = (thinking: string): string[] => [
  event("content_block_start", { index: 0, content_block: { type: "thinking", thinking: "", signature: "" } }),
  event("content_block_delta", { index: 0, delta: { type: "thinking_delta", thinking } }),
  event("content_block_delta", { index: 0, delta: { type: "signature_delta", signature: "signed-thoughts" } }),
  event("content_block_stop", { index: 0 }),
];

function stopReason(script: Script): string {
  if (script.finish === "length") return "max_tokens";
  if (script.finish === "filter") return "refusal";
  return script.toolCalls === undefined ? "end_turn" : "tool_use";
}

// biome-ignore lint/suspicious/noExplicitAny: the wire format
function fromMessage(message: any): FakeMessage[] {
  const content = typeof message.content === "string" ? [{ type: "text", text: message.content }] : message.content;
  // biome-ignore lint/suspicious/noExplicitAny: the wire format
  const of = (type: string): any[] => content.filter((part: { type: string }) => part.type === type);
  const results = of("tool_result").map(
    (part): FakeMessage => ({ role: "tool", text: plainText(part.content), toolCalls: [], callId: part.tool_use_id }),
  );
  const toolCalls = of("tool_use").map((part) => ({ id: part.id, name: part.name, args: part.input }));
  const text = plainText(of("text"));
  return text === "" && toolCalls.length === 0 ? results : [...results, { role: message.role, text, toolCalls }];
}
