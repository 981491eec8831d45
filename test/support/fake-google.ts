// Gemini's API on loopback: `/v1beta/models/<id>:streamGenerateContent?alt=sse`.
import {
  createFakeModelServer,
  type FakeMessage,
  type FakeModelServer,
  type Respond,
  type Script,
  sse,
  type WireFormat,
} from "./fake-model-server.ts";

export const createFakeGoogle = ({ respond }: { respond: Respond }): Promise<FakeModelServer> =>
  createFakeModelServer(() => generate, respond);

const parts = (list: object[], extra: object = {}): string => sse({ candidates: [{ content: { role: "model", parts: list }, ...extra }] });

const generate: WireFormat = {
  basePath: "/v1beta",
  contentType: "text/event-stream",
  junk: "data: {not json\n\n",
  parse: (body, path) => ({
    model: decodeURIComponent(/models\/(.+):/.exec(path)?.[1] ?? ""),
    system: textOf(body.systemInstruction?.parts),
    messages: body.contents.flatMap(fromContent),
    tools: (body.tools ?? []).flatMap((tool: { functionDeclarations?: { name: string }[] }) =>
      (tool.functionDeclarations ?? []).map((f) => f.name),
    ),
    thinking: body.generationConfig?.thinkingConfig,
  }),
  start: (script) => (script.reasoning ? [parts([{ text: script.reasoning, thought: true }])] : []),
  piece: (text) => parts([{ text }]),
  end: (script) => {
    const calls = (script.toolCalls ?? []).map((call, index) => ({
      functionCall: { name: call.name, args: call.args },
      ...(index === 0 && { thoughtSignature: "signed-thoughts" }),
    }));
    const frames = calls.length > 0 ? [parts(calls)] : [];
    if (script.finish === "none") return frames;
    const { input = 0, output = 0, cacheRead = 0 } = script.usage ?? {};
    const usageMetadata = {
      promptTokenCount: input,
      candidatesTokenCount: output,
      cachedContentTokenCount: cacheRead,
      totalTokenCount: input + output,
    };
    const candidates = [{ content: { role: "model", parts: [{ text: "" }] }, finishReason: finishReason(script) }];
    return [...frames, sse(script.usage ? { candidates, usageMetadata } : { candidates })];
  },
  errorEvent: (kind) => sse({ error: { code: kind === "overloaded" ? 503 : 400, message: `the model is ${kind}`, status: "UNAVAILABLE" } }),
  errorBody: (status, message) => ({ error: { code: status, message, status: "FAILED" } }),
};

const finishReason = (script: Script): string =>
  script.finish === "length" ? "MAX_TOKENS" : script.finish === "filter" ? "SAFETY" : "STOP";

// biome-ignore lint/suspicious/noExplicitAny: the wire format
const textOf = (list: any[] = []): string => list.map((part) => part.text ?? "").join("");

// biome-ignore lint/suspicious/noExplicitAny: the wire format
function fromContent(content: any): FakeMessage[] {
  // biome-ignore lint/suspicious/noExplicitAny: the wire format
  const of = (key: string): any[] => content.parts.filter((part: object) => key in part).map((part: Record<string, unknown>) => part[key]);
  const results = of("functionResponse").map(
    (part): FakeMessage => ({ role: "tool", text: String(part.response.content ?? part.response), toolCalls: [], callId: part.name }),
  );
  const toolCalls = of("functionCall").map((part) => ({ id: part.name, name: part.name, args: part.args }));
  const text = textOf(content.parts);
  return text === "" && toolCalls.length === 0
    ? results
    : [...results, { role: content.role === "model" ? "assistant" : "user", text, toolCalls }];
}
