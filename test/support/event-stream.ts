// The page's event stream as a test reads it: every event there was, by name.
import type { Harness } from "./harness.ts";

export interface StreamEvent {
  readonly event: string;
  readonly id: string | null;
  // biome-ignore lint/suspicious/noExplicitAny: a test looks into any event
  readonly data: any;
}

export interface EventStream extends AsyncDisposable {
  readonly events: StreamEvent[];
  of(event: string): StreamEvent[];
}

export async function openEvents(herald: Pick<Harness, "request">, query = "chat=main"): Promise<EventStream> {
  const abort = new AbortController();
  const response = await herald.request(`/api/events?${query}`, { signal: abort.signal });
  if (!response.ok || response.body === null) throw new Error(`the stream answered ${response.status}`);
  const events: StreamEvent[] = [];
  const reading = read(response.body, events).catch(() => {});
  return {
    events,
    of: (event) => events.filter((one) => one.event === event),
    async [Symbol.asyncDispose]() {
      abort.abort();
      await reading;
    },
  };
}

async function read(body: ReadableStream<Uint8Array>, events: StreamEvent[]): Promise<void> {
  let rest = "";
  const decoder = new TextDecoder();
  for await (const chunk of body) {
    rest += decoder.decode(chunk, { stream: true });
    const blocks = rest.split("\n\n");
    rest = blocks.pop() ?? "";
    for (const block of blocks) {
      const field = (name: string): string | null => new RegExp(`^${name}: ?(.*)$`, "m").exec(block)?.[1] ?? null;
      const data = field("data");
      if (data !== null) events.push({ event: field("event") ?? "message", id: field("id"), data: JSON.parse(data) });
    }
  }
}
