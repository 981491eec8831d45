// All open tabs and what reaches them. Messages are durable: a tab is fed from the table by its cursor, so a doorbell
// may be missed or rung twice and nothing is lost or doubled. All else (working, draft, runs, chats, pairing) is the
// present state, sent on connect and on change; `run` only says which run changed, for the tab that has it open.
// bus ⇒ doorbells → table / turns / board → openStream → tab
import type { Clock } from "../core/clock.ts";
import type { AppEvent, Bus } from "../core/events.ts";
import type { Logger } from "../core/logger.ts";
import type { WebMessages } from "../stores/web-messages.ts";
import { type Board, type BoardRow, orderRuns } from "./board.ts";
import type { MessageViews } from "./message-view.ts";
import type { Outgoing, Outlet } from "./outgoing.ts";
import { type PairingDesk, peopleView } from "./people-api.ts";
import type { Renderer } from "./rendering.ts";
import { openStream, STREAM_LIMITS, type Stream, type StreamLimits } from "./sse.ts";
import { createThrottle, type ThrottleOptions } from "./throttle.ts";
import { createTurns, type Turns } from "./turns.ts";

/** What the page shows about the gateway. Whoever makes it names each field: the settings stand one step behind. */
export interface PageStatus {
  readonly version: string;
  /** The model in use. */
  readonly model: string;
  /** What keeps it from taking anything in; null when nothing does. */
  readonly problem: string | null;
}

/** A process among several, as the page shows it. */
export interface NodeLine {
  readonly id: string;
  readonly name: string;
  readonly role: string;
  readonly version: string;
  readonly isFront: boolean;
  readonly turns: number;
  readonly runs: number;
  readonly seenAt: number;
}

export interface LiveOptions {
  bus: Bus;
  clock: Clock;
  log: Logger;
  messages: WebMessages;
  views: MessageViews;
  render: Renderer["render"];
  board: Board;
  pairing: PairingDesk;
  /** For what is rendered; all else is redacted on its way out. */
  redact(text: string): string;
  heldBack(text: string): number;
  outgoing: Pick<Outgoing, "event">;
  status(): PageStatus;
  /** The machines of the installation; none: there is only this process. */
  nodes(): Promise<readonly NodeLine[]>;
  isSignedIn(browserId: string): Promise<boolean>;
  limits?: StreamLimits;
  heartbeatMs?: number;
}

export interface Live {
  /** Takes the response over. False when too many tabs are open. */
  open(response: Outlet, listener: Listener): Promise<boolean>;
  runs(): Promise<BoardRow[]>;
  chats(): Promise<{ id: string; title: string | null; lastAt: number; lastSeq: number }[]>;
  /** Ends the streams of browsers that are not signed in any more. */
  recheck(): Promise<void>;
  /** Ends every stream: the token is another one. Whoever may comes back. */
  cut(): void;
  /** Ends every stream and stops listening. */
  close(): void;
}

export interface Listener {
  readonly chat: string;
  /** Null: from now on. */
  readonly cursor: number | null;
  /** Null: a script with the token. */
  readonly browserId: string | null;
}

interface Tab extends Pick<Listener, "chat" | "browserId"> {
  readonly stream: Stream;
  /** The last message written to the stream. */
  sentSeq: number;
  isFeeding: boolean;
  /** Asked for more while it was fed. */
  isRung: boolean;
  /** There was no room for the last one. */
  isDraftDue: boolean;
}

const MAX_TABS = 100;
const MAX_RUNS = 100;
const PAGE_SIZE = 20;
const RUNS_EVERY_MS = 150;
const CHATS_EVERY_MS = 250;
const NODES_EVERY_MS = 3_000;
const HEARTBEAT_MS = 15_000;

export function createLive(options: LiveOptions): Live {
  const { clock, board, messages, redact, outgoing } = options;
  const tabs = new Set<Tab>();
  const stopped = new AbortController();
  const onError = (error: unknown) => options.log.error({ err: error }, "the page could not be updated");
  const common = { clock, onError, signal: stopped.signal };
  const toChat = (chat: string, event: string, data: unknown) => {
    const text = outgoing.event(event, data);
    for (const tab of tabs) if (tab.chat === chat) tab.stream.send(text);
  };
  const toAll = (event: string, data: unknown) => {
    if (tabs.size === 0) return;
    const text = outgoing.event(event, data);
    for (const tab of tabs) tab.stream.send(text);
  };
  const turns = createTurns({
    ...common,
    redact,
    heldBack: options.heldBack,
    render: options.render,
    onWorking: (chat) => toChat(chat, "working", turns.working(chat)),
    onDraft(chat) {
      for (const tab of tabs) if (tab.chat === chat) sendDraft(tab, turns, options);
    },
  });
  const runs = async () => orderRuns(await board.listRuns({ limit: MAX_RUNS }));
  const present = { chats: messages.chats, runs, pairing: () => peopleView(options.pairing), nodes: options.nodes };
  const feedTab = (tab: Tab) => void feed(tab, options, turns).catch(onError);
  const ring = createBells({ toAll, isHeard: () => tabs.size > 0, present, common });
  const unsubscribe = options.bus.on((event) => {
    turns.see(event);
    if (event.type === "web.posted") for (const tab of tabs) if (tab.chat === event.chat) feedTab(tab);
    if (event.type === "bells.missed") for (const tab of tabs) feedTab(tab);
    if (event.type === "folder.changed") toAll("status", options.status());
    ring(event);
  });
  const recheck = async (): Promise<void> => {
    for (const tab of tabs) if (tab.browserId !== null && !(await options.isSignedIn(tab.browserId))) tab.stream.close();
  };
  void beat(tabs, options, { recheck, onError, signal: stopped.signal });

  return {
    async open(response, { chat, cursor, browserId }) {
      // Read before it is one of the tabs, sent once it is: what changes in between rings, and nothing older comes behind that.
      const sentSeq = cursor ?? (await messages.lastSeq(chat));
      const states: [string, unknown][] = [];
      for (const [name, state] of Object.entries(present)) states.push([name, await state()]);
      // It hung up meanwhile: nobody would ever say so again, and it would take a place for good.
      if (response.destroyed) return true;
      if (tabs.size >= MAX_TABS) return false;
      const limits = options.limits ?? STREAM_LIMITS;
      const stream = openStream({ response, clock, limits, onDrain: () => feedTab(tab), onClose: () => tabs.delete(tab) });
      const tab: Tab = { chat, browserId, stream, sentSeq, isFeeding: false, isRung: false, isDraftDue: false };
      tabs.add(tab);
      stream.send(outgoing.event("working", turns.working(chat)));
      sendDraft(tab, turns, options);
      stream.send(outgoing.event("status", options.status()));
      for (const [name, state] of states) stream.send(outgoing.event(name, state));
      feedTab(tab);
      return true;
    },
    runs,
    chats: () => messages.chats(),
    recheck,
    cut() {
      for (const tab of tabs) tab.stream.close();
    },
    close() {
      stopped.abort();
      unsubscribe();
      for (const tab of tabs) tab.stream.close();
    },
  };
}

