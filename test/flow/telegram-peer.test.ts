// Smoke run against a Telegram server other people wrote (@openclaw/crabline): our own fake could share our mistakes.
import { mkdtemp, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { createTelegramChannel } from "../../src/channels/telegram/channel.ts";
import { systemClock } from "../../src/core/clock.ts";
import { errorText } from "../../src/core/errors.ts";
import { silentLogger } from "../../src/core/logger.ts";
import type { Channel } from "../../src/core/message.ts";
import { deliver } from "../contract/channel.contract.ts";
import { createMemoryInbox, type MemoryInbox } from "../support/memory-inbox.ts";
import { waitFor } from "../support/wait.ts";

type Peer = Awaited<ReturnType<typeof import("@openclaw/crabline").startTelegramServer>>;

const GROUP = "-1001234567890";
let folder: string;
let peer: Peer | null = null;
let whyNot = "";

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), "herald-peer-"));
  try {
    const { startTelegramServer } = await import("@openclaw/crabline");
    peer = await startTelegramServer({
      host: "127.0.0.1",
      port: 0,
      recorderPath: join(folder, "record.jsonl"),
      botUsername: "herald_peer_bot",
    });
  } catch (error) {
    whyNot = errorText(error);
  }
});
afterAll(async () => {
  await peer?.close();
  await rm(folder, { recursive: true, force: true });
});

async function say(server: Peer, message: Record<string, unknown>): Promise<void> {
  const { adminToken, endpoints } = server.manifest;
  const headers = { "content-type": "application/json", "x-crabline-admin-token": adminToken };
  const answer = await fetch(endpoints.adminInboundUrl, { method: "POST", headers, body: JSON.stringify(message) });
  expect(answer.status, await answer.text()).toBeLessThan(300);
}

/** Calls of one method the server recorded, with whatever it kept of them. */
async function recorded(method: string): Promise<string[]> {
  const lines = (await readFile(join(folder, "record.jsonl"), "utf8")).split("\n");
  return lines.filter((line) => line.includes(`"${method}"`) || line.includes(`/${method}`));
}

describe("Telegram against crabline", () => {
  it("[AN3] a message in a topic is received once and a long formatted answer goes back to that topic", async (context) => {
    if (peer === null) return context.skip(`crabline can't start here: ${whyNot}`);
    const server = peer;
    const inbox: MemoryInbox = createMemoryInbox();
    const { botToken, endpoints } = server.manifest;
    const channel: Channel = createTelegramChannel({
      botToken,
      apiRoot: endpoints.apiRoot,
      mode: "polling",
      clock: systemClock,
      log: silentLogger,
      pollSeconds: 2,
    });
    await channel.start(inbox);
    try {
      await say(server, {
        chatId: GROUP,
        chatType: "supergroup",
        isForum: true,
        messageThreadId: 42,
        fromId: 100_001,
        text: "@herald_peer_bot hello",
      });
      await waitFor("the message", () => inbox.rows.size === 1);
      const [raw] = inbox.rows.values();
      const inbound = channel.decode(raw);
      expect(inbound).toMatchObject({ text: "hello", mentioned: true, sender: { id: "100001" }, address: { chat: GROUP, kind: "group" } });
      if (inbound === null) return;
      // This server leaves out `is_topic_message`, which Telegram always sends: the topic is put in by hand.
      const address = { ...inbound.address, thread: "42" };
      const markdown = `# Result\n\n${"**bold** and `code`, a paragraph of some length. ".repeat(200)}\n\n\`\`\`js\nlet x = 1;\n\`\`\``;
      await deliver(channel, { markdown, ...(inbound.ref === undefined ? {} : { replyTo: inbound.ref }) }, address, "reply:1");
      await waitFor("health", () => channel.health().state === "on");
      const sent = await recorded("sendMessage");
      expect(sent.length).toBeGreaterThan(1);
      expect(sent.every((line) => line.includes("42"))).toBe(true);
      expect(sent.join("")).toContain("let x = 1;");
    } finally {
      await channel.stop();
    }
  });
});
