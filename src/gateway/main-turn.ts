// One turn of a main session: the person's words into the transcript, then the turn itself with its events, typing sign and
// time limit, and what its end says to the chat. conversation.ts decides which message it is for and records the reply.
import type { Agent, Agents } from "../agents/agent.ts";
import type { Gate } from "../agents/gate.ts";
import { transcriptOf } from "../agents/open-session.ts";
import type { TurnEnd, Turns } from "../agents/turn.ts";
import type { PayingTurn, Payments } from "../budgets/payments.ts";
import { abortAfter, type Clock, callAfter } from "../core/clock.ts";
import type { Bus } from "../core/events.ts";
import type { Logger } from "../core/logger.ts";
import type { Channel, Inbound } from "../core/message.ts";
import type { Person } from "../core/question.ts";
import type { Wait } from "../core/run.ts";
import type { Tool } from "../core/tool.ts";
import type { Account } from "../core/usage.ts";
import { visibleText } from "../core/visible-text.ts";
import { messageFor } from "../models/model-error.ts";
import { type Database, PASSING } from "../stores/database.ts";
import type { Inbox, InboxRow } from "../stores/inbox.ts";
import type { MailStore } from "../stores/mail.ts";
import type { Questions } from "../stores/questions.ts";
import type { Runs } from "../stores/runs.ts";
import type { Session, Sessions } from "../stores/sessions.ts";
import type { Transcripts } from "../stores/transcripts.ts";
import { closed } from "../subagents/markdown-blocks.ts";
import { noteEntries } from "../subagents/notes.ts";
import type { MainPrompt } from "./main-prompt.ts";

export interface MainTurnDeps {
  readonly db: Database;
  readonly inbox: Pick<Inbox, "isOwn">;
  /** What its tool calls pass; left out: nothing. */
  readonly gate?: Gate;
  /** Other processes work beside this one. */
  readonly isShared?: boolean;
  readonly sessions: Sessions;
  readonly transcripts: Transcripts;
  readonly mail: MailStore;
  readonly runs: Pick<Runs, "get">;
  readonly questions: Questions;
  readonly turns: Turns;
  readonly payments: Pick<Payments, "ofTurn">;
  readonly agents: Agents;
  readonly clock: Clock;
  readonly bus: Bus;
  readonly log: Logger;
  tools(agent: Agent): readonly Tool[];
  readonly prompt: MainPrompt;
  /** How much of an unfinished text's end may be the beginning of a secret. */
  heldBack(text: string): number;
}

/** A waiting message and all that is needed to answer it. */
export interface Job {
  readonly row: InboxRow;
  readonly inbound: Inbound;
  readonly channel: Channel;
  readonly agent: Agent;
  readonly session: Session;
  readonly abort: AbortController;
  /** What the answer says so far, as the chat may see it while it is written. */
  written: string;
}

const STATUS_EVERY_MS = 4_000;

/** A turn as the chat sees it, from its first step to its end: also while it waits and nobody works on it. */
export interface Sitting {
  readonly rowId: number;
  /** Steps used so far. */
  steps: number;
  /** Its calls wait: what passes until it goes on is none of its time (QA2). Nobody is at work while a person is asked. */
  rest(waits: readonly Wait[]): void;
  goOn(): void;
  close(outcome: string): Promise<void>;
  /** It is another process's by now: no typing sign and no time limit of ours, and not a word about it. */
  drop(): void;
}

