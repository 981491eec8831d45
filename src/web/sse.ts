// One server-sent event stream to one tab. Knows when a reader is too slow; what is sent is live.ts's business, how it is
// written outgoing.ts's. A tab that is cut off comes back with the id it saw last and misses nothing.
import type { Clock } from "../core/clock.ts";
import { BEAT, type Clean, type Outlet, RETRY, SECURITY_HEADERS } from "./outgoing.ts";

export interface StreamLimits {
  /** Beyond this many bytes that the tab has not taken, it is cut off. */
  maxBufferedBytes: number;
  /** A tab that takes nothing for this long is gone, whatever TCP says. */
  stallMs: number;
}

export const STREAM_LIMITS: StreamLimits = { maxBufferedBytes: 1024 * 1024, stallMs: 45_000 };

export interface Stream {
  send(event: Clean): void;
  /** Keeps proxies and half-open sockets honest; also where a stalled reader is noticed. */
  beat(): void;
  /** False while the tab is behind: durable events then wait in the table instead of in memory. */
  hasRoom(): boolean;
  isClosed(): boolean;
  close(): void;
}

export interface StreamOptions {
  response: Outlet;
  clock: Clock;
  limits: StreamLimits;
  /** The tab caught up: there is room again. */
  onDrain(): void;
  onClose(): void;
}

export function openStream({ response, clock, limits, onDrain, onClose }: StreamOptions): Stream {
  let stalledSince: number | null = null;
  response.writeHead(200, { ...SECURITY_HEADERS, "content-type": "text/event-stream; charset=utf-8", "x-accel-buffering": "no" });
  response.on("drain", () => {
    stalledSince = null;
    onDrain();
  });
  response.on("close", onClose);

  const isClosed = () => response.destroyed || response.writableEnded;
  const write = (chunk: Clean): void => {
    if (isClosed()) return;
    if (!response.write(chunk)) stalledSince ??= clock.now();
    if (response.writableLength > limits.maxBufferedBytes) response.destroy();
  };
  // Headers leave with the first byte: the tab knows at once that it is connected.
  write(RETRY);

  return {
    send: write,
    beat() {
      if (stalledSince !== null && clock.now() - stalledSince > limits.stallMs) response.destroy();
      else write(BEAT);
    },
    hasRoom: () => !response.writableNeedDrain,
    isClosed,
    close: () => response.end(),
  };
}
