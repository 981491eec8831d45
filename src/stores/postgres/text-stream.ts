// An answer while it is written, on its way to the other processes. It grows by a few characters many times a second, and a
// notification is short: so only what is new is sent, a few times a second, with the place where it belongs. Whoever missed a piece
// shows nothing more of this answer until it begins anew; the answer itself comes as a row.
import type { Clock } from "../../core/clock.ts";
import type { AppEvent } from "../../core/events.ts";

type Text = Extract<AppEvent, { type: "turn.text" | "run.text" }>;

export const isText = (event: AppEvent): event is Text => event.type === "turn.text" || event.type === "run.text";

/** Behind how many characters of the answer this piece belongs. */
type Piece = Text & { readonly at?: number };

const EVERY_MS = 80;
/** A character is at most six bytes in JSON (`\\u0000`), and the server takes less than 8 000. */
const MAX_PIECE = 1_000;
/** Answers remembered; of more than these at a time nobody sees the beginning. */
const MAX_TURNS = 500;

export function createTextOut(clock: Clock, send: (event: AppEvent) => void): (event: Text) => void {
  const sent = new Map<string, string>();
  const due = new Map<string, Text>();
  const flush = (turnId: string): void => {
    const event = due.get(turnId);
    due.delete(turnId);
    if (event === undefined) return;
    const before = sent.get(turnId) ?? "";
    const grows = event.text.startsWith(before);
    remember(sent, turnId, event.text);
    let at = grows ? before.length : 0;
    do {
      const piece: Piece = { ...event, at, text: event.text.slice(at, at + MAX_PIECE) };
      send(piece);
      at += MAX_PIECE;
    } while (at < event.text.length);
  };
  return (event) => {
    const isAsked = due.has(event.turnId);
    due.set(event.turnId, event);
    if (!isAsked) void clock.sleep(EVERY_MS).then(() => flush(event.turnId));
  };
}

/** Null: a piece before it was missed, and it can't be shown. */
export function createTextIn(): (event: AppEvent) => AppEvent | null {
  const known = new Map<string, string>();
  return (event) => {
    if (event.type === "turn.ended") known.delete(event.turnId);
    if (!isText(event)) return event;
    const { at = 0, ...rest } = event as Piece;
    const before = at === 0 ? "" : known.get(event.turnId);
    if (before === undefined || before.length !== at) {
      known.delete(event.turnId);
      return null;
    }
    const text = before + event.text;
    remember(known, event.turnId, text);
    return { ...rest, text };
  };
}

function remember(texts: Map<string, string>, turnId: string, text: string): void {
  texts.delete(turnId);
  texts.set(turnId, text);
  const [oldest] = texts.keys();
  if (texts.size > MAX_TURNS && oldest !== undefined) texts.delete(oldest);
}
