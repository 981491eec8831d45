// Which of the page's chats is being worked on, what it does and what it has written so far. Fed by the bus, kept in
// memory only: a turn that a restart resumes reports itself again.
// bus (turn.*) → see → onWorking / onDraft → live.ts → tabs
import type { Clock } from "../core/clock.ts";
import type { AppEvent } from "../core/events.ts";
import { createThrottle } from "../core/throttle.ts";
import { visibleText } from "../core/visible-text.ts";
import { createDraft } from "./markdown.ts";
import type { Renderer } from "./rendering.ts";

interface WorkingView {
  readonly working: boolean;
  readonly startedAt: number | null;
  readonly doing: string | null;
}

interface DraftView {
  readonly turnId: string;
  readonly html: string;
}

export interface Turns {
  see(event: AppEvent): void;
  working(chat: string): WorkingView;
  /** Somebody looks from now on: what was written before is rendered soon. */
  watch(chat: string): void;
  /** Null while nothing is written. */
  draft(chat: string): DraftView | null;
}

export interface TurnsOptions {
  clock: Clock;
  /** Replaces known secrets by their names: a draft never passed the channel's gates. */
  redact(text: string): string;
  /** How much of a growing text's end may be the beginning of a secret: it would be read before it has a name. */
  heldBack(text: string): number;
  /** A long draft beside the event loop. */
  render: Renderer["render"];
  /** Somebody looks at this chat: for nobody nothing is rendered, and nothing told. */
  isWatched(chat: string): boolean;
  onWorking(chat: string): void;
  onDraft(chat: string): void;
  onError(error: unknown): void;
  signal: AbortSignal;
}

interface Turn {
  readonly turnId: string;
  readonly startedAt: number;
  doing: string | null;
  text: string;
  html: string;
  /** A new text is there: render and show it soon. */
  ring(): void;
}

const DRAFT_EVERY_MS = 100;
/** Rendering takes at most a tenth of the time, however long the text; … */
const RENDER_SHARE = 10;
/** … but nobody waits longer than this for the next words. */
const DRAFT_AT_LEAST_EVERY_MS = 1_000;

export function createTurns(options: TurnsOptions): Turns {
  const turns = new Map<string, Turn>();
  const tell = (chat: string): void => {
    if (options.isWatched(chat)) options.onWorking(chat);
  };
  return {
    see(event) {
      switch (event.type) {
        case "turn.started":
          if (event.address.channel !== "web") return;
          start(turns, options, event.address.chat, event.turnId);
          return tell(event.address.chat);
        case "turn.text": {
          const turn = turns.get(event.address.chat);
          if (event.address.channel !== "web" || turn?.turnId !== event.turnId) return;
          turn.text = event.text;
          if (options.isWatched(event.address.chat)) turn.ring();
          return;
        }
        case "turn.doing": {
          if (event.address?.channel !== "web" || event.runId !== null) return;
          const turn = turns.get(event.address.chat);
          if (turn === undefined) return;
          turn.doing = event.doing;
          return tell(event.address.chat);
        }
        case "turn.ended":
          if (event.address.channel !== "web" || turns.get(event.address.chat)?.turnId !== event.turnId) return;
          turns.delete(event.address.chat);
          return tell(event.address.chat);
      }
    },
    working(chat) {
      const turn = turns.get(chat);
      if (turn === undefined) return { working: false, startedAt: null, doing: null };
      return { working: true, startedAt: turn.startedAt, doing: turn.doing === null ? null : shown(options, turn.doing) };
    },
    watch(chat) {
      const turn = turns.get(chat);
      if (turn !== undefined && turn.text !== "") turn.ring();
    },
    draft(chat) {
      const turn = turns.get(chat);
      return turn === undefined || turn.html === "" ? null : { turnId: turn.turnId, html: turn.html };
    },
  };
}

/** What of a text that still grows can be read. */
const shown = ({ redact, heldBack }: TurnsOptions, text: string): string => redact(text.slice(0, text.length - heldBack(text)));

function start(turns: Map<string, Turn>, options: TurnsOptions, chat: string, turnId: string): void {
  const { clock, signal, onError } = options;
  const render = createDraft(options.render);
  // Ended in the meantime: the message itself is on its way.
  const isOver = (): boolean => turns.get(chat) !== turn;
  const work = async (): Promise<number | undefined> => {
    if (isOver()) return undefined;
    const startedAt = performance.now();
    turn.html = await render(shown(options, visibleText(turn.text)));
    if (isOver()) return undefined;
    options.onDraft(chat);
    return Math.min((performance.now() - startedAt) * RENDER_SHARE, DRAFT_AT_LEAST_EVERY_MS);
  };
  const { ring } = createThrottle({ clock, signal, onError, everyMs: DRAFT_EVERY_MS, work });
  const turn: Turn = { turnId, startedAt: clock.now(), doing: null, text: "", html: "", ring };
  turns.set(chat, turn);
}
