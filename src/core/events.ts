// What happened, for whoever watches: the page, metrics, tests, and the doorbells between parts (a new outbox
// row wakes delivery). Events carry ids, not state: the stores are the truth, an event only says "look".
import type { Address } from "./address.ts";
import type { EndState, RunState } from "./run.ts";
import type { Usage } from "./usage.ts";

export type AppEvent =
  | { type: "inbox.added"; channel: string }
  /** A turn waits for it that no message asked for. */
  | { type: "session.woken"; sessionKey: string }
  /** `message`: just this one was added, for this address; else something there is to be sent again. */
  | { type: "outbox.added"; addressKey: string; message?: { delivery: string; address: Address } }
  | { type: "outbox.settled"; delivery: string; channel: string; outcome: "sent" | "blocked" }
  | { type: "turn.started"; sessionKey: string; address: Address; turnId: string }
  | { type: "turn.text"; sessionKey: string; address: Address; turnId: string; text: string }
  | { type: "turn.doing"; sessionKey: string; address: Address | null; runId: string | null; doing: string }
  /** Its calls wait for people or runs, perhaps for days. */
  | { type: "turn.waits"; sessionKey: string; address: Address; turnId: string }
  /** Its messages are settled: whoever works on them stops. `answer`: only what was being written was ended. */
  | { type: "turn.halted"; sessionKey: string; what: "all" | "answer" }
  | { type: "turn.ended"; sessionKey: string; address: Address; turnId: string; outcome: string }
  /** It waits for its place in the lane: it is new, or goes on after its end. */
  | { type: "run.queued"; runId: string; requesterKey: string /** In a lane of rows it has its place already. */; isPlaced: boolean }
  /** `batch`: of a new one, whose status message it is part of (null: none's). */
  | { type: "run.changed"; runId: string; state: RunState; batch?: string | null }
  | { type: "run.ended"; runId: string; state: EndState }
  | { type: "run.settled"; runId: string; cleanup: "keep" | "delete" }
  | { type: "run.mail"; runId: string }
  /** Somebody looks at this run: what it writes is told for a while. */
  | { type: "run.watched"; runId: string }
  /** What a run that somebody looks at writes, all of it so far; empty: it stands in the transcript by now, or was given up. */
  | { type: "run.text"; runId: string; turnId: string /** One of each kind. */; what: "text" | "thoughts"; text: string }
  /** A question was asked, answered, or came to nothing. */
  | { type: "question.changed"; questionId: string; runId: string | null; rootKey: string }
  /** What this message shows may not be up to date any more. */
  | { type: "live.changed"; id: string }
  /** A call was paid for: whoever waits for what it held looks again. */
  | { type: "budget.settled" }
  /** Somebody told this child more, or took it back. */
  | { type: "brief.changed"; child: { readonly agentId: string; readonly sessionId: string; readonly requesterKey: string } }
  | { type: "model.called"; model: string; usage: Usage | null; costUsd: number | null; ms: number; outcome: string }
  | { type: "lane.started"; lane: string; waitedMs: number }
  /** Something waits in a lane of several processes, or there is room again. */
  | { type: "lane.rung"; lane: string }
  | { type: "web.posted"; chat: string; seq: number }
  /** A message of the page's chat says something else now. */
  | { type: "web.edited"; chat: string; seq: number }
  /** A chat of the page is called something else, or was deleted. */
  | { type: "chat.changed"; chat: string; isGone: boolean }
  /** A doorbell of another process may have been lost: whoever waits for one looks. Never sent to other processes. */
  | { type: "bells.missed" }
  /** Whoever does what only one may do has gone, in an orderly way. */
  | { type: "duty.free" }
  /** The state folder is gone, or back: whether anything is taken in. */
  | { type: "folder.changed" }
  /** Others are in force in this process. */
  | { type: "settings.changed" }
  /** Somebody waits to be let in, or was. */
  | { type: "pairing.changed" };

/** What other processes of the installation are told, too; the rest is this one's own business. */
const CROSSING: ReadonlySet<AppEvent["type"]> = new Set([
  ...(["inbox.added", "outbox.added", "web.posted", "web.edited", "chat.changed", "pairing.changed", "lane.rung", "duty.free"] as const),
  ...(["turn.started", "turn.text", "turn.doing", "turn.waits", "turn.halted", "turn.ended"] as const),
  ...(["run.queued", "run.changed", "run.ended", "run.settled", "run.mail", "run.watched", "run.text"] as const),
  ...(["question.changed", "live.changed", "budget.settled"] as const),
]);

export const crosses = ({ type }: AppEvent): boolean => CROSSING.has(type);

type Listener = (event: AppEvent) => unknown;

export interface Bus {
  emit(event: AppEvent): void;
  /** Emitted by another process. */
  receive(event: AppEvent): void;
  /**
   * Returns the function that ends the subscription. Nobody waits for what a listener does after its first await. `here`: only of what
   * this process emits, for what must be done once in the whole installation; `elsewhere`: only of what others do.
   */
  on(listener: Listener, from?: "here" | "elsewhere"): () => void;
}

/** `onError` hears of a listener that threw or rejected; the others still get the event. */
export function createBus(onError: (error: unknown) => void): Bus {
  const listeners = new Map<Listener, "here" | "elsewhere" | "anywhere">();
  /** Who is told of what: listed anew only when somebody has come or gone, which is seldom; a turn has dozens of events. */
  let audience: Readonly<Record<"here" | "elsewhere", readonly Listener[]>> | null = null;
  const listed = (from: "here" | "elsewhere"): Listener[] =>
    [...listeners].flatMap(([listener, wanted]) => (wanted === from || wanted === "anywhere" ? [listener] : []));
  const tell = (event: AppEvent, from: "here" | "elsewhere"): void => {
    audience ??= { here: listed("here"), elsewhere: listed("elsewhere") };
    for (const listener of audience[from]) {
      try {
        const done = listener(event);
        if (done instanceof Promise) done.catch(onError);
      } catch (error) {
        onError(error);
      }
    }
  };
  return {
    emit: (event) => tell(event, "here"),
    receive: (event) => tell(event, "elsewhere"),
    on(listener, from) {
      listeners.set(listener, from ?? "anywhere");
      audience = null;
      return () => {
        listeners.delete(listener);
        audience = null;
      };
    },
  };
}
