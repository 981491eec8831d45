// What a person attached, as a short note for the agent. Nothing is downloaded: the note says that something was there.
import { z } from "zod";

const word = z.string().max(4_096);
const file = z.object({
  file_name: word.optional(),
  file_size: z.number().optional(),
  duration: z.number().optional(),
  title: word.optional(),
});

/** The fields of a message that hold media; any other shape reads as "not there". */
export const mediaSchema = z.object({
  photo: z.unknown().optional(),
  document: file.optional().catch(undefined),
  animation: file.optional().catch(undefined),
  audio: file.optional().catch(undefined),
  voice: file.optional().catch(undefined),
  video: file.optional().catch(undefined),
  video_note: file.optional().catch(undefined),
  sticker: z.object({ emoji: word.optional() }).optional().catch(undefined),
  location: z.object({ latitude: z.number(), longitude: z.number() }).optional().catch(undefined),
  venue: z.object({ title: word }).optional().catch(undefined),
  contact: z.object({ first_name: word }).optional().catch(undefined),
  poll: z.object({ question: word }).optional().catch(undefined),
  dice: z.object({ emoji: word, value: z.number() }).optional().catch(undefined),
});

type Media = z.output<typeof mediaSchema>;
type File = z.output<typeof file>;

/** `[document report.pdf 12 KB]`, or "" for plain text. Names lose control characters and brackets, so they can't forge a note. */
export function mediaNote(media: Media): string {
  if (media.photo !== undefined) return "[photo]";
  // An animation comes with a document of the same file.
  if (media.animation !== undefined) return note("animation", media.animation);
  if (media.document !== undefined) return note("document", media.document);
  if (media.audio !== undefined) return note("audio", media.audio);
  if (media.voice !== undefined) return note("voice message", media.voice);
  if (media.video !== undefined) return note("video", media.video);
  if (media.video_note !== undefined) return note("video message", media.video_note);
  if (media.sticker !== undefined) return bracket("sticker", media.sticker.emoji);
  if (media.venue !== undefined) return bracket("place", media.venue.title);
  if (media.location !== undefined) return bracket("location", `${media.location.latitude}, ${media.location.longitude}`);
  if (media.contact !== undefined) return bracket("contact", media.contact.first_name);
  if (media.poll !== undefined) return bracket("poll", media.poll.question);
  if (media.dice !== undefined) return bracket("dice", `${media.dice.emoji} ${media.dice.value}`);
  return "";
}

const note = (kind: string, { file_name, title, duration, file_size }: File): string =>
  bracket(
    kind,
    title ?? file_name,
    duration === undefined ? undefined : clockTime(duration),
    file_size === undefined ? undefined : size(file_size),
  );

const bracket = (...words: (string | undefined)[]): string => `[${words.map(clean).filter(Boolean).join(" ")}]`;

const clean = (text: string | undefined): string =>
  (text ?? "")
    .replace(/[\p{C}[\]]/gu, " ")
    .replace(/\s+/g, " ")
    .trim()
    .slice(0, 100)
    .toWellFormed();

const clockTime = (seconds: number): string => `${Math.floor(seconds / 60)}:${String(Math.floor(seconds % 60)).padStart(2, "0")}`;

function size(bytes: number): string {
  if (bytes < 1024) return `${bytes} B`;
  return bytes < 1024 * 1024 ? `${Math.round(bytes / 1024)} KB` : `${(bytes / 1024 / 1024).toFixed(1)} MB`;
}
