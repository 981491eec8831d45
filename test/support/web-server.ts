// The web channel and its server on a free loopback port, with a real database in a temp folder, for the web tests.
// No gateway: tests read what arrived from the inbox table and speak for the agent through channel.send.

import { appendFileSync, existsSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { z } from "zod";
import { createRunBoard } from "../../src/app/board.ts";
import { createQuestionDesk } from "../../src/app/question-desk.ts";
import { createRunLines } from "../../src/app/run-lines.ts";
import type { Stores } from "../../src/app/store-parts.ts";
import { splitMarkdown } from "../../src/channels/split.ts";
import { createWebChannel, WEB, type WebChannel } from "../../src/channels/web/channel.ts";
import { systemClock } from "../../src/core/clock.ts";
import { type Bus, createBus } from "../../src/core/events.ts";
import { noFailpoints } from "../../src/core/failpoints.ts";
import { newId } from "../../src/core/ids.ts";
import { silentLogger } from "../../src/core/logger.ts";
import type { NewQuestion, Question } from "../../src/core/question.ts";
import type { Run } from "../../src/core/run.ts";
import { createReplies } from "../../src/questions/replies.ts";
import { createApprovalRules } from "../../src/stores/approval-rules.ts";
import { createBrowsers } from "../../src/stores/browsers.ts";
import { type Database, openDatabase } from "../../src/stores/database.ts";
import { createDigests } from "../../src/stores/digests.ts";
import { createGroups } from "../../src/stores/groups.ts";
import { createInbox } from "../../src/stores/inbox.ts";
import { createPairing, type Pairing } from "../../src/stores/pairing.ts";
import { createProgramTokens } from "../../src/stores/program-tokens.ts";
import { createQuestions, type Questions } from "../../src/stores/questions.ts";
import { createRunSearch } from "../../src/stores/run-search.ts";
import type { EntryBody } from "../../src/stores/transcript-entry.ts";
import { readBetween, readTranscriptPage } from "../../src/stores/transcript-page.ts";
import { createWebChats } from "../../src/stores/web-chats.ts";
import { createWebMessages, type WebMessages } from "../../src/stores/web-messages.ts";
import { createWebPosts } from "../../src/stores/web-posts.ts";
import type { RunDetail, RunView } from "../../src/web/board.ts";
import { createMcpRoute } from "../../src/web/mcp-api.ts";
import type { ProgramDesk } from "../../src/web/program-desk.ts";
import { createPrograms } from "../../src/web/programs.ts";
import type { QuestionDesk } from "../../src/web/questions.ts";
import type { PageDesks } from "../../src/web/routes.ts";
import type { Steered } from "../../src/web/runs-api.ts";
import { createWebServer, type WebServer, type WebServerOptions } from "../../src/web/server.ts";
import type { SetupDesk } from "../../src/web/setup.ts";
import { loadToken } from "../../src/web/token.ts";
import type { UsageView } from "../../src/web/usage.ts";
import { createFileRig, type FileRig } from "./files.ts";

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
  files: FileRig;
  server: WebServer;
  /** What the board shows; change it and emit run.changed. */
  runs: RunView[];
  /** What an open run shows besides; nothing but its task when it is not set. */
  details: Map<string, Partial<RunDetail>>;
  /** What runs were told from the page: the action, the run, the words. */
  steered: string[][];
  /** Runs whose announcement was sent again, by id. */
  redelivered: string[];
  desk: QuestionDesk;
  pairing: Pairing;
  questions: Questions;
  /** Turns that nobody works on any more, by id: their questions are closed. */
  endedTurns: Set<string>;
  /** Somebody is asked, in the main chat by the agent itself unless told otherwise. */
  ask(values?: Partial<NewQuestion>): Promise<Question>;
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
  const place = {
    requesterKey: "agent:main:web:dm:main",
    parentId: null,
    origin: "web main",
    chat: "main",
    depth: 1,
    generation: 1,
    position: null,
  };
  const times = { createdAt: 1, startedAt: 1, endedAt: null, doing: null, step: null, tokens: null, costUsd: null, isAsking: false };
  const more = { limit: null, goOn: null, rerunOf: null, group: null, digestAt: null };
  return { id, shortId: id.slice(0, 8), label: "A run", state: "running", delivery: "none", ...place, ...times, ...more, ...values };
}

const FACTS: RunDetail["facts"] = {
  ...{ childKey: "agent:main:subagent:x", sessionId: "x", agentId: "main", role: null, transcript: "/state/x.jsonl", model: "offline" },
  ...{ thinking: "off", usage: null, cleanup: "keep", archivedAt: null, archiveDueAt: null, deliveryReason: null },
  ...{ generation: 1, resumes: 0 },
};

