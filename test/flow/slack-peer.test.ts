// A smoke run against a Slack Web API that others wrote (emulate): our posts, their metadata, and the question whether a
// post arrived. Between the two stands a small relay that can lose answers. It has no Socket Mode, so nothing is received.
import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { createEmulator, type Emulator } from "emulate";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { createSlackChannel } from "../../src/channels/slack/channel.ts";
import type { Address } from "../../src/core/address.ts";
import { systemClock } from "../../src/core/clock.ts";
import { silentLogger } from "../../src/core/logger.ts";
import type { Channel } from "../../src/core/message.ts";
import { deliver } from "../contract/channel.contract.ts";
import { freePort } from "../support/free-port.ts";
import { createMemoryAccounts } from "../support/memory-accounts.ts";

const BOT_TOKEN = "xoxb-peer-test";
const SCOPES = ["chat:write", "channels:read", "channels:history", "reactions:write"];

let peer: Emulator | null = null;
let trouble = "";
let relay: Server;
let lose: { method: string; skip: number; before: boolean } | null = null;

beforeAll(async () => {
  try {
    peer = await createEmulator({
      service: "slack",
      port: await freePort(),
      hostname: "127.0.0.1",
      seed: {
        slack: {
          users: [{ name: "herald" }],
          channels: [{ name: "herald-test" }],
          bots: [{ name: "herald" }],
          strict_scopes: true,
          tokens: [{ token: BOT_TOKEN, user: "herald", scopes: SCOPES }],
        },
      },
    });
  } catch (error) {
    trouble = String(error);
  }
  relay = createServer((request, response) => {
    const chunks: Buffer[] = [];
    request.on("data", (chunk: Buffer) => chunks.push(chunk));
    request.on("end", () => {
      const isHit = lose !== null && (request.url ?? "").endsWith(lose.method) && lose.skip-- === 0;
      if (isHit && lose?.before) return void response.destroy();
      const { authorization = "", "content-type": type = "" } = request.headers;
      fetch(`${peer?.url}${request.url}`, { method: "POST", body: Buffer.concat(chunks), headers: { authorization, "content-type": type } })
        .then(async (answer) => {
          const body = Buffer.from(await answer.arrayBuffer());
          if (isHit) response.destroy();
          else response.writeHead(answer.status, { "content-type": "application/json" }).end(body);
        })
        .catch((error: Error) => response.destroy(error));
    });
  });
  await new Promise<void>((resolve) => relay.listen(0, "127.0.0.1", resolve));
});

afterAll(async () => {
  relay.closeAllConnections();
  await new Promise((resolve) => relay.close(resolve));
  await peer?.close();
});

async function call(method: string, args: Record<string, string>): Promise<Record<string, unknown>> {
  const response = await fetch(`${peer?.url}/api/${method}`, {
    method: "POST",
    headers: { authorization: `Bearer ${BOT_TOKEN}` },
    body: new URLSearchParams(args),
  });
  return (await response.json()) as Record<string, unknown>;
}

async function setUp(): Promise<{ channel: Channel; address: Address; posts(): Promise<{ key: string; text: string }[]> }> {
  const apiUrl = `http://127.0.0.1:${(relay.address() as AddressInfo).port}/api/`;
  const tokens = { botToken: BOT_TOKEN, appToken: "xapp-1-A0PEER-2-x" };
  const channel = await createSlackChannel({
    accounts: createMemoryAccounts(),
    ...tokens,
    apiUrl,
    mode: "socket",
    clock: systemClock,
    log: silentLogger,
    timeoutMs: 5_000,
  });
  const { channels } = (await call("conversations.list", {})) as { channels: { id: string; name: string }[] };
  const chat = channels.find((one) => one.name === "herald-test")?.id ?? "";
  const { ts: thread } = (await call("chat.postMessage", { channel: chat, text: "the question" })) as { ts: string };
  const address: Address = { channel: "slack", account: channel.account, chat, kind: "channel", thread };
  const posts = async () => {
    const query = { channel: chat, ts: thread, include_all_metadata: "true", limit: "200" };
    const { messages } = (await call("conversations.replies", query)) as {
      messages: { blocks?: { text: string }[]; metadata?: { event_payload: { key: string } } }[];
    };
    return messages.flatMap(({ metadata, blocks }) =>
      metadata === undefined ? [] : [{ key: metadata.event_payload.key, text: blocks?.[0]?.text ?? "" }],
    );
  };
  return { channel, address, posts };
}

describe("Slack, against a peer", () => {
  it("[DL2] parts arrive in the thread, in order, each with its key", async (context) => {
    if (peer === null) return context.skip(`emulate did not start: ${trouble}`);
    const { channel, address, posts } = await setUp();
    const markdown = ["A", "B", "C"].map((letter) => `part ${letter} ${"x".repeat(8_000)}`).join("\n\n");
    await deliver(channel, { markdown, buttons: [{ label: "Stop", command: "/stop" }] }, address, "reply:1");
    expect((await posts()).map(({ key, text }) => [key, text.slice(0, 6)])).toEqual([
      ["reply:1#0", "part A"],
      ["reply:1#1", "part B"],
      ["reply:1#2", "part C"],
    ]);
  });

  it.for([true, false])("[DL4] part 2 of 3 loses its answer (before execution: %s): exactly three arrive", async (before, context) => {
    if (peer === null) return context.skip(`emulate did not start: ${trouble}`);
    const { channel, address, posts } = await setUp();
    const markdown = ["A", "B", "C"].map((letter) => `part ${letter} ${"x".repeat(8_000)}`).join("\n\n");
    lose = { method: "chat.postMessage", skip: 1, before };
    await deliver(channel, { markdown }, address, "reply:2");
    expect(lose.skip).toBeLessThan(0);
    lose = null;
    expect((await posts()).map((post) => post.text.slice(0, 6))).toEqual(["part A", "part B", "part C"]);
  });

  it("[DL3] its refusals are understood", async (context) => {
    if (peer === null) return context.skip(`emulate did not start: ${trouble}`);
    const { channel, address } = await setUp();
    const [part] = channel.render({ markdown: "x" }, address);
    const nowhere = { ...address, chat: "C0NOWHERE" };
    const outcome = await channel.send({ address: nowhere, part: part ?? {}, key: "k#0", repeated: false });
    expect(outcome).toEqual({ status: "failed", reason: "channel_not_found" });
    expect(await channel.reconcile?.({ address, part: {}, key: "never#0", since: Date.now() - 60_000 })).toEqual({ status: "absent" });
  });
});
