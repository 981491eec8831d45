// The web channel and its server on a free loopback port, with a real database in a temp folder, for the web tests.
// No gateway: tests read what arrived from the inbox table and speak for the agent through channel.send.

import { appendFileSync, existsSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { splitMarkdown } from "../../src/channels/split.ts";
import { createWebChannel, WEB, type WebChannel } from "../../src/channels/web/channel.ts";
import { systemClock } from "../../src/core/clock.ts";
import { type Bus, createBus } from "../../src/core/events.ts";
import { noFailpoints } from "../../src/core/failpoints.ts";
import { newId } from "../../src/core/ids.ts";
import { silentLogger } from "../../src/core/logger.ts";
import { createBrowsers } from "../../src/stores/browsers.ts";
import { type Database, openDatabase } from "../../src/stores/database.ts";
import { createInbox } from "../../src/stores/inbox.ts";
import { createPairing, type Pairing } from "../../src/stores/pairing.ts";
import type { EntryBody } from "../../src/stores/transcript-entry.ts";
import { readTranscriptPage } from "../../src/stores/transcript-page.ts";
import { createWebMessages, type WebMessages } from "../../src/stores/web-messages.ts";
import { createWebPosts } from "../../src/stores/web-posts.ts";
import type { RunDetail, RunView } from "../../src/web/board.ts";
import { createWebServer, type WebServer, type WebServerOptions } from "../../src/web/server.ts";
import { loadToken } from "../../src/web/token.ts";

export interface WebFixture {
  url: string;
  port: number;
  token: string;
  /** The settings have another token now. */
  changeToken(next: string): Promise<void>;
  /** Signs in as a browser would; resolves with the headers it sends from then on. */
  signIn(agent?: string): Promise<{ cookie: string; "x-herald-key": string; origin: string }>;
  stateDir: string;
  db: Database;
  bus: Bus;
  channel: WebChannel;
  messages: WebMessages;
  server: WebServer;
  /** What the board shows; change it and emit run.changed. */
  runs: RunView[];
  /** What an open run shows besides; nothing but its task when it is not set. */
  details: Map<string, Partial<RunDetail>>;
  /** Runs whose announcement was sent again, by id. */
  redelivered: string[];
  pairing: Pairing;
  /** Appends entries to the run's transcript, as lines of its file. */
  log(runId: string, ...entries: (EntryBody & { id: string })[]): void;
  /** What was recorded for the gateway, in order. */
  inbox(): Promise<{ externalId: string; raw: Record<string, unknown> }[]>;
  /** The agent says something in a chat. */
  say(text: string, options?: { chat?: string; key?: string; buttons?: { label: string; command: string }[] }): Promise<void>;
  /** Stops the server and starts it again on the same port and state. */
  restart(): Promise<void>;
  close(): Promise<void>;
}

/** A run on the board, running in the main chat unless told otherwise. */
export function aRun(values: Partial<RunView> = {}): RunView {
  const id = values.id ?? newId();
  const place = { requesterKey: "agent:main:web:dm:main", parentId: null, origin: "web main", chat: "main", depth: 1, position: null };
  const times = { createdAt: 1, startedAt: 1, endedAt: null, doing: null, step: null, tokens: null, costUsd: null };
  return { id, shortId: id.slice(0, 8), label: "A run", state: "running", delivery: "none", ...place, ...times, ...values };
}

const FACTS: RunDetail["facts"] = {
  ...{ childKey: "agent:main:subagent:x", sessionId: "x", agentId: "main", role: null, transcript: "/state/x.jsonl", model: "offline" },
  ...{ thinking: "off", usage: null, cleanup: "keep", archivedAt: null, archiveDueAt: null, deliveryReason: null },
  ...{ generation: 1, resumes: 0 },
};

export async function startWeb(options: Partial<WebServerOptions> = {}): Promise<WebFixture> {
  const stateDir = mkdtempSync(join(tmpdir(), "herald-web-"));
  const bus = createBus((error) => {
    throw error;
  });
  const db = openDatabase({ path: join(stateDir, "herald.db"), onEvent: (event) => bus.emit(event) });
  const messages = createWebMessages({ db, clock: systemClock });
  const inbox = createInbox({ db, clock: systemClock, bootId: "boot", failpoint: noFailpoints });
  const channel = createWebChannel({ posts: createWebPosts({ db, inbox, webMessages: messages }, WEB), bus, split: splitMarkdown });
  await channel.start(inbox.sink(WEB.channel, WEB.account));
  const browsers = createBrowsers({ db, clock: options.clock ?? systemClock });
  let token = loadToken(stateDir);
  const runs: RunView[] = [];
  const redelivered: string[] = [];
  const details = new Map<string, Partial<RunDetail>>();
  const pairing = createPairing({ db, clock: systemClock });
  const transcriptOf = (id: string): string => join(stateDir, `${id}.jsonl`);
  let posted = 0;
  const create = (port: number) =>
    createWebServer({
      host: "127.0.0.1",
      port,
      publicUrl: () => null,
      token: () => token,
      browsers,
      log: silentLogger,
      clock: systemClock,
      bus,
      channel,
      messages,
      board: { listRuns: async () => runs },
      details: {
        async find(id) {
          const run = runs.find((one) => one.id === id);
          return run === undefined ? null : { run, task: "Do it", reason: null, incomplete: false, facts: FACTS, ...details.get(id) };
        },
        transcript: async (id, range) =>
          existsSync(transcriptOf(id)) ? readTranscriptPage(transcriptOf(id), { ...range, fits: () => true }) : null,
      },
      pairing,
      redeliver: async (id) => {
        const run = runs.find((one) => one.id === id);
        if (run === undefined) return null;
        redelivered.push(id);
        return run.delivery === "blocked"
          ? { isOnItsWay: true, text: "Its announcement is on its way again." }
          : { isOnItsWay: false, text: "Its announcement is not blocked." };
      },
      redact: (text) => text,
      heldBack: () => 0,
      nodes: async () => [],
      status: () => ({ version: "0.1.0", model: "offline model", problem: null }),
      ...options,
    });
  const server = create(0);
  const url = await server.listen().catch((error: unknown) => {
    db.close();
    rmSync(stateDir, { recursive: true, force: true });
    throw error;
  });
  server.markReady();
  const port = Number(new URL(url).port);
  const fixture: WebFixture = {
    url,
    port,
    get token() {
      return token;
    },
    async changeToken(next) {
      token = next;
      await fixture.server.followToken();
    },
    async signIn(agent = "test") {
      const headers = { origin: url, "content-type": "application/json", "user-agent": agent };
      const body = JSON.stringify({ token });
      const response = await fetch(`${url}/api/login`, { method: "POST", headers, body });
      const { key } = (await response.json()) as { key: string };
      return { cookie: response.headers.get("set-cookie")?.split(";")[0] ?? "", "x-herald-key": key, origin: url };
    },
    stateDir,
    db,
    bus,
    channel,
    messages,
    server,
    runs,
    details,
    redelivered,
    pairing,
    log(id, ...entries) {
      const at = new Date().toISOString();
      appendFileSync(transcriptOf(id), entries.map((entry) => `${JSON.stringify({ parentId: null, at, ...entry })}\n`).join(""));
      bus.emit({ type: "run.changed", runId: id, state: "running" });
    },
    inbox: async () =>
      (await db.all<{ external_id: string; raw: string }>("SELECT external_id, raw FROM inbox ORDER BY id")).map((row) => ({
        externalId: row.external_id,
        raw: JSON.parse(row.raw),
      })),
    async say(text, { chat = "main", key = `reply:${++posted}#0`, buttons } = {}) {
      const address = { channel: "web", account: "local", chat, kind: "dm" } as const;
      const [part] = channel.render({ markdown: text, ...(buttons && { buttons }) }, address);
      if (part !== undefined) await channel.send({ address, part, key, repeated: false });
    },
    async restart() {
      await fixture.server.close();
      fixture.server = create(port);
      await fixture.server.listen();
      fixture.server.markReady();
    },
    async close() {
      await fixture.server.close();
      db.close();
      rmSync(stateDir, { recursive: true, force: true });
    },
  };
  return fixture;
}