const NO_BRIEF: RunDetail["briefing"] = { briefs: [], version: 0, isOpen: true };

export const NO_USAGE: UsageView = {
  ...{ by: "all", days: [], series: [], others: 0, budgets: [] },
  total: { input: 0, output: 0, calls: 0, runs: 0, costUsd: 0, unpriced: 0 },
};
const COMPARED = {
  fields: [
    { name: "Model", one: "offline", other: "offline" },
    { name: "Steps", one: "2", other: "1" },
  ],
  ...{ link: null, patch: "@@ -1 +1 @@\n-red\n+blue", note: "" },
};

/** Writes down what it is asked to do. */
function recordingDesk(steered: string[][]): PageDesks["runDesk"] {
  const note = async (...what: string[]): Promise<Steered> => {
    steered.push(what);
    return { status: "done", text: `Noted: ${what[0]}.` };
  };
  return {
    below: async () => 0,
    stop: (ids) => note("stop", ...ids),
    send: (id, text) => note("send", id, text),
    again: (id) => note("again", id),
    raise: (id, { amount }) => note("raise", id, amount),
  };
}

/** The board's own list, of the rows that are in the database. There is no gateway behind it to steer anything. */
export function boardParts(db: Database): Pick<PageDesks, "lines" | "runDesk" | "sessions"> {
  const deps = { db, clock: systemClock };
  const stores = { runSearch: createRunSearch(deps), groups: createGroups(deps), digests: createDigests(deps) } as unknown as Stores;
  const { viewsOf } = createRunBoard({
    ...{ stores, clock: systemClock, log: silentLogger },
    lane: { positions: async () => new Map() },
    payments: { ownLevels: async () => new Map() },
    archiver: { dueAt: () => null },
    again: { taskOf: async () => null },
    briefing: { list: async () => [], version: async () => 0 },
  });
  const none = async (): Promise<null> => null;
  return {
    lines: createRunLines({ stores, viewsOf }),
    runDesk: recordingDesk([]),
    sessions: { list: async () => ({ sessions: [], next: null }), find: none, transcript: none, stop: none, send: none },
  };
}
/** Of a page without a gateway behind it: nothing can be answered anew, and chats have no sessions. */
export const NO_CHAT_DESK: PageDesks["chats"] = {
  resend: async () => ({ status: "off" }),
  rename: async () => {},
  about: async () => ({ messages: 0, isAtWork: false, running: 0 }),
  remove: async () => "There is no gateway here.",
  commands: () => [],
};

/** Set-up without anything to set. */
const NO_SETUP: SetupDesk = {
  view: async () => ({
    ...{ version: "1", machine: null, problem: null, waiting: [], canRestart: false, sections: [] },
    files: { settings: "herald.json5", dotEnv: ".env" },
  }),
  test: async () => ({ isOk: true, lines: [] }),
  save: async () => ({ outcome: "saved", waiting: [] }),
  remove: async () => ({ outcome: "stale" }),
  reload: async () => ({ problem: null, waiting: [] }),
  restart: async () => false,
};

/** A desk with no run of any program on it. */
export const noPrograms: ProgramDesk = {
  spawnSchema: z.strictObject({ task: z.string() }),
  spawn: async () => ({ refused: "not here" }),
  list: async () => [],
  ...{ find: async () => null, result: async () => null, log: async () => null },
  ...{ send: async () => null, stop: async () => null, answer: async () => null },
};

export interface WebOptions extends Partial<Omit<WebServerOptions, "desks">> {
  desks?: Partial<PageDesks>;
}

