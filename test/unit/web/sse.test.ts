import { createServer, type Server, type ServerResponse } from "node:http";
import { type AddressInfo, connect, type Socket } from "node:net";
import { afterEach, beforeEach, expect, it } from "vitest";
import type { Clock } from "../../../src/core/clock.ts";
import { createOutgoing } from "../../../src/web/outgoing.ts";
import { openStream, type Stream, type StreamLimits } from "../../../src/web/sse.ts";
import { waitFor } from "../../support/wait.ts";

const CHUNK = createOutgoing((text) => text).event("x", "x".repeat(50_000));

let server: Server;
let reader: Socket;
let now: number;
let closes: number;
const clock: Clock = { now: () => now, sleep: async () => undefined };

beforeEach(() => {
  now = 0;
  closes = 0;
});

afterEach(async () => {
  reader.destroy();
  server.closeAllConnections();
  await new Promise((resolve) => server.close(resolve));
});

/** A stream to a reader that takes nothing until told to. */
async function openUnread(limits: StreamLimits): Promise<{ stream: Stream; response: ServerResponse }> {
  const opened = new Promise<{ stream: Stream; response: ServerResponse }>((resolve) => {
    server = createServer((_req, response) => {
      const stream = openStream({ response, clock, limits, onDrain: () => undefined, onClose: () => closes++ });
      resolve({ stream, response });
    });
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  reader = connect((server.address() as AddressInfo).port, "127.0.0.1");
  reader.on("error", () => undefined);
  reader.pause();
  reader.write("GET / HTTP/1.1\r\nHost: x\r\n\r\n");
  return opened;
}

/** Sends until the kernel takes no more and `isEnough`; at most 100 MB. */
async function fillUntil(stream: Stream, isEnough: () => boolean): Promise<void> {
  for (let sent = 0; sent < 2000 && !isEnough(); sent++) {
    stream.send(CHUNK);
    await new Promise(setImmediate);
  }
}

it("[WB2] HTTP-012 a reader that is too far behind is cut off, with no more than the limit in memory", async () => {
  const limit = 300_000;
  const { stream, response } = await openUnread({ maxBufferedBytes: limit, stallMs: 60_000 });
  let most = 0;
  await fillUntil(stream, () => {
    most = Math.max(most, response.writableLength);
    return stream.isClosed();
  });
  expect(stream.isClosed()).toBe(true);
  expect(most).toBeLessThan(limit + 2 * CHUNK.length);
  await waitFor("the close", () => closes === 1);
  stream.send(CHUNK);
  stream.beat();
});

it("[WB2] WS-009 a reader that stalls is given up at a later beat, one that catches up is not", async () => {
  const { stream, response } = await openUnread({ maxBufferedBytes: 50_000_000, stallMs: 1000 });
  // Far more than the kernel would still take by itself.
  const stall = () => fillUntil(stream, () => response.writableLength > 1_000_000);
  await stall();
  now += 900;
  stream.beat();
  expect(stream.isClosed()).toBe(false);
  reader.resume();
  await waitFor("room", () => stream.hasRoom());
  now += 5000;
  stream.beat();
  expect(stream.isClosed()).toBe(false);

  reader.pause();
  await stall();
  now += 1001;
  stream.beat();
  expect(stream.isClosed()).toBe(true);
  await waitFor("the close", () => closes === 1);
});
