// Notes of finished runs on their way into their reader's transcript. What is known of the announcement is added at this
// moment and not when the run ended: then it was only about to be sent (NV3). From here on the text stays as it is, so that
// a provider's cache goes on serving it.
import type { Run } from "../core/run.ts";
import type { Mail } from "../stores/mail.ts";
import type { Runs } from "../stores/runs.ts";
import type { NewEntry } from "../stores/transcripts.ts";

/** `about` of a run's note: a later generation of the run has another one. */
export const noteAbout = (run: Pick<Run, "id" | "generation">): string => `${run.id}:${run.generation}`;

export const noteEntries = (runs: Pick<Runs, "get">, notes: readonly Mail[]): NewEntry[] =>
  notes.map((note) => ({ type: "note", id: note.entryId, text: withDelivery(runs, note), about: note.from }));

/** Before the child's own words: nothing of ours stands behind a text that could pretend to go on. */
function withDelivery(runs: Pick<Runs, "get">, { text, from }: Mail): string {
  const run = runs.get(from.slice(0, from.lastIndexOf(":")));
  const sentence = run === null ? "" : deliverySentence(run, noteAbout(run) === from);
  return sentence === "" ? text : text.replace(/^(?=<untrusted )/m, `${sentence}\n`);
}

/** Has the person seen it? `isLatest`: the run was not sent on since. */
function deliverySentence(run: Run, isLatest: boolean): string {
  if (!isLatest) return "It was sent on since; whether the person saw this first result is not known.";
  switch (run.delivery) {
    case "delivered":
      return "The person has already seen this as an announcement in the chat; don't repeat it unless asked.";
    case "pending":
    case "sending":
      return "Its announcement is still on its way to the chat: the person has probably not seen it yet.";
    case "blocked":
      return `Its announcement could not be delivered (${run.deliveryReason ?? "no reason is known"}). The person has not seen this.`;
    case "skipped":
      return "It was not announced. The person has not seen this.";
    case "none":
      return "";
  }
}
