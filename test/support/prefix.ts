// How much of a request is, byte for byte, what the request before it sent: what a provider's cache can serve. In the order
// in which providers read a request: tools, system prompt, messages; cache marks are no part of the text.
import type { FakeModelServer } from "./fake-model-server.ts";

type Call = FakeModelServer["calls"][number];

export function textOf({ body }: Pick<Call, "body">): string {
  const { tools, system, messages } = body as { tools?: unknown; system?: unknown; messages?: unknown[] };
  return JSON.stringify([tools ?? [], system ?? [], ...(messages ?? [])], (key, value: unknown) =>
    key === "cache_control" ? undefined : value,
  );
}

/** Share of `before` that `after` begins with, 0..1. The last bracket of the first is where the second goes on. */
export function stableShare(before: Pick<Call, "body">, after: Pick<Call, "body">): number {
  const [first, second] = [textOf(before).slice(0, -1), textOf(after)];
  let same = 0;
  while (same < first.length && first[same] === second[same]) same++;
  return same / first.length;
}