export function openSitting(deps: MainTurnDeps, job: Job): Sitting {
  const { row, inbound, agent, session, abort } = job;
  const where = { sessionKey: session.key, address: inbound.address, turnId: turnIdOf(row.id) };
  const watch = agent.timeoutMs > 0 ? createWatch(deps.clock, agent.timeoutMs, abort) : null;
  deps.bus.emit({ type: "turn.started", ...where });
  const begin = (): void => {
    watch?.goOn();
    endSign ??= showWorking(deps, job);
  };
  const pause = (isSigned: boolean): void => {
    watch?.rest();
    if (isSigned) return;
    endSign?.();
    endSign = null;
  };
  let endSign: (() => void) | null = null;
  let isClosed = false;
  begin();
  /** False: it was over already. */
  const end = (): boolean => {
    if (isClosed) return false;
    isClosed = true;
    pause(false);
    return true;
  };
  return {
    rowId: row.id,
    steps: 0,
    rest(waits) {
      pause(waits.every((wait) => wait.for !== "answer"));
      deps.bus.emit({ type: "turn.waits", ...where });
    },
    goOn() {
      if (!isClosed) begin();
    },
    drop: () => void end(),
    async close(outcome) {
      if (!end()) return;
      deps.bus.emit({ type: "turn.ended", ...where, outcome });
    },
  };
}

/** The time limit of a turn, by the time that is worked on it. */
function createWatch(clock: Clock, limitMs: number, abort: AbortController): { goOn(): void; rest(): void } {
  let leftMs = limitMs;
  let endWait: (() => void) | null = null;
  let since = 0;
  return {
    goOn() {
      since = clock.now();
      endWait ??= abortAfter(clock, leftMs, abort);
    },
    rest() {
      endWait?.();
      // A clock that was set back says nothing about how much was used.
      if (endWait !== null) leftMs -= Math.min(leftMs, Math.max(0, clock.now() - since));
      endWait = null;
    },
  };
}

export const turnIdOf = (rowId: number): string => `turn:${rowId}`;

/** A main session's turn is open as long as its message waits to be answered. */
export async function isTurnOpen({ inbox }: { readonly inbox: Pick<Inbox, "isWaiting"> }, turnId: string): Promise<boolean> {
  const row = rowOfTurn(turnId);
  return row !== null && (await inbox.isWaiting(row));
}

/** It is one of a main session, and its message is settled: answered, or ended by a stop. */
export async function isTurnOver({ inbox }: { readonly inbox: Pick<Inbox, "isWaiting"> }, turnId: string): Promise<boolean> {
  const row = rowOfTurn(turnId);
  return row !== null && !(await inbox.isWaiting(row));
}

/** The inbox row a turn of a main session is for; null: that is no such turn. */
export const rowOfTurn = (turnId: string): number | null => Number(/^turn:(\d+)$/.exec(turnId)?.[1] ?? Number.NaN) || null;

/** Runs the turn, or takes it up where the transcript ends. Throws only when the disk refuses. */
export async function runTurn(deps: MainTurnDeps, job: Job, sitting: Sitting): Promise<TurnEnd> {
  const { inbound, agent, session, abort } = job;
  const turnId = turnIdOf(job.row.id);
  const { address } = inbound;
  const where = { sessionKey: session.key, address, turnId };
  const tools = (): readonly Tool[] => deps.tools(deps.agents.find(agent.id) ?? agent);
  const end = await deps.turns.run({
    id: turnId,
    ref: transcriptOf(session),
    sessionKey: session.key,
    runId: null,
    address,
    person: personOf(inbound),
    ...(inbound.wake === undefined ? {} : { message: inbound.wake.message }),
    model: session.model ?? agent.model,
    fallbacks: session.model === null ? agent.fallbacks : [],
    thinking: agent.thinking,
    workspace: agent.workspace,
    readOnly: false,
    maxIterations: agent.maxIterations,
    stepsUsed: sitting.steps,
    signal: abort.signal,
    // Most turns have nothing to log, and a logger of one's own costs more than a look at the database.
    get log() {
      return deps.log.child({ sessionKey: session.key, turnId });
    },
    prompt: (given) => deps.prompt(agent, session, given),
    tools,
    mail: () => notesFor(deps, session.id),
    ...(deps.gate === undefined ? {} : { gate: deps.gate }),
    // Where another process may have stopped it: the word of that may be lost, the row is not.
    ...(deps.isShared === true ? { isOver: async () => !(await deps.inbox.isOwn(job.row.id)) } : {}),
    onText(text) {
      job.written = text;
      deps.bus.emit({ type: "turn.text", ...where, text });
    },
    onDoing: (doing) => deps.bus.emit({ type: "turn.doing", sessionKey: session.key, address, runId: null, doing }),
    account: accountOf(deps, session, {
      message: inbound.wake?.message ?? `${session.id}:${turnId}`,
      sessionKey: session.key,
      agentId: agent.id,
      address,
      person: personOf(inbound),
    }),
  });
  sitting.steps = end.steps;
  return end;
}

