// OpenAI on loopback: `/v1/chat/completions` (what every compatible server speaks) and `/v1/responses`.
// One server answers both; the path decides.
import {
  argsText,
  createFakeModelServer,
  type FakeMessage,
  type FakeModelServer,
  type FakeRequest,
  plainText,
  type Respond,
  type Script,
  sse,
  type WireFormat,
} from "./fake-model-server.ts";

export const createFakeOpenAi = ({ respond }: { respond: Respond }): Promise<FakeModelServer> =>
  createFakeModelServer((path) => (path.endsWith("/responses") ? responses : chat), respond);

const common = {
  basePath: "/v1",
  contentType: "text/event-stream",
  junk: "data: {not json\n\n",
  errorBody: (status: number, message: string) => ({
    error: { message, type: status === 401 ? "invalid_request_error" : "server_error", code: null },
  }),
};

const callId = (script: Script, index: number): string => script.toolCalls?.[index]?.id ?? `call_${index + 1}`;

const chunk = (delta: object | null, extra: object = {}): string =>
  sse({
    id: "chatcmpl-1",
    object: "chat.completion.chunk",
    created: 1_700_000_000,
    model: "fake",
    choices: delta === null ? [] : [{ index: 0, delta, finish_reason: null }],
    ...extra,
  });

const chat: WireFormat = {
  ...common,
  parse: (body) => ({
    model: body.model,
    system: body.messages
      .filter((m: { role: string }) => m.role === "system")
      .map((m: { content: unknown }) => plainText(m.content))
      .join("\n"),
    messages: body.messages.filter((m: { role: string }) => m.role !== "system").map(fromChat),
    tools: (body.tools ?? []).map((tool: { function: { name: string } }) => tool.function.name),
    thinking: body.reasoning_effort,
  }),
  start: (script) => [
    chunk({ role: "assistant", content: "" }),
    ...(script.reasoning ? [chunk({ reasoning_content: script.reasoning })] : []),
  ],
  piece: (content) => chunk({ content }),
  end: (script, _request) => {
    const frames: string[] = [];
    for (const [index, call] of (script.toolCalls ?? []).entries()) {
      const text = argsText(call.args);
      const half = Math.ceil(text.length / 2);
      frames.push(
        chunk({ tool_calls: [{ index, id: callId(script, index), type: "function", function: { name: call.name, arguments: "" } }] }),
      );
      for (const part of [text.slice(0, half), text.slice(half)])
        frames.push(chunk({ tool_calls: [{ index, function: { arguments: part } }] }));
    }
    if (script.finish !== "none") frames.push(chunk({}, { choices: [{ index: 0, delta: {}, finish_reason: chatFinish(script) }] }));
    if (script.usage) {
      const { input, output, cacheRead } = script.usage;
      const usage = {
        prompt_tokens: input,
        completion_tokens: output,
        total_tokens: input + output,
        prompt_tokens_details: { cached_tokens: cacheRead ?? 0 },
      };
      frames.push(chunk(null, { usage }));
    }
    return [...frames, sse("[DONE]")];
  },
  errorEvent: (kind) =>
    sse({
      error: {
        message: `the model is ${kind}`,
        type: kind === "overloaded" ? "server_error" : "invalid_request_error",
        code: kind === "overloaded" ? 503 : 400,
      },
    }),
};

function chatFinish(script: Script): string {
  if (script.finish === "length") return "length";
  if (script.finish === "filter") return "content_filter";
  return script.toolCalls === undefined ? "stop" : "tool_calls";
}

// biome-ignore lint/suspicious/noExplicitAny: the wire format
function fromChat(message: any): FakeMessage {
  const toolCalls = (message.tool_calls ?? []).map((call: { id: string; function: { name: string; arguments: string } }) => ({
    id: call.id,
    name: call.function.name,
    args: JSON.parse(call.function.arguments),
  }));
  const result = { role: message.role, text: plainText(message.content), toolCalls };
  return message.role === "tool" ? { ...result, callId: message.tool_call_id } : result;
}

const event = (type: string, fields: object): string => sse({ type, sequence_number: 0, ...fields }, type);

