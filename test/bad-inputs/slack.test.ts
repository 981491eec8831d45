// Slack's bad inputs on the receiving side, by their id in the catalogue: answers that are none, from the first call on.
// Sending has its own matrix (flow/channel-faults.test.ts); what needs the gateway stands in channels.test.ts.
import { type AddressInfo, createServer } from "node:net";
import { afterEach, beforeEach, expect, it } from "vitest";
import { createSlackChannel } from "../../src/channels/slack/channel.ts";
import { type Clock, systemClock } from "../../src/core/clock.ts";
import { silentLogger } from "../../src/core/logger.ts";
import type { Channel } from "../../src/core/message.ts";
import { createMemoryInbox, type MemoryInbox } from "../contract/channel.contract.ts";
import { createFakeSlack, type FakeSlack, type Fault } from "../support/fake-slack.ts";
import { requestBytes, sendBytes, statusOf } from "../support/raw-http.ts";

let fake: FakeSlack;
let channel: Channel;
let inbox: MemoryInbox;
const rejections: unknown[] = [];
const note = (reason: unknown): void => void rejections.push(reason);
const clock: Clock = { now: systemClock.now, sleep: (ms, signal) => systemClock.sleep(Math.min(ms, 20), signal) };

beforeEach(async () => {
  rejections.length = 0;
  process.on("unhandledRejection", note);
  fake = await createFakeSlack({ ackTimeoutMs: 200 });
  inbox = createMemoryInbox();
  channel = createSlackChannel({
    ...{ botToken: fake.botToken, appToken: fake.appToken, apiUrl: fake.apiUrl, mode: "socket", timeoutMs: 1_000, sockets: 1 },
    ...{ clock, log: silentLogger },
  });
});
afterEach(async () => {
  await channel.stop();
  await fake.close();
  process.off("unhandledRejection", note);
  expect(rejections).toEqual([]);
});

const FAULTS: Fault[] = ["html", "html_200", "truncate_after", "cut_json_after", "500"];

it.each(["auth.test", "apps.connections.open"])(
  "[RC3] SL-023 %s answered by a page or half an answer: tried again until it is one",
  async (method) => {
    for (const fault of FAULTS) fake.faults.add(method, fault);
    await channel.start(inbox);
    fake.say({ channel: "D0PERSON", text: "meanwhile" });
    await fake.until(() => inbox.rows.size === 1, "the event");
    expect(fake.calls.filter((call) => call.method === method).length).toBeGreaterThan(FAULTS.length);
    expect(channel.health()).toEqual({ state: "on" });
  },
);

it("[AG4] SL-023 a page instead of an answer to a sign or a receipt is nobody's concern", async () => {
  await channel.start(inbox);
  await fake.until(() => channel.health().state === "on", "the connection");
  const ts = fake.say({ channel: "C0ROOM", text: "hi" });
  const address = { channel: "slack", account: channel.account, chat: "C0ROOM", kind: "channel" as const, thread: ts };
  for (const fault of ["html", "cut_json_after"] as const) {
    fake.faults.add("reactions.add", fault);
    await channel.receipt?.(address, ts);
  }
  fake.faults.add("assistant.threads.setStatus", "html_200");
  await channel.status?.(address, "working");
  await fake.until(() => fake.calls.filter(({ method }) => method === "reactions.add").length === 2, "both receipts");
  await fake.until(() => fake.calls.some(({ method }) => method === "assistant.threads.setStatus"), "the sign");
  fake.say({ channel: "D0PERSON", text: "still here" });
  await fake.until(() => [...inbox.rows.values()].some((raw) => channel.decode(raw)?.text === "still here"), "the next event");
});

it("[SC5] WS-003 a post in pieces of one byte is refused before it is put together", async () => {
  const httpPort = await freePort();
  channel = createSlackChannel({
    ...{ botToken: fake.botToken, signingSecret: fake.signingSecret, apiUrl: fake.apiUrl, mode: "http", httpPort, timeoutMs: 1_000 },
    ...{ clock, log: silentLogger },
  });
  await channel.start(inbox);
  const signed = Object.entries(fake.sign("x")).map(([name, value]) => `${name}: ${value}`);
  const headers = ["Host: herald.example", "Content-Type: application/json", "Transfer-Encoding: chunked", ...signed];
  const bytes = requestBytes("POST /slack/events HTTP/1.1", headers, "1\r\nx\r\n".repeat(2_500));
  expect(statusOf(await sendBytes(httpPort, bytes))).toBe(413);
});

async function freePort(): Promise<number> {
  const server = createServer();
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const { port } = server.address() as AddressInfo;
  await new Promise((resolve) => server.close(resolve));
  return port;
}
