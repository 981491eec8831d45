// Slack's bad inputs on the receiving side, by their id in the catalogue: answers that are none, from the first call on.
// Sending has its own matrix (flow/channel-faults.test.ts); what needs the gateway stands in channels.test.ts.
import { afterEach, beforeEach, expect, it } from "vitest";
import { createSlackChannel } from "../../src/channels/slack/channel.ts";
import { silentLogger } from "../../src/core/logger.ts";
import type { Channel } from "../../src/core/message.ts";
import { createMemoryInbox, type MemoryInbox } from "../contract/channel.contract.ts";
import { createFakeSlack, type FakeSlack, type Fault } from "../support/fake-slack.ts";
import { createImpatientClock } from "../support/fast-clock.ts";
import { freePort } from "../support/free-port.ts";
import { requestBytes, sendBytes, statusOf } from "../support/raw-http.ts";
import { forbidUnhandledRejections } from "../support/rejections.ts";

let fake: FakeSlack;
let channel: Channel;
let inbox: MemoryInbox;
const clock = createImpatientClock(20);

forbidUnhandledRejections();
beforeEach(async () => {
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
