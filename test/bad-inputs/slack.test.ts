// Slack's bad inputs on the receiving side, by their id in the catalogue: answers that are none, from the first call on.
// Sending has its own matrix (flow/channel-faults.test.ts); what needs the gateway stands in channels.test.ts.
import { expect, it } from "vitest";
import type { Fault } from "../support/fake-slack.ts";
import { freePort } from "../support/free-port.ts";
import { requestBytes, sendBytes, statusOf } from "../support/raw-http.ts";
import { forbidUnhandledRejections } from "../support/rejections.ts";
import { createSlackRig } from "../support/slack-rig.ts";

forbidUnhandledRejections();

const FAULTS: Fault[] = ["html", "html_200", "truncate_after", "cut_json_after", "500"];

it.each(["auth.test", "apps.connections.open"])(
  "[RC3] SL-023 %s answered by a page or half an answer: tried again until it is one",
  async (method) => {
    await using rig = await createSlackRig({ sockets: 1 });
    const { fake, channel, inbox } = rig;
    for (const fault of FAULTS) fake.faults.add(method, fault);
    await channel.start(inbox);
    fake.say({ channel: "D0PERSON", text: "meanwhile" });
    await fake.until(() => inbox.rows.size === 1, "the event");
    expect(fake.calls.filter((call) => call.method === method).length).toBeGreaterThan(FAULTS.length);
    expect(channel.health()).toEqual({ state: "on" });
  },
);

it("[AG4] SL-023 a page instead of an answer to a sign or a receipt is nobody's concern", async () => {
  await using rig = await createSlackRig({ sockets: 1 });
  const { fake, channel, inbox } = rig;
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
  await using rig = await createSlackRig({ mode: "http", httpPort });
  const { fake, channel, inbox } = rig;
  await channel.start(inbox);
  const signed = Object.entries(fake.sign("x")).map(([name, value]) => `${name}: ${value}`);
  const headers = ["Host: herald.example", "Content-Type: application/json", "Transfer-Encoding: chunked", ...signed];
  const bytes = requestBytes("POST /slack/events HTTP/1.1", headers, "1\r\nx\r\n".repeat(2_500));
  expect(statusOf(await sendBytes(httpPort, bytes))).toBe(413);
});
