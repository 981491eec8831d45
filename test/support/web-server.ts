// The web channel and its server on a free loopback port, with a real database in a temp folder, for the web tests.
// No gateway: tests read what arrived from the inbox table and speak for the agent through channel.send.
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createWebChannel, type WebChannel } from "../../src/channels/web/channel.ts";
import { systemClock } from "../../src/core/clock.ts";
import { type Bus, createBus } from "../../src/core/events.ts";
import { silentLogger } from "../../src/core/logger.ts";
import type { InboxSink } from "../../src/core/message.ts";
import { type Database, openDatabase } from "../../src/stores/database.ts";
import { createWebMessages, type WebMessages } from "../../src/stores/web-messages.ts";
import type { RunView } from "../../src/web/board.ts";
import { createWebServer, type WebServer, type WebServerOptions } from "../../src/web/server.ts";
import { loadToken } from "../../src/web/token.ts";

export interface WebFixture {
  url: string;
  port: number;
  token: string;
  stateDir: string;
  db: Database;
  bus: Bus;
  channel: WebChannel;
  messages: WebMessages;
  server: WebServer;
  /** What the board shows; change it and emit run.changed. */
  runs: RunView[];
  /** What was recorded for the gateway, in order. */
  inbox(): { externalId: string; raw: Record<string, unknown> }[];
  /** The agent says something in a chat. */
  say(text: string, options?: { chat?: string; key?: string; buttons?: { label: string; command: string }[] }): Promise<void>;
  /** Stops the server and starts it again on the same port and state. */
  restart(): Promise<void>;
  close(): Promise<void>;
}

const SPLIT_BY_LENGTH = (markdown: string, { maxLength }: { maxLength: number }): string[] =>
  markdown.match(new RegExp(`[^]{1,${maxLength}}`, "g")) ?? [];

export function createTableSink(db: Database, bus: Bus): InboxSink {
  return {
    put(updates) {
      for (const { externalId, raw } of updates) {
        const sql =
          "INSERT OR IGNORE INTO inbox (channel, account, external_id, raw, state, received_at) VALUES ('web', 'local', ?, ?, 'new', 0)";
        db.run(sql, externalId, JSON.stringify(raw));
      }
      db.afterCommit(() => bus.emit({ type: "inbox.added", channel: "web" }));
    },
    cursor: () => null,
  };
}

export async function startWeb(options: Partial<WebServerOptions> = {}): Promise<WebFixture> {
  const stateDir = mkdtempSync(join(tmpdir(), "herald-web-"));
  const db = openDatabase({ path: join(stateDir, "herald.db") });
  const bus = createBus((error) => {
    throw error;
  });
  const messages = createWebMessages(db, systemClock);
  const channel = createWebChannel({ messages, transaction: db.transaction, bus, split: SPLIT_BY_LENGTH });
  await channel.start(createTableSink(db, bus));
  const token = loadToken(stateDir);
  const runs: RunView[] = [];
  let posted = 0;
  const create = (port: number) =>
    createWebServer({
      host: "127.0.0.1",
      port,
      token,
      log: silentLogger,
      clock: systemClock,
      bus,
      channel,
      messages,
      board: { listRuns: () => runs },
      redact: (text) => text,
      status: () => ({ version: "0.1.0", model: "offline model" }),
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
    token,
    stateDir,
    db,
    bus,
    channel,
    messages,
    server,
    runs,
    inbox: () =>
      db
        .all<{ external_id: string; raw: string }>("SELECT external_id, raw FROM inbox ORDER BY id")
        .map((row) => ({ externalId: row.external_id, raw: JSON.parse(row.raw) })),
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

/** Waits until `check` gives a value that is neither null, undefined nor false. */
export async function until<T>(check: () => T | Promise<T>, what = "condition", timeoutMs = 10_000): Promise<NonNullable<T>> {
  const deadline = Date.now() + timeoutMs;
  for (;;) {
    const value = await check();
    if (value !== null && value !== undefined && value !== false) return value as NonNullable<T>;
    if (Date.now() > deadline) throw new Error(`not in time: ${what}`);
    await systemClock.sleep(10);
  }
}
