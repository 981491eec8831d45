// Finding words in all chats of the page: in their names, and in what was said, newest first, each hit with what stands around it.
import { foldCase } from "../stores/letter-case.ts";
import type { WebChats, WebHit } from "../stores/web-chats.ts";
import type { WebMessages } from "../stores/web-messages.ts";

export interface SearchSource {
  readonly messages: Pick<WebMessages, "chats">;
  readonly webChats: Pick<WebChats, "search">;
}

export interface Found {
  readonly chats: readonly { readonly id: string; readonly title: string }[];
  readonly hits: readonly {
    readonly chat: string;
    readonly title: string | null;
    readonly seq: number;
    readonly author: "user" | "agent";
    readonly at: number;
    /** What stands around it; `hit` is as it was written. */
    readonly before: string;
    readonly hit: string;
    readonly after: string;
  }[];
  /** False: there may be more. */
  readonly isWhole: boolean;
}

const MAX_HITS = 50;
const MAX_CHATS = 10;
const CHATS_LOOKED_AT = 1_000;
const AROUND = 70;

export async function searchChats({ messages, webChats }: SearchSource, words: string): Promise<Found> {
  const known = await messages.chats(CHATS_LOOKED_AT);
  const titles = new Map(known.map(({ id, title }) => [id, title]));
  const wanted = foldCase(words);
  const named = known.flatMap(({ id, title }) => (title !== null && foldCase(title).includes(wanted) ? [{ id, title }] : []));
  const { hits, isWhole } = await webChats.search(words, MAX_HITS);
  return {
    chats: named.slice(0, MAX_CHATS),
    hits: hits.map((hit) => ({ ...aboutHit(hit), title: titles.get(hit.chat) ?? null, ...around(hit.text, words) })),
    isWhole: isWhole && named.length <= MAX_CHATS,
  };
}

const aboutHit = ({ chat, seq, author, at }: WebHit) => ({ chat, seq, author, at });

/** One line of it. */
function around(text: string, words: string): { before: string; hit: string; after: string } {
  const { from, to } = placeOf(text, words);
  const line = (part: string): string => part.toWellFormed().replace(/\s+/g, " ");
  const head = text.slice(Math.max(0, from - AROUND), from);
  const tail = text.slice(to, to + AROUND);
  return {
    before: line(from > AROUND ? `…${head}` : head),
    hit: line(text.slice(from, to)),
    after: line(to + AROUND < text.length ? `${tail}…` : tail),
  };
}

/** Where the words stand in it as it was written. */
function placeOf(text: string, words: string): { from: number; to: number } {
  const wanted = foldCase(words);
  const folded = foldCase(text);
  const at = Math.max(0, folded.indexOf(wanted));
  if (folded.length === text.length) return { from: at, to: at + wanted.length };
  // A letter that became two moves what stands behind it: counted one by one.
  let [from, to] = [0, 0];
  for (let length = 0; length < at + wanted.length && to < text.length; ) {
    const letter = String.fromCodePoint(text.codePointAt(to) ?? 0);
    if (length <= at) from = to;
    length += foldCase(letter).length;
    to += letter.length;
  }
  return { from, to };
}
