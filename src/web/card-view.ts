// The announcement of one run as the page shows it: a card with its state and name, the result, the notes. Its text says the same in
// words, for places that show no cards; what stands on the card is taken out of the text, and only where it really stands there.
import type { WebMessage } from "../stores/web-messages.ts";

export interface CardView {
  readonly label: string;
  readonly asked: string | null;
  readonly status: string;
}

export interface CardParts {
  /** What is left of the text. */
  readonly words: string;
  /** Null: it is no card, or not its beginning. */
  readonly card: CardView | null;
  /** Markdown; null: there are none here. */
  readonly notes: string | null;
}

const STATUSES = ["success", "error", "timeout", "unknown"];
/** The form of AN2 (subagents/announcement.ts). */
const HEAD = /^\*\*Sub-agent: [^\n]*\n\nStatus: [a-z]+\n\nResult:\n/;
const NOTES = "Notes:\n";
const NO_RESULT = "(not available)";
const NO_NOTES = "- (none)";

/** `text` is without the stats line. */
export function splitCard({ extra }: Pick<WebMessage, "extra">, text: string): CardParts {
  const { label, asked, status, notes } = (extra?.card ?? {}) as Partial<Record<string, unknown>>;
  const head = HEAD.exec(text)?.[0];
  const isHead = typeof label === "string" && STATUSES.includes(String(status)) && head !== undefined;
  const body = isHead ? text.slice(head.length) : text;
  const card = isHead ? { label, asked: typeof asked === "string" ? asked : null, status: String(status) } : null;
  const end = `${NOTES}${String(notes)}`;
  if (typeof notes !== "string" || !body.endsWith(end)) return { words: body, card, notes: null };
  const words = body.slice(0, -end.length).trimEnd();
  // Of one that failed the notes say why there is none.
  const isMissing = words === NO_RESULT && isHead && status !== "success" && notes !== NO_NOTES;
  return { words: isMissing ? "" : words, card, notes: notes === NO_NOTES ? null : notes };
}

/** The run an announcement is about, of several the first, as its name in the outbox says it (subagents/posting.ts). */
export const announcedRun = (key: string): string | null =>
  /^announce:v1:.*:([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})(?::|#)/.exec(key)?.[1] ?? null;
