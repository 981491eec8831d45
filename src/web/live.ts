// All open tabs and what reaches them. Messages are durable: a tab is fed from the table by its cursor (feeding.ts).
// All else (working, draft, questions, runs, chats, pairing) is the
// present state, sent on connect and on change; `run` only says which run changed, for the tab that has it open.
// bus ⇒ doorbells → table / turns / board → openStream → tab
import type { Clock } from "../core/clock.ts";
import type { AppEvent, Bus } from "../core/events.ts";
import { newId } from "../core/ids.ts";
import type { Logger } from "../core/logger.ts";
import type { ChannelState } from "../core/message.ts";
import { createThrottle, type ThrottleOptions } from "../core/throttle.ts";
import type { WebMessages } from "../stores/web-messages.ts";
import { type Board, type BoardRow, type BudgetLine, orderRuns } from "./board.ts";
import { feed, type Listener, sayIfGone, sendDraft, type Tab } from "./feeding.ts";
import type { MessageViews } from "./message-view.ts";
import type { Outgoing, Outlet } from "./outgoing.ts";
import { type PairingDesk, peopleView } from "./people-api.ts";
import type { QuestionDesk, QuestionViews } from "./questions.ts";
import type { Renderer } from "./rendering.ts";
import { createRunWatch, type RunWatch } from "./run-watch.ts";
import { openStream, STREAM_LIMITS, type StreamLimits } from "./sse.ts";
import { createTurns } from "./turns.ts";

/** What the page shows about the gateway. Whoever makes it names each field: the settings stand one step behind. */
export interface PageStatus {
  readonly version: string;
  /** The model in use. */
  readonly model: string;
  /** What keeps it from taking anything in; null when nothing does. */
  readonly problem: string | null;
  /** All but the page, also those that are off. As they are when it is asked: what they change in between is not told. */
  readonly channels: readonly ChannelStanding[];
}

export interface ChannelStanding {
  readonly name: string;
  readonly state: ChannelState;
  /** Why; when off, the setting that would turn it on. */
  readonly detail: string | null;
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
  questions: Pick<QuestionDesk, "open">;
  questionViews: QuestionViews;
  pairing: PairingDesk;
  /** For what is rendered; all else is redacted on its way out. */
  redact(text: string): string;
  heldBack(text: string): number;
  outgoing: Pick<Outgoing, "event">;
  status(): PageStatus;
  /** What is spent of the limits of the whole installation; none: it has none. */
  budgets(): Promise<readonly BudgetLine[]>;
  /** The machines of the installation; none: there is only this process. */
  nodes(): Promise<readonly NodeLine[]>;
  isSignedIn(browserId: string): Promise<boolean>;
  limits?: StreamLimits;
  heartbeatMs?: number;
}

export interface Live {
  /** Takes the response over. False when too many tabs are open. */
  open(response: Outlet, listener: Listener): Promise<boolean>;
  watch: RunWatch["watch"];
  runs(): Promise<BoardRow[]>;
  chats(): Promise<{ id: string; title: string | null; lastAt: number; lastSeq: number }[]>;
  /** Ends the streams of browsers that are not signed in any more. */
  recheck(): Promise<void>;
  /** Ends every stream: the token is another one. Whoever may comes back. */
  cut(): void;
  /** Ends every stream and stops listening. */
  close(): void;
}

const MAX_TABS = 100;
const MAX_RUNS = 100;
/** Answering one brings up the next. */
const MAX_QUESTIONS = 30;
const RUNS_EVERY_MS = 150;
const CHATS_EVERY_MS = 250;
const NODES_EVERY_MS = 3_000;
const BUDGETS_EVERY_MS = 1_000;
const HEARTBEAT_MS = 15_000;

