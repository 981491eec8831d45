// Smoke run against a Discord server other people wrote (@openclaw/crabline): our own fake could share our mistakes. It knows no
// interactions and enforces no nonce.
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { createDiscordChannel } from "../../src/channels/discord/channel.ts";
import { systemClock } from "../../src/core/clock.ts";
import { errorText } from "../../src/core/errors.ts";
import { silentLogger } from "../../src/core/logger.ts";
import { deliver } from "../contract/channel.contract.ts";
import { createMemoryInbox } from "../support/memory-inbox.ts";
import { waitFor } from "../support/wait.ts";

type Peer = Awaited<ReturnType<typeof import("@openclaw/crabline").startDiscordServer>>;

const BOT = "1000000000000000001";
const TOKEN = `${Buffer.from(BOT).toString("base64url")}.GpeerX.peer_bot_token_0123456789abcdefghij`;
const THREAD = "7000000000000000007";

let folder: string;
let peer: Peer | null = null;
let whyNot = "";

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), "herald-peer-"));
  try {
    const { startDiscordServer } = await import("@openclaw/crabline");
    const recorderPath = join(folder, "record.jsonl");
    peer = await startDiscordServer({ host: "127.0.0.1", port: 0, recorderPath, botToken: TOKEN, botUserId: BOT });
  } catch (error) {
    whyNot = errorText(error);
  }
});
afterAll(async () => {
  await peer?.close();
  await rm(folder, { recursive: true, force: true });
});

async function say({ manifest }: Peer, message: Record<string, unknown>): Promise<void> {
  const headers = { "content-type": "application/json", "x-crabline-admin-token": manifest.adminToken };
  const answer = await fetch(manifest.endpoints.adminInboundUrl, { method: "POST", headers, body: JSON.stringify(message) });
  expect(answer.status, await answer.text()).toBeLessThan(300);
}

describe("Discord against crabline", () => {
  it("[DC1][AN3] a mention in a thread is received once, a long answer goes back to that thread, edits change it, a restart resumes", async (context) => {
    if (peer === null) return context.skip(`crabline can't start here: ${whyNot}`);
    const { fixture, endpoints } = peer.manifest;
    const inbox = createMemoryInbox();
    const make = () =>
      createDiscordChannel({
        ...{ botToken: TOKEN, apiUrl: endpoints.apiRoot, listed: () => [fixture.channelId] },
        ...{ clock: systemClock, log: silentLogger },
      });
    let channel = make();
    await channel.start(inbox);
    try {
      await waitFor("the connection", () => channel.health().state === "on");
      const said = { guildId: fixture.guildId, channelId: THREAD, parentChannelId: fixture.channelId, senderId: "4200000000000000042" };
      await say(peer, { ...said, content: `<@${BOT}> hello` });
      await waitFor("the message", () => inbox.rows.size === 1);
      const inbound = channel.decode([...inbox.rows.values()][0]);
      expect(inbound).toMatchObject({
        text: "hello",
        mentioned: true,
        address: { chat: fixture.channelId, thread: THREAD, kind: "channel" },
      });
      if (inbound === null) return;
      const markdown = `# Result\n\n${"**bold** and `code`, a paragraph of some length. ".repeat(60)}\n\n\`\`\`js\nlet x = 1;\n\`\`\``;
      await deliver(channel, { markdown }, inbound.address, "reply:1");
      const read = async (): Promise<{ id: string; content: string; author: { id: string } }[]> => {
        const answer = await fetch(`${endpoints.apiRoot}/v10/channels/${THREAD}/messages?limit=50`, {
          headers: { authorization: `Bot ${TOKEN}` },
        });
        return ((await answer.json()) as { id: string; content: string; author: { id: string } }[]).filter(
          ({ author }) => author.id === BOT,
        );
      };
      const sent = await read();
      expect(sent.length).toBeGreaterThan(1);
      expect(sent.map(({ content }) => content).join("")).toContain("let x = 1;");
      const ref = sent[0]?.id ?? "";
      expect(await channel.edit?.({ address: inbound.address, ref, part: { content: "changed" } })).toEqual({ status: "shown" });
      expect((await read()).some(({ content }) => content === "changed")).toBe(true);
      await channel.stop();
      channel = make();
      await channel.start(inbox);
      await waitFor("the connection again", () => channel.health().state === "on");
      await say(peer, { ...said, content: `<@${BOT}> again` });
      await waitFor("the second message", () => inbox.rows.size === 2);
    } finally {
      await channel.stop();
    }
  });
});