/** Whose message is being worked on; of a turn that nobody asked for, who had sent the runs out. */
const personOf = ({ sender, wake }: Inbound): Person | null => (wake === undefined ? sender : wake.person);

/** The session's own. */
export function accountOf(
  { db, sessions, payments }: Pick<MainTurnDeps, "db" | "sessions" | "payments">,
  session: Session,
  turn: PayingTurn,
): Account {
  const purse = payments.ofTurn(turn);
  return {
    ...(purse === undefined ? {} : { purse }),
    settle: (spend, model) => db.transaction([], (tx) => sessions.addSpend(tx, session, model, spend, turn.person), PASSING),
  };
}

async function notesFor(deps: MainTurnDeps, sessionId: string): ReturnType<Parameters<Turns["run"]>[0]["mail"]> {
  const notes = await deps.mail.listNotes(sessionId);
  return {
    entries: await noteEntries(deps.runs, notes),
    commit: () =>
      deps.db.transaction([], (tx) =>
        deps.mail.takeNotes(
          tx,
          notes.map((note) => note.id),
        ),
      ),
  };
}

/** The typing sign, again every few seconds until what it returns is called (AG4). Never holds anything up. */
function showWorking(deps: MainTurnDeps, { channel, inbound }: Job): () => void {
  const show = (state: "working" | "idle"): void => {
    channel.status?.(inbound.address, state).catch((error: unknown) => deps.log.debug({ err: error }, "the typing sign failed"));
  };
  let endWait = (): void => {};
  const showAgain = (): void => {
    show("working");
    endWait = callAfter(deps.clock, STATUS_EVERY_MS, showAgain);
  };
  showAgain();
  return () => {
    endWait();
    show("idle");
  };
}

/** The answer as far as it came, and that it was stopped (ST3). Stopped in the middle of a secret, it ends before it. */
export function stoppedText(written: string, note: string, { heldBack }: Pick<MainTurnDeps, "heldBack">): string {
  const all = visibleText(written);
  const text = all.slice(0, all.length - heldBack(all)).trim();
  return text === "" ? `_${note}_` : `${closed(text)}\n\n_${note}_`;
}

/** What the chat reads. Empty for a turn that was stopped: the stop has its own answer. */
export function replyText(end: TurnEnd, { abort, agent, channel }: Pick<Job, "abort" | "agent" | "channel">): string {
  const isOperator = channel.isOperators === true;
  const text = end.outcome === "error" ? errorReply(end, isOperator) : outcomeText(end, abort.signal, agent, isOperator);
  return end.notice === null || text === "" ? text : `${text}\n\n_⚠️ ${end.notice}_`;
}

function errorReply({ error, reason }: TurnEnd, isOperator: boolean): string {
  const room = error?.kind === "context" ? " /compact makes room, /new starts afresh." : "";
  return `⚠️ ${error === null ? reason : messageFor(error, isOperator)}${room}`;
}

function outcomeText(end: TurnEnd, signal: AbortSignal, agent: Agent, isOperator: boolean): string {
  switch (end.outcome) {
    case "done":
      return end.text.trim() === "" ? "(The agent ended its turn without saying anything.)" : end.text;
    case "capped":
      return `${end.text}\n\n_Stopped early: ${end.reason}. Say "go on" to let it continue._`.trim();
    default: {
      const limit = isOperator ? " (agents.defaults.timeoutSeconds)" : "";
      return signal.reason === "timeout"
        ? `⚠️ The turn was ended after ${agent.timeoutMs / 1000} s${limit}. What it did so far is kept; say "go on" to let it continue.`
        : "";
    }
  }
}