export async function startWeb({ desks: given, ...options }: WebOptions = {}): Promise<WebFixture> {
  const stateDir = mkdtempSync(join(tmpdir(), "herald-web-"));
  const bus = createBus((error) => {
    throw error;
  });
  const db = openDatabase({ path: join(stateDir, "herald.db"), onEvent: (event) => bus.emit(event) });
  const messages = createWebMessages({ db, clock: systemClock });
  const inbox = createInbox({ db, clock: systemClock, bootId: "boot", failpoint: noFailpoints });
  const files = createFileRig(db, systemClock, stateDir);
  const posts = createWebPosts({ db, inbox, webMessages: messages, attachments: files.attachments }, WEB);
  const channel = createWebChannel({ posts, bus, split: splitMarkdown });
  await channel.start(inbox.sink(WEB.channel, WEB.account));
  const browsers = createBrowsers({ db, clock: options.clock ?? systemClock });
  const programTokens = createProgramTokens({ db, clock: options.clock ?? systemClock });
  const programs = createPrograms({ tokens: programTokens, clock: options.clock ?? systemClock, log: silentLogger });
  let token = loadToken(stateDir);
  const runs: RunView[] = [];
  const redelivered: string[] = [];
  const steered: string[][] = [];
  const details = new Map<string, Partial<RunDetail>>();
  const pairing = createPairing({ db, clock: systemClock });
  const questions = createQuestions({ db, clock: systemClock });
  const endedTurns = new Set<string>();
  const replies = createReplies({
    questions,
    rules: createApprovalRules({ db, clock: systemClock }),
    runs: { get: async (id) => (runs.some((run) => run.id === id) ? ({ state: "waiting", generation: 1 } as Run) : null) },
    clock: systemClock,
    isTurnOpen: async (turnId) => !endedTurns.has(turnId),
  });
  const desk = createQuestionDesk({ stores: { db, questions }, replies, log: silentLogger });
  const transcriptOf = (id: string): string => join(stateDir, `${id}.jsonl`);
  let posted = 0;
  const desks: PageDesks = {
    webChats: createWebChats({ db }),
    chats: NO_CHAT_DESK,
    files: files.desk,
    board: { listRuns: async () => runs },
    details: {
      async find(id) {
        const run = runs.find((one) => one.id === id);
        const record = {
          task: "Do it",
          reason: null,
          incomplete: false,
          facts: FACTS,
          repeats: null,
          repeatedBy: [],
          children: [],
          unread: [],
          briefing: NO_BRIEF,
        };
        return run === undefined ? null : { run, ...record, ...details.get(id) };
      },
      task: async (id) => (runs.some((run) => run.id === id) ? { task: details.get(id)?.task ?? "Do it", model: "offline" } : null),
      related: async (id) =>
        runs.some((run) => run.id === id) ? { repeats: null, repeatedBy: [], others: runs.filter((run) => run.id !== id) } : null,
      compare: async (id, otherId) => {
        const [one, other] = [id, otherId].map((wanted) => runs.find((run) => run.id === wanted));
        return one === undefined || other === undefined ? null : { one, other, ...COMPARED };
      },
      transcript: async (id, range) =>
        existsSync(transcriptOf(id)) ? readTranscriptPage(transcriptOf(id), { ...range, fits: () => true }) : null,
    },
    record: {
      entry: async (id, position) => {
        if (existsSync(transcriptOf(id)))
          for (const entry of readBetween(transcriptOf(id), position, Number.MAX_SAFE_INTEGER)) return entry;
        return null;
      },
      ...{ documents: async () => [], document: async () => null, spend: async () => ({ points: [], steps: 0, isCut: false }) },
    },
    usage: { read: async () => NO_USAGE },
    questions: desk,
    setup: NO_SETUP,
    briefs: { history: async () => null, give: async () => null, revoke: async () => null },
    redeliver: async (id) => {
      const run = runs.find((one) => one.id === id);
      if (run === undefined) return null;
      redelivered.push(id);
      return run.delivery === "blocked"
        ? { isOnItsWay: true, text: "Its announcement is on its way again." }
        : { isOnItsWay: false, text: "Its announcement is not blocked." };
    },
    ...boardParts(db),
    runDesk: recordingDesk(steered),
    ...given,
  };
  const create = (port: number) =>
    createWebServer({
      host: "127.0.0.1",
      port,
      publicUrl: () => null,
      token: () => token,
      browsers,
      programs,
      routes: [
        createMcpRoute({
          desk: async () => noPrograms,
          isValid: programs.isValid,
          version: () => "0",
          bus,
          clock: systemClock,
          log: silentLogger,
        }),
      ],
      log: silentLogger,
      clock: systemClock,
      bus,
      channel,
      messages,
      pairing,
      desks: async () => desks,
      redact: (text) => text,
      heldBack: () => 0,
      nodes: async () => [],
      budgets: async () => [],
      status: () => ({ version: "0.1.0", model: "offline model", problem: null, channels: [] }),
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
    files,
    server,
    runs,
    details,
    redelivered,
    steered,
    desk,
    pairing,
    questions,
    endedTurns,
    async ask(values = {}) {
      const address = { channel: "web", account: "local", chat: "main", kind: "dm" } as const;
      const place = { rootKey: "agent:main:web:dm:main", sessionId: "s", runId: null, generation: 1, turnId: "turn:1", address };
      const asked = { kind: "ask" as const, asker: "Herald", text: "Which colour?", options: [], tool: null, digest: null };
      const wanted = { ...place, ...asked, callKey: newId(), expiresAt: Date.now() + 86_400_000, ...values };
      return (await db.transaction([], (tx) => questions.put(tx, wanted))).question;
    },
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
