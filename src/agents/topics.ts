// What changes while a conversation goes on: runs at work, what was remembered, a brief. In the system prompt each change
// would void a provider's cache of everything behind it; so it is told where it changed, at the end of the conversation, and
// what was told stays where it is: every request begins with the whole of the one before (SE8). Pure; model-step.ts calls
// this before each step.
import { hash } from "node:crypto";
import { type Entry, HELD_NOTE, isHeldNote, type NewEntry, TOLD_NOTE } from "../stores/transcript-entry.ts";

export interface Topic {
  readonly name: string;
  /** How it stands now; empty: there is nothing to say. What others wrote in it is fenced. */
  readonly text: string;
  /** Said once when there was something and now there is nothing. */
  readonly over?: string;
  /** It can be taken back: its text is in no transcript, which holds only its place, and what was told before is not shown any more. */
  readonly isHeld?: true;
  /** Told in the middle of a turn as well: it may change what the model does next. */
  readonly atSteps?: true;
}

const HEAD = "[The gateway, at this moment. Nobody said this, and it asks for nothing.]";

const aboutOf = ({ name, text, isHeld }: Topic): string =>
  isHeld === true ? `${HELD_NOTE}${name}:${hash("sha256", text).slice(0, 16)}` : `${TOLD_NOTE}${name}`;

const blockOf = (text: string): string => `${HEAD}\n\n${text}`;

/**
 * The notes that bring the conversation up to date. In the middle of a turn only what can be taken back, or says so, is told: of what
 * a model does itself it has the result before it, and of what ends meanwhile it gets word.
 */
export function newsOf(entries: readonly Entry[], topics: readonly Topic[], moment: "turn" | "step"): NewEntry[] {
  return topics.flatMap((topic): NewEntry[] => {
    const about = aboutOf(topic);
    const last = entries.findLast((entry) => entry.type === "note" && entry.about === about);
    if (topic.isHeld === true) return last !== undefined || topic.text === "" ? [] : [{ type: "note", about, text: `(${topic.name})` }];
    const told = last?.type === "note" ? last.text : "";
    const now = topic.text !== "" ? topic.text : told === "" ? "" : (topic.over ?? "");
    return (moment === "step" && topic.atSteps !== true) || now === "" || blockOf(now) === told
      ? []
      : [{ type: "note", about, text: blockOf(now) }];
  });
}

/** A note as a model reads it; null: it is not shown any more. */
export function shownText(note: Extract<Entry, { type: "note" }>, held: readonly Topic[]): string | null {
  if (!isHeldNote(note)) return note.text;
  const topic = held.find((one) => one.isHeld === true && one.text !== "" && aboutOf(one) === note.about);
  return topic === undefined ? null : blockOf(topic.text);
}
