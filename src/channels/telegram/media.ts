// What a person attached: as a short note in the words, and as a file to be fetched, where it is one (fetch-file.ts).
import { z } from "zod";
import { type FileKind, type SentFile, sizeText } from "../../core/attachment.ts";

const word = z.string().max(4_096);
const fileId = z.string().min(1).max(1_000);
const file = z.object({
  file_id: fileId.optional(),
  file_name: word.optional(),
  file_size: z.number().optional(),
  duration: z.number().optional(),
  title: word.optional(),
});

/** The fields of a message that hold media; any other shape reads as "not there". */
export const mediaSchema = z.object({
  photo: z
    .array(z.object({ file_id: fileId, file_size: z.number().optional() }))
    .max(100)
    .optional()
    .catch([]),
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

/** Sizes of a photo stand in order, the largest last. */
export function mediaFile(media: Media): SentFile | null {
  const photo = media.photo?.at(-1);
  if (photo !== undefined) return toFile("photo", "photo.jpg", photo);
  if (media.animation !== undefined) return toFile("animation", "animation.mp4", media.animation);
  if (media.document !== undefined) return toFile("file", "file", media.document);
  if (media.audio !== undefined) return toFile("audio", "audio.mp3", media.audio);
  if (media.voice !== undefined) return toFile("voice message", "voice.ogg", media.voice);
  if (media.video !== undefined) return toFile("video", "video.mp4", media.video);
  return media.video_note === undefined ? null : toFile("video", "video.mp4", media.video_note);
}

function toFile(kind: FileKind, fallback: string, { file_id, file_name, file_size }: Partial<File>): SentFile | null {
  if (file_id === undefined) return null;
  return { source: { remote: file_id }, kind, name: file_name ?? fallback, ...(file_size === undefined ? {} : { size: file_size }) };
}

const note = (kind: string, { file_name, title, duration, file_size }: File): string =>
  bracket(
    kind,
    title ?? file_name,
    duration === undefined ? undefined : clockTime(duration),
    file_size === undefined ? undefined : sizeText(file_size),
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