const responses: WireFormat = {
  ...common,
  parse: (body) => ({
    model: body.model,
    system: body.input
      .filter(isSystem)
      .map((item: { content: unknown }) => plainText(item.content))
      .join("\n"),
    messages: body.input.filter((item: { role?: string }) => !isSystem(item)).flatMap(fromItem),
    tools: (body.tools ?? []).map((tool: { name: string }) => tool.name),
    thinking: body.reasoning?.effort,
  }),
  start: (script, request) => {
    const created = event("response.created", {
      response: { id: "resp_1", created_at: 1_700_000_000, model: request.model, service_tier: null },
    });
    const text = [
      event("response.output_item.added", {
        output_index: 1,
        item: { type: "message", id: "msg_1", role: "assistant", status: "in_progress", content: [] },
      }),
      event("response.content_part.added", {
        item_id: "msg_1",
        output_index: 1,
        content_index: 0,
        part: { type: "output_text", text: "", annotations: [] },
      }),
    ];
    return [created, ...(script.reasoning ? reasoningItem(script.reasoning) : []), ...(hasText(script) ? text : [])];
  },
  piece: (delta) => event("response.output_text.delta", { item_id: "msg_1", output_index: 1, content_index: 0, delta }),
  end: responsesEnd,
  errorEvent: (kind) =>
    event("error", { code: kind === "overloaded" ? "server_error" : "invalid_prompt", message: `the model is ${kind}`, param: null }),
};

const hasText = (script: Script): boolean => script.text !== undefined || script.pieces !== undefined || script.endless === true;
const isSystem = (item: { role?: string }): boolean => item.role === "system" || item.role === "developer";

const reasoningItem = (text: string): string[] => [
  event("response.output_item.added", { output_index: 0, item: { type: "reasoning", id: "rs_1", summary: [], encrypted_content: null } }),
  event("response.reasoning_summary_part.added", {
    item_id: "rs_1",
    output_index: 0,
    summary_index: 0,
    part: { type: "summary_text", text: "" },
  }),
  event("response.reasoning_summary_text.delta", { item_id: "rs_1", output_index: 0, summary_index: 0, delta: text }),
  event("response.reasoning_summary_part.done", {
    item_id: "rs_1",
    output_index: 0,
    summary_index: 0,
    part: { type: "summary_text", text },
  }),
  event("response.output_item.done", {
    output_index: 0,
    item: { type: "reasoning", id: "rs_1", summary: [{ type: "summary_text", text }], encrypted_content: "sealed-thoughts" },
  }),
];

function responsesEnd(script: Script, request: FakeRequest): string[] {
  const frames: string[] = [];
  const text = script.pieces?.join("") ?? script.text ?? "";
  const message = {
    type: "message",
    id: "msg_1",
    role: "assistant",
    status: "completed",
    content: [{ type: "output_text", text, annotations: [] }],
  };
  if (hasText(script)) frames.push(event("response.output_item.done", { output_index: 1, item: message }));
  for (const [index, call] of (script.toolCalls ?? []).entries()) {
    const at = { output_index: 2 + index };
    const item = {
      type: "function_call",
      id: `fc_${index + 1}`,
      call_id: callId(script, index),
      name: call.name,
      arguments: "",
      status: "in_progress",
    };
    const args = argsText(call.args);
    frames.push(event("response.output_item.added", { ...at, item }));
    frames.push(event("response.function_call_arguments.delta", { ...at, item_id: item.id, delta: args }));
    frames.push(event("response.function_call_arguments.done", { ...at, item_id: item.id, arguments: args }));
    frames.push(event("response.output_item.done", { ...at, item: { ...item, arguments: args, status: "completed" } }));
  }
  if (script.finish === "none") return frames;
  const reason = script.finish === "length" ? "max_output_tokens" : script.finish === "filter" ? "content_filter" : null;
  const usage = script.usage && {
    input_tokens: script.usage.input,
    input_tokens_details: { cached_tokens: script.usage.cacheRead ?? 0 },
    output_tokens: script.usage.output,
    output_tokens_details: { reasoning_tokens: 0 },
    total_tokens: script.usage.input + script.usage.output,
  };
  const type = reason === null ? "response.completed" : "response.incomplete";
  const response = {
    id: "resp_1",
    model: request.model,
    incomplete_details: reason === null ? null : { reason },
    usage: usage ?? null,
    service_tier: null,
  };
  return [...frames, event(type, { response })];
}

// biome-ignore lint/suspicious/noExplicitAny: the wire format
function fromItem(item: any): FakeMessage[] {
  if (item.type === "function_call") {
    return [{ role: "assistant", text: "", toolCalls: [{ id: item.call_id, name: item.name, args: JSON.parse(item.arguments) }] }];
  }
  if (item.type === "function_call_output") return [{ role: "tool", text: plainText(item.output), toolCalls: [], callId: item.call_id }];
  return item.role === undefined ? [] : [{ role: item.role, text: plainText(item.content), toolCalls: [] }];
}