export function createLive(options: LiveOptions): Live {
  const { clock, board, messages, redact, outgoing } = options;
  const tabs = new Set<Tab>();
  /** They will hear what rings from now on: it is on its way while they read how things stand. */
  let arriving = 0;
  const stopped = new AbortController();
  const onError = (error: unknown) => options.log.error({ err: error }, "the page could not be updated");
  const common = { clock, onError, signal: stopped.signal };
  const tabsOf = (chat: string): Tab[] => [...tabs].filter((tab) => tab.chat === chat);
  const toAll = toAllOf(tabs, outgoing);
  const drawing = { ...common, redact, heldBack: options.heldBack, render: options.render };
  const turns = createTurns({
    ...drawing,
    isWatched: (chat) => tabsOf(chat).length > 0,
    onWorking: (chat) => tabsOf(chat).forEach((tab) => void tab.stream.send(outgoing.event("working", turns.working(chat)))),
    onDraft: (chat) => tabsOf(chat).forEach((tab) => void sendDraft(tab, { turns, outgoing })),
  });
  const watching = createRunWatch({ ...drawing, tabs, bus: options.bus, outgoing });
  const runs = async () => orderRuns(await board.listRuns({ limit: MAX_RUNS }));
  const present = presentOf(options, runs);
  const feedTab = (tab: Tab) => void feed(tab, { ...options, turns }).catch(onError);
  const catchUp = (tab: Tab) => void Promise.all([feed(tab, { ...options, turns }), sayIfGone(tab, options)]).catch(onError);
  const ring = createBells({ toAll, isHeard: () => tabs.size + arriving > 0, present, common });
  const unsubscribe = options.bus.on((event) => {
    turns.see(event);
    watching.see(event);
    if (event.type === "web.posted" || event.type === "web.edited") for (const tab of tabsOf(event.chat)) feedTab(tab);
    if (event.type === "chat.changed" && event.isGone) for (const tab of tabsOf(event.chat)) tab.stream.send(outgoing.event("gone", {}));
    if (event.type === "bells.missed") for (const tab of tabs) catchUp(tab);
    if (event.type === "folder.changed" || event.type === "settings.changed") toAll("status", options.status());
    ring(event);
  });
  const cut = (): void => tabs.forEach((tab) => void tab.stream.close());
  const recheck = async (): Promise<void> => {
    for (const tab of tabs) if (tab.browserId !== null && !(await options.isSignedIn(tab.browserId))) tab.stream.close();
  };
  void beat(tabs, options, { rewatch: watching.rewatch, recheck, onError, signal: stopped.signal });

  return {
    async open(response, { chat, cursor, browserId }) {
      // Read before it is one of the tabs, sent once it is: what changes in between rings, and nothing older comes behind that.
      const { seq, editedAt } = cursor ?? { seq: await messages.lastSeq(chat), editedAt: await messages.lastEdit(chat) };
      arriving++;
      const states = await readAll(present).finally(() => arriving--);
      // It hung up meanwhile: nobody would ever say so again, and it would take a place for good.
      if (response.destroyed) return true;
      if (tabs.size >= MAX_TABS) return false;
      const limits = options.limits ?? STREAM_LIMITS;
      const stream = openStream({ response, clock, limits, onDrain: () => feedTab(tab), onClose: () => tabs.delete(tab) });
      const tab: Tab = { ...newTab(), chat, browserId, stream, sentSeq: seq, sentEdit: editedAt };
      tabs.add(tab);
      stream.send(outgoing.event("working", turns.working(chat)));
      sendDraft(tab, { turns, outgoing });
      turns.watch(chat);
      stream.send(outgoing.event("status", options.status()));
      for (const [name, state] of [["tab", { id: tab.id }] as const, ...states]) stream.send(outgoing.event(name, state));
      catchUp(tab);
      return true;
    },
    watch: watching.watch,
    runs,
    chats: () => messages.chats(),
    recheck,
    cut,
    close() {
      stopped.abort();
      unsubscribe();
      cut();
    },
  };
}

const toAllOf =
  (tabs: ReadonlySet<Tab>, outgoing: LiveOptions["outgoing"]) =>
  (event: string, data: unknown): void => {
    if (tabs.size === 0) return;
    const text = outgoing.event(event, data);
    for (const tab of tabs) tab.stream.send(text);
  };

const newTab = () => ({ id: newId(), run: null, isFeeding: false, isRung: false, isDraftDue: false });

type Present = Record<"chats" | "runs" | "pairing" | "nodes" | "budgets" | "questions", () => Promise<unknown>>;

/**
 * What every tab is shown as it is now, whichever chat it has open; read in this order when one opens. Questions last: nothing is
 * awaited between them and its place among the tabs, so one that is asked meanwhile rings for it, too, and is not overlooked for good.
 */
function presentOf({ messages, pairing, nodes, budgets, questions, questionViews }: LiveOptions, runs: Live["runs"]): Present {
  return {
    ...{ chats: messages.chats, runs, pairing: () => peopleView(pairing), nodes, budgets },
    async questions() {
      const { questions: open, total } = await questions.open(MAX_QUESTIONS);
      return { questions: await questionViews.toViews(open), total };
    },
  };
}

async function readAll(present: Present): Promise<[string, unknown][]> {
  const states: [string, unknown][] = [];
  for (const [name, state] of Object.entries(present)) states.push([name, await state()]);
  return states;
}

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
  const budgets = bell("budgets", BUDGETS_EVERY_MS);
  const questions = bell("questions", RUNS_EVERY_MS);
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
    if (event.type === "web.posted" || event.type === "chat.changed") chats.ring();
    if (event.type === "pairing.changed") pairing.ring();
    if (event.type === "bells.missed") for (const missed of [chats, pairing, runs, nodes, budgets, questions]) missed.ring();
    // Asked, answered; or whoever asked has ended, and nobody waits for it any more.
    if (event.type === "question.changed" || event.type === "run.ended" || event.type === "turn.ended") questions.ring();
    // Of a limit: that run's, of those above it, of the day.
    if (event.type === "budget.settled") for (const spent of [runs, budgets]) spent.ring();
    if (runId === null) return;
    changed.add(runId);
    runs.ring();
    run.ring();
  };
}

/** The run an event is about; null when it is about none. */
const changedRun = (event: AppEvent): string | null =>
  event.type === "run.changed" ||
  event.type === "run.ended" ||
  event.type === "turn.doing" ||
  event.type === "question.changed" ||
  event.type === "run.mail"
    ? event.runId
    : null;

interface Beating {
  /** Says again which runs are looked at: whoever works on them forgets it after a while. */
  rewatch(): void;
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
    beating.rewatch();
    for (const tab of tabs) tab.stream.beat();
  }
}