type Present = Record<"chats" | "runs" | "pairing" | "nodes", () => Promise<unknown>>;

interface BellOptions {
  toAll(event: string, data: unknown): void;
  isHeard(): boolean;
  present: Present;
  common: Pick<ThrottleOptions, "clock" | "onError" | "signal">;
}

/** Tells all tabs what changed, together with everything else that changes in the same moment. */
function createBells({ toAll, isHeard, present, common }: BellOptions): (event: AppEvent) => void {
  const bell = (name: keyof Present, everyMs: number) =>
    createThrottle({
      ...common,
      everyMs,
      async work() {
        if (isHeard()) toAll(name, await present[name]());
        return undefined;
      },
    });
  const chats = bell("chats", CHATS_EVERY_MS);
  const pairing = bell("pairing", CHATS_EVERY_MS);
  const runs = bell("runs", RUNS_EVERY_MS);
  const nodes = bell("nodes", NODES_EVERY_MS);
  const changed = new Set<string>();
  const run = createThrottle({
    ...common,
    everyMs: RUNS_EVERY_MS,
    work() {
      for (const id of changed) toAll("run", { id });
      changed.clear();
      return undefined;
    },
  });
  return (event: AppEvent): void => {
    const runId = changedRun(event);
    if (event.type === "web.posted") chats.ring();
    if (event.type === "pairing.changed") pairing.ring();
    if (event.type === "bells.missed") for (const missed of [chats, pairing, runs, nodes]) missed.ring();
    if (runId === null) return;
    changed.add(runId);
    runs.ring();
    run.ring();
  };
}

/** The run an event is about; null when it is about none. */
const changedRun = (event: AppEvent): string | null =>
  event.type === "run.changed" || event.type === "run.ended" || event.type === "turn.doing" ? event.runId : null;

/** A tab that is behind gets the newest once it caught up, not each one. */
function sendDraft(tab: Tab, turns: Turns, { outgoing }: LiveOptions): void {
  tab.isDraftDue = !tab.stream.hasRoom();
  const draft = tab.isDraftDue ? null : turns.draft(tab.chat);
  if (draft !== null) tab.stream.send(outgoing.event("draft", draft));
}

/** Writes what the tab has not got yet for as long as it keeps up; `drain` calls again. */
async function feed(tab: Tab, options: LiveOptions, turns: Turns): Promise<void> {
  tab.isRung = true;
  // One at a time per tab, else two would send the same rows.
  if (tab.isFeeding) return;
  tab.isFeeding = true;
  const { messages, views, outgoing } = options;
  try {
    while (!tab.stream.isClosed() && tab.stream.hasRoom()) {
      tab.isRung = false;
      const rows = await messages.list(tab.chat, { afterSeq: tab.sentSeq, limit: PAGE_SIZE });
      // Posted while the list was read.
      if (rows.length === 0 && tab.isRung) continue;
      // Messages first: on a slow line drafts alone would fill it.
      if (rows.length === 0) return void (tab.isDraftDue && sendDraft(tab, turns, options));
      for (const view of await views.toViews(rows)) {
        // Nothing leaves before this moment's writes are done: a whole page at once could be more than a tab may be behind.
        if (!tab.stream.hasRoom()) return;
        tab.stream.send(outgoing.event("message", view, view.seq));
        tab.sentSeq = view.seq;
      }
    }
  } finally {
    tab.isFeeding = false;
  }
}

interface Beating {
  recheck(): Promise<void>;
  onError(error: unknown): void;
  signal: AbortSignal;
}

async function beat(tabs: ReadonlySet<Tab>, { clock, heartbeatMs = HEARTBEAT_MS }: LiveOptions, beating: Beating): Promise<void> {
  while (!beating.signal.aborted) {
    await clock.sleep(heartbeatMs, beating.signal);
    try {
      // A stream may stay open for longer than its browser may: thirty days, or until somebody ended it beside us.
      await beating.recheck();
    } catch (error) {
      beating.onError(error);
    }
    for (const tab of tabs) tab.stream.beat();
  }
}
