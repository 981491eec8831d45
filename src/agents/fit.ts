// What fits (SE7): when the history is longer than the model can read and summing it up failed or did not help, the turn goes
// on with its newest part. Pure: entries in, the entries to show out; the transcript keeps everything. What is left out is
// said in its place, so that neither the model nor the person takes a part for the whole.
import { cutText } from "../core/visible-text.ts";
import { type Entry, isTopicNote, picturesOf } from "../stores/transcript-entry.ts";

export interface Fitted {
  readonly entries: readonly Entry[];
  /** Whole messages that are not shown. */
  readonly leftOut: number;
  /** Characters cut out of those that are. */
  readonly cutChars: number;
}

/** Keys, quotes and roles around a message on the wire. */
const OVERHEAD = 50;
/** A cut text still says what it was. */
const LEAST = 200;

/** About what a picture takes, in characters. */
const PICTURE = 5_000;

/** About what these entries take in a request. */
export const charsOf = (entries: readonly Entry[]): number => entries.reduce((sum, entry) => sum + OVERHEAD + charsIn(entry), 0);

function charsIn(entry: Entry): number {
  switch (entry.type) {
    case "tool_call":
      return entry.name.length + (JSON.stringify(entry.args)?.length ?? 0);
    case "compaction":
      return entry.summary.length;
    case "message":
      if (entry.role === "user") return entry.text.length + picturesOf(entry).length * PICTURE;
      return entry.text.length + (entry.extras !== undefined ? JSON.stringify(entry.extras).length : 0);
    case "rewound":
      return 0;
    default:
      return entry.text.length;
  }
}

/** A message or note with the calls and results behind it: they stay or go together, or a provider refuses them. */
interface Group {
  readonly entries: readonly Entry[];
  readonly chars: number;
}

/** `unread`: messages before these entries, which count as left out with the first of them. */
export function fitEntries(entries: readonly Entry[], maxChars: number, unread = 0): Fitted {
  const conversation = entries.filter((entry) => entry.phase !== "announce");
  if (charsOf(conversation) <= maxChars) return { entries, leftOut: 0, cutChars: 0 };
  const summaries = conversation.filter((entry) => entry.type === "compaction");
  const groups = groupsOf(conversation.filter((entry) => entry.type !== "compaction"));
  const asked = groups.findLastIndex(({ entries: [first] }) => first?.type === "message" && first.role === "user");
  // Half of the room at most, so that a pasted book leaves some for what was done about it.
  const question = groups[asked] === undefined ? null : cutGroup(groups[asked], Math.max(LEAST, Math.floor(maxChars / 2)));
  const shown = new Map<number, Group>([...latestTopics(groups), ...(question === null ? [] : [[asked, question] as const])]);
  let room = maxChars - charsOf(summaries) - [...shown.values()].reduce((sum, group) => sum + group.chars, 0);
  for (let at = groups.length - 1; at >= 0; at--) {
    const group = groups[at] as Group;
    if (shown.has(at)) continue;
    // What was done last is worth showing in part; anything older only as a whole.
    const part = at === groups.length - 1 ? cutGroup(group, Math.max(LEAST, room)) : group;
    if (part.chars > room && at < groups.length - 1) break;
    room -= part.chars;
    shown.set(at, part);
  }
  return join(groups, shown, { summaries, unread });
}

/** How things stand is told only when it changes: left out, a run at work would be forgotten (SE6). */
function latestTopics(groups: readonly Group[]): Map<number, Group> {
  const newest = new Map<string, number>();
  for (const [at, { entries }] of groups.entries()) {
    const note = entries[0];
    if (note?.type === "note" && note.about !== undefined && isTopicNote(note)) newest.set(note.about, at);
  }
  return new Map([...newest.values()].map((at) => [at, groups[at] as Group]));
}

function groupsOf(entries: readonly Entry[]): Group[] {
  const groups: Entry[][] = [];
  for (const entry of entries) {
    if (entry.type === "message" || entry.type === "note" || groups.length === 0) groups.push([entry]);
    else groups.at(-1)?.push(entry);
  }
  return groups.map((group) => ({ entries: group, chars: charsOf(group) }));
}

/** Cuts the texts of a group evenly until it fits. */
function cutGroup(group: Group, maxChars: number): Group {
  if (group.chars <= maxChars) return group;
  const texts = group.entries.filter((entry) => "text" in entry);
  const fixed = group.chars - texts.reduce((sum, entry) => sum + entry.text.length, 0);
  const each = Math.max(LEAST, Math.floor((maxChars - fixed) / Math.max(1, texts.length)));
  const entries = group.entries.map((entry) => ("text" in entry ? { ...entry, text: cutMiddle(entry.text, each) } : entry));
  return { entries, chars: charsOf(entries) };
}

const DONT_FIT = (left: number): string => `The gateway left ${left} characters out here: they don't fit.`;

/** Beginning and end stay: what was asked may stand behind what was pasted. */
export function cutMiddle(text: string, maxChars: number, say = DONT_FIT): string {
  if (text.length <= maxChars) return text;
  const note = (left: number): string => `\n… [${say(left)}] …\n`;
  const kept = Math.max(0, maxChars - note(text.length).length);
  const head = cutText(text, Math.ceil(kept * 0.7));
  const tail = text.slice(text.length - Math.floor(kept * 0.3)).replace(/^[\udc00-\udfff]/, "");
  return `${head}${note(text.length - head.length - tail.length)}${tail}`;
}

function join(
  groups: readonly Group[],
  shown: ReadonlyMap<number, Group>,
  before: { summaries: readonly Entry[]; unread: number },
): Fitted {
  const entries: Entry[] = [...before.summaries];
  let leftOut = 0;
  let gap = before.unread;
  let cutChars = 0;
  for (const [at, group] of groups.entries()) {
    const part = shown.get(at);
    if (part === undefined) {
      gap++;
      continue;
    }
    if (gap > 0) entries.push(gapNote(gap, part.entries[0] as Entry));
    leftOut += gap;
    gap = 0;
    cutChars += group.chars - part.chars;
    entries.push(...part.entries);
  }
  return { entries, leftOut, cutChars };
}

const gapNote = (gap: number, before: Entry): Entry => ({
  type: "note",
  text: `[The gateway left ${gap} earlier messages out here: they don't fit into what you can read. Don't guess what they said.]`,
  id: `left-out:${before.id}`,
  parentId: before.parentId,
  timestamp: before.timestamp,
});
