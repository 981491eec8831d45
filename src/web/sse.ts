// One server-sent event stream to one tab. Knows the wire format and when a reader is too slow; what is sent is
// live.ts's business. A tab that is cut off comes back with the id it saw last and misses nothing.
import type { ServerResponse } from "node:http";
import type { Clock } from "../core/clock.ts";
import { SECURITY_HEADERS } from "./http.ts";

export interface StreamLimits {
  /** Beyond this many bytes that the tab has not taken, it is cut off. */
  maxBufferedBytes: number;
  /** A tab that takes nothing for this long is gone, whatever TCP says. */
  stallMs: number;
}

export const STREAM_LIMITS: StreamLimits = { maxBufferedBytes: 1024 * 1024, stallMs: 45_000 };

export interface Stream {
  /** `id` marks a durable event: the tab sends the last one back when it reconnects. */
  send(event: string, data: unknown, id?: number): void;
  /** Keeps proxies and half-open sockets honest; also where a stalled reader is noticed. */
  beat(): void;
  /** False while the tab is behind: durable events then wait in the table instead of in memory. */
  hasRoom(): boolean;
  isClosed(): boolean;
  close(): void;
}

export interface StreamOptions {
  response: ServerResponse;
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
  const write = (chunk: string): void => {
    if (isClosed()) return;
    if (!response.write(chunk)) stalledSince ??= clock.now();
    if (response.writableLength > limits.maxBufferedBytes) response.destroy();
  };
  // Headers leave with the first byte: the tab knows at once that it is connected.
  write("retry: 1000\n\n");

  return {
    send(event, data, id) {
      write(`${id === undefined ? "" : `id: ${id}\n`}event: ${event}\ndata: ${JSON.stringify(data)}\n\n`);
    },
    beat() {
      if (stalledSince !== null && clock.now() - stalledSince > limits.stallMs) response.destroy();
      else write(": beat\n\n");
    },
    hasRoom: () => !response.writableNeedDrain,
    isClosed,
    close: () => response.end(),
  };
}
