// Ollama streams one JSON object per line. Its client prints lines it can't use to the console and forgets them, also
// the one that says why the answer ends; so broken lines are taken out here and an error line ends the stream.
// language-model.ts → filterNdjson(fetch) → ollama-ai-provider-v2

/** An error the server wrote into a stream that had begun well. */
class StreamError extends Error {
  constructor(message: string) {
    super(message);
    this.name = "StreamError";
  }
}

export const filterNdjson =
  (fetch: typeof globalThis.fetch): typeof globalThis.fetch =>
  async (input, init) => {
    const response = await fetch(input, init);
    if (!response.ok || response.body === null) return response;
    return new Response(response.body.pipeThrough(lineFilter()), { status: response.status, headers: response.headers });
  };

function lineFilter(): TransformStream<Uint8Array, Uint8Array> {
  const decoder = new TextDecoder();
  const encoder = new TextEncoder();
  let rest = "";
  return new TransformStream({
    transform(chunk, controller) {
      const text = decoder.decode(chunk, { stream: true });
      // A line without end is not looked through again with each of its pieces.
      if (!text.includes("\n")) {
        rest += text;
        return;
      }
      const lines = (rest + text).split("\n");
      rest = lines.pop() ?? "";
      const good = lines.filter(isUsable);
      if (good.length > 0) controller.enqueue(encoder.encode(`${good.join("\n")}\n`));
    },
    flush(controller) {
      if (isUsable(rest)) controller.enqueue(encoder.encode(`${rest}\n`));
    },
  });
}

/** Throws StreamError for a line that reports an error. */
function isUsable(line: string): boolean {
  let value: unknown;
  try {
    value = JSON.parse(line);
  } catch (error) {
    if (error instanceof SyntaxError) return false;
    throw error;
  }
  if (typeof value !== "object" || value === null) return false;
  if ("error" in value) throw new StreamError(typeof value.error === "string" ? value.error : JSON.stringify(value.error));
  return "message" in value && "model" in value && "done" in value;
}
