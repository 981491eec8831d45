// A stored message as the page shows it. The person's words stay text; the agent's Markdown becomes safe HTML,
// rendered once per message and kept for the next tab that asks.
import { type Attachment, isPicture } from "../core/attachment.ts";
import { type Stats, statsLine } from "../core/message.ts";
import type { WebMessage } from "../stores/web-messages.ts";
import { announcedRun, type CardView, splitCard } from "./card-view.ts";
import { createHtmlCache, mapInPieces, type Renderer } from "./rendering.ts";

interface MessageView {
  readonly seq: number;
  /** `in:<id>` for what a tab posted under that id; the outbox key for the agent's. */
  readonly id: string;
  readonly author: "user" | "agent";
  readonly at: number;
  /** Of its last change; null: it stands as it was posted. */
  readonly editedAt: number | null;
  readonly kind: "plain" | "announcement";
  /** The id under which a tab posted what this is the answer to. */
  readonly answers?: string;
  /** The words as they were written: to be copied, or put anew. */
  readonly text: string;
  /** Other words stand in its place, or in that of what it answers (WB3): the key of the message that begins them. */
  readonly replacedBy?: string;
  /** The agent's, safe to insert. */
  readonly html?: string;
  /** Of the announcement of one run: what stands on its card and not in the HTML (WB3). */
  readonly card?: CardView;
  /** Safe to insert, too. */
  readonly notesHtml?: string;
  /** The run it announces. */
  readonly runId?: string;
  /** The stats line of an announcement, which then is no part of the words: figures first, names folded (AN9). */
  readonly stats?: Stats;
  readonly buttons: readonly { readonly label: string; readonly command: string; readonly danger: boolean }[];
  readonly files?: readonly FileView[];
}

/** `isImage`: it can be shown in its place. */
type FileView = Pick<Attachment, "id" | "name" | "size" | "width" | "height"> & { readonly isImage: boolean };

export interface MessageViews {
  /** For who is no browser: every word as text, the figures of an announcement in it. */
  toTexts(messages: readonly WebMessage[]): MessageView[];
  /** In the same order. Lets other work through between costly messages. */
  toViews(messages: readonly WebMessage[]): Promise<MessageView[]>;
}

/** `redact` replaces known secrets by their names (SC4). */
export function createMessageViews(redact: (text: string) => string, { render }: Pick<Renderer, "render">): MessageViews {
  // A change gives it another time, so nobody is shown old words under a known number.
  const rendered = createHtmlCache<string>();
  const toText = (message: WebMessage): MessageView => ({ ...baseOf(message), text: redact(message.text) });
  const toView = async (message: WebMessage): Promise<MessageView> => {
    const { seq, key: id, editedAt } = message;
    if (message.author === "user") return toText(message);
    const base = baseOf(message);
    const { words, stats } = splitStats(message);
    const parts = splitCard(message, words);
    const html = (name: string, markdown: string) => rendered(`${seq}/${editedAt ?? 0}/${name}`, () => render(redact(markdown)));
    const runId = announcedRun(id);
    return {
      ...{ ...base, text: redact(words), html: await html("words", parts.words) },
      ...(stats === null ? {} : { stats }),
      ...(parts.card === null ? {} : { card: parts.card }),
      ...(parts.notes === null ? {} : { notesHtml: await html("notes", parts.notes) }),
      ...(runId === null ? {} : { runId }),
    };
  };
  return { toTexts: (messages) => messages.map(toText), toViews: (messages) => mapInPieces(messages, toView) };
}

const baseOf = ({ seq, key: id, author, at, editedAt, extra, replacedBy }: WebMessage): Omit<MessageView, "text"> => ({
  ...{ seq, id, author, at, editedAt },
  kind: extra?.kind === "announcement" ? "announcement" : "plain",
  buttons: buttonsOf(extra),
  ...(typeof extra?.answers === "string" ? { answers: extra.answers } : {}),
  ...(replacedBy === null ? {} : { replacedBy }),
  ...filesOf(extra),
});

/** Only what stands there as a line is shown as figures; else the text stays as it is. */
function splitStats({ text, extra }: WebMessage): { words: string; stats: Stats | null } {
  const { figures, names } = (extra?.stats ?? {}) as Partial<Stats>;
  if (!Array.isArray(figures) || !Array.isArray(names)) return { words: text, stats: null };
  const stats: Stats = { figures: figures.map(String), names: names.map(String) };
  const line = statsLine(stats);
  return text.endsWith(line) ? { words: text.slice(0, -line.length).trimEnd(), stats } : { words: text, stats: null };
}

function filesOf(extra: WebMessage["extra"]): Pick<MessageView, "files"> {
  if (!Array.isArray(extra?.files) || extra.files.length === 0) return {};
  const toView = (file: Attachment): FileView => {
    const { id, name, size, width, height } = file;
    return { id, name, size, ...(width === undefined || height === undefined ? {} : { width, height }), isImage: isInline(file) };
  };
  return { files: (extra.files as Attachment[]).map(toView) };
}

/** More pixels than that are left to whoever opens the file on purpose: a browser would unpack them all. */
const MAX_INLINE_PIXELS = 40_000_000;
const isInline = (file: Attachment): boolean =>
  isPicture(file) && file.width !== undefined && file.height !== undefined && file.width * file.height <= MAX_INLINE_PIXELS;

function buttonsOf(extra: WebMessage["extra"]): MessageView["buttons"] {
  if (!Array.isArray(extra?.buttons)) return [];
  return (extra.buttons as Record<string, unknown>[]).map((button) => ({
    label: String(button.label),
    command: String(button.command),
    danger: button.danger === true,
  }));
}
