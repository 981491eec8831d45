// Notes of finished runs, for their requester's model: what they say, and their way into its transcript. What is known of the announcement is added at this
// moment and not when the run ended: then it was only about to be sent (NV3). From here on the text stays as it is, so that
// a provider's cache goes on serving it.
import { disarm, fence, newFenceToken } from "../core/fence.ts";
import { shortId } from "../core/ids.ts";
import { announceAddress, type EndState, type Run, type RunSections, SECTION_NAMES, STATUS_WORD } from "../core/run.ts";
import type { Mail } from "../stores/mail.ts";
import type { Runs } from "../stores/runs.ts";
import type { NewEntry } from "../stores/transcript-entry.ts";
import type { RunResult } from "./announcement.ts";
import { isElsewhere, placeWords } from "./announcing.ts";
import { missingSections, sectionsText } from "./outcome.ts";

/** What a requester's model reads of the notes. */
const MAX_NOTES = 8_000;
const MAX_NOTE_RESULT = 8_000;

export interface NoteOptions {
  readonly run: Run;
  readonly as: EndState;
  readonly answer: RunResult;
  readonly sentence: string;
  readonly sections?: RunSections | null;
  /** How much of each text, and what is said of the rest; left out: as much as a note of its own has. */
  readonly cut?: { readonly max: number; readonly more: string };
  /** Its typed result: what a model reads is the data itself (TR1). */
  readonly data?: string | null;
}

/** For the requester's model: quoted data behind a fence no text can forge, never instructions (AN5). noteEntries adds what the person has seen. */
export function noteText(options: NoteOptions): string {
  const { max, more } = options.cut ?? { max: MAX_NOTE_RESULT, more: 'call subagents with action "result"' };
  const result = cutForNote(options.data ?? options.answer.result, max, more) || "(not available)";
  const notes = cutForNote(options.answer.notes, Math.min(max, MAX_NOTES), more);
  const words = [result, ...(notes === "" ? [] : ["", "Notes:", notes]), ...noteSections(options)];
  return [
    `[Sub-agent ${options.run.childKey} — runtime status: ${STATUS_WORD[options.as]}]`,
    disarm(options.sentence),
    fence({ source: "the sub-agent", text: words.join("\n") }, newFenceToken()),
  ].join("\n");
}

function cutForNote(text: string, max: number, more: string): string {
  const whole = text.trim();
  if (whole.length <= max) return whole;
  return `${whole.slice(0, max)}\n… [${whole.length - max} more characters: ${more}]`;
}

/** Not when the result is the child's own last text: then they stand in it. */
function noteSections({ sections, answer }: NoteOptions): string[] {
  if (sections == null) return [];
  const isRepeated = SECTION_NAMES.every((name) => sections[name] === null || answer.result.includes(sections[name]));
  const missing = missingSections(sections);
  if (isRepeated) return missing === "" ? [] : ["", `(sections left out: ${missing})`];
  return ["", "Sections of its last message:", sectionsText(sections)];
}

/** `about` of a run's note: a later generation of the run has another one. */
export const noteAbout = (run: Pick<Run, "id" | "generation">): string => `${run.id}:${run.generation}`;

export async function noteEntries(runs: Pick<Runs, "get">, notes: readonly Mail[]): Promise<NewEntry[]> {
  const entries: NewEntry[] = [];
  for (const note of notes) entries.push({ type: "note", id: note.entryId, text: await withDelivery(runs, note), about: note.from });
  return entries;
}

/** Before the child's own words: nothing of ours stands behind a text that could pretend to go on. */
async function withDelivery(runs: Pick<Runs, "get">, { text, from }: Mail): Promise<string> {
  const run = await runs.get(from.slice(0, from.lastIndexOf(":")));
  const sentence = run === null ? "" : deliverySentence(run, noteAbout(run) === from);
  return sentence === "" ? text : text.replace(/^(?=<untrusted )/m, () => `${disarm(sentence)}\n`);
}

/** What became of an announcement, for a model that read the result before it was known. */
export function deliveryNote(run: Run, state: "delivered" | "blocked", reason = "no reason is known"): string {
  const became =
    state === "delivered"
      ? isElsewhere(run)
        ? `has been posted since, ${seenElsewhere(run)}`
        : "has reached the chat since: the person has seen it. Don't repeat it unless asked."
      : `could not be delivered (${disarm(reason)}). The person has not seen it.`;
  return `[The gateway notes: the announcement of the sub-agent's run ${shortId(run.id)} ${became}]`;
}

const ON_ITS_WAY = "Its announcement is still on its way to the chat: the person has probably not seen it yet.";

/** Posted elsewhere than in the asking chat: who has seen it then. */
function seenElsewhere(run: Run): string {
  const address = announceAddress(run);
  return address.kind === "dm" && address.chat === run.person?.id
    ? "not in this chat but to the person who asked, in their direct chat: they have seen it. Don't repeat it unless asked."
    : `not in this chat but ${placeWords(address)}: whether the person who asked reads there is not known.`;
}

/** Has the person seen it? `isLatest`: the run was not sent on since. */
function deliverySentence(run: Run, isLatest: boolean): string {
  if (!isLatest) return "It was sent on since; whether the person saw this first result is not known.";
  switch (run.delivery) {
    case "delivered":
      if (isElsewhere(run)) return `Its announcement was posted, ${seenElsewhere(run)}`;
      return "The person has already seen this as an announcement in the chat; don't repeat it unless asked.";
    case "pending":
      if (run.deliveryReason !== null) return `Its announcement is ${run.deliveryReason}: the person has not seen it yet.`;
      return ON_ITS_WAY;
    case "sending":
      return ON_ITS_WAY;
    case "blocked":
      return `Its announcement could not be delivered (${run.deliveryReason ?? "no reason is known"}). The person has not seen this.`;
    case "skipped":
      return "It was not announced. The person has not seen this.";
    case "none":
      return "";
  }
}
