// A stored message as the page shows it. The person's words stay text; the agent's Markdown becomes safe HTML,
// rendered once per message and kept for the next tab that asks.
import { type Stats, statsLine } from "../core/message.ts";
import type { WebMessage } from "../stores/web-messages.ts";
import { createHtmlCache, mapInPieces, type Renderer } from "./rendering.ts";

interface MessageView {
  readonly seq: number;
  /** `in:<id>` for what a tab posted under that id; the outbox key for the agent's. */
  readonly id: string;
  readonly author: "user" | "agent";
  readonly at: number;
  readonly kind: "plain" | "announcement";
  /** The person's words. */
  readonly text?: string;
  /** The agent's, safe to insert. */
  readonly html?: string;
  /** The stats line of an announcement, which then is no part of the words: figures first, names folded (AN9). */
  readonly stats?: Stats;
  readonly buttons: readonly { readonly label: string; readonly command: string; readonly danger: boolean }[];
}

export interface MessageViews {
  /** In the same order. Lets other work through between costly messages. */
  toViews(messages: readonly WebMessage[]): Promise<MessageView[]>;
}

/** `redact` replaces known secrets by their names (SC4). */
export function createMessageViews(redact: (text: string) => string, { render }: Pick<Renderer, "render">): MessageViews {
  // Messages never change, so their number is the whole key.
  const rendered = createHtmlCache<number>();
  const toView = async (message: WebMessage): Promise<MessageView> => {
    const { seq, key: id, author, at, extra } = message;
    const base = {
      seq,
      id,
      author,
      at,
      kind: extra?.kind === "announcement" ? "announcement" : "plain",
      buttons: buttonsOf(extra),
    } as const;
    if (author === "user") return { ...base, text: redact(message.text) };
    const { words, stats } = splitStats(message);
    return { ...base, html: await rendered(seq, () => render(redact(words))), ...(stats === null ? {} : { stats }) };
  };
  return { toViews: (messages) => mapInPieces(messages, toView) };
}

/** Only what stands there as a line is shown as figures; else the text stays as it is. */
function splitStats({ text, extra }: WebMessage): { words: string; stats: Stats | null } {
  const { figures, names } = (extra?.stats ?? {}) as Partial<Stats>;
  if (!Array.isArray(figures) || !Array.isArray(names)) return { words: text, stats: null };
  const stats: Stats = { figures: figures.map(String), names: names.map(String) };
  const line = statsLine(stats);
  return text.endsWith(line) ? { words: text.slice(0, -line.length).trimEnd(), stats } : { words: text, stats: null };
}

function buttonsOf(extra: WebMessage["extra"]): MessageView["buttons"] {
  if (!Array.isArray(extra?.buttons)) return [];
  return (extra.buttons as Record<string, unknown>[]).map((button) => ({
    label: String(button.label),
    command: String(button.command),
    danger: button.danger === true,
  }));
}
