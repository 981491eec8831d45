// Conversations of other channels as the page shows and steers them (WB4). Its own chats it knows by their messages.
import type { TranscriptPage } from "../stores/transcript-page.ts";
import type { Steered } from "./runs-api.ts";

export interface SessionLine {
  readonly id: string;
  readonly key: string;
  readonly channel: string;
  /** `telegram 5551` */
  readonly origin: string;
  /** Of the person, where it is one's direct chat and they have one. */
  readonly name: string | null;
  readonly lastAt: number;
  /** What was said last, the beginning of it. */
  readonly lastWords: string | null;
  /** Unfinished runs below it. */
  readonly atWork: number;
}

export interface SessionDesk {
  /** `after`: the id of the last one of the page before. `next`: the same for the next page; null: there is none. */
  list(after: string | null, limit: number): Promise<{ readonly sessions: readonly SessionLine[]; readonly next: string | null }>;
  find(id: string): Promise<SessionLine | null>;
  transcript(id: string, range: { before: number | null; limit: number }): Promise<TranscriptPage | null>;
  /** As /stop there. */
  stop(id: string): Promise<Steered | null>;
  /** The agent answers it there. `key`: the same words once. */
  send(id: string, said: { readonly key: string; readonly text: string }): Promise<Steered | null>;
}
