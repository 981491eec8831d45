// A file that came with a message or goes out with one (CH2), as everybody names it: transcripts, parts and the page hold this, never
// the bytes. What it is was read from its content; the name is somebody's words and decides nothing.
import { visibleLine } from "./visible-text.ts";

export interface Attachment {
  readonly id: string;
  /** As it was given, cleaned: one line, no path, nothing unseen. */
  readonly name: string;
  readonly type: string;
  readonly size: number;
  /** Of a picture, from its header: nothing is ever decoded here. */
  readonly width?: number;
  readonly height?: number;
  /** Why no model is shown this picture, as the end of a sentence. */
  readonly unfit?: string;
}

/** Something a person sent, before anybody has fetched it. */
export interface SentFile {
  /** The id under which it is stored already (the page), or the channel's own words for fetching it. */
  readonly source: { readonly stored: string } | { readonly remote: string };
  readonly kind: FileKind;
  readonly name: string;
  /** As the platform says. */
  readonly size?: number;
}

/** What the platform takes it for: a person reads it in refusals, a model beside the name. */
export type FileKind = "file" | "photo" | "voice message" | "video" | "audio" | "animation";

/** Outcome of ONE attempt to get at it. */
export type FetchedFile =
  | { readonly status: "open"; readonly pieces: AsyncIterable<Uint8Array> }
  | { readonly status: "retry"; readonly afterMs?: number; readonly reason: string }
  /** As the end of a sentence: "it " … */
  | { readonly status: "refused"; readonly reason: string };

/** Pixels and nothing else: browsers run nothing of them, and models that see take them. */
const PICTURES: ReadonlySet<string> = new Set(["image/png", "image/jpeg", "image/webp", "image/gif"]);
export const isPicture = ({ type }: Pick<Attachment, "type">): boolean => PICTURES.has(type);
export const isText = ({ type }: Pick<Attachment, "type">): boolean => type.startsWith("text/");
/** Sound and film: nobody here understands them. */
export const isRecording = ({ type }: Pick<Attachment, "type">): boolean => /^(?:audio|video)\//.test(type);

const MAX_NAME = 120;
const ENDING = /\.[A-Za-z0-9]{1,10}$/;
/** Longer than any file system takes. */
const MAX_GIVEN = 2_000;

/** Any name → one that can be shown, and that is no way to anywhere. */
export function cleanFileName(given: string): string {
  const last = given.split(/[/\\]/).findLast((part) => part.trim() !== "") ?? "";
  const line = visibleLine(last, MAX_GIVEN).replace(/^[.\s]+/, "");
  if (line === "") return "file";
  if (line.length <= MAX_NAME) return line;
  const ending = ENDING.exec(line)?.[0] ?? "";
  return `${line.slice(0, MAX_NAME - ending.length - 1).toWellFormed()}…${ending}`;
}

export function sizeText(bytes: number): string {
  if (bytes < 1024) return `${bytes} B`;
  return bytes < 1024 * 1024 ? `${Math.round(bytes / 1024)} KB` : `${(bytes / 1024 / 1024).toFixed(1)} MB`;
}

/** Where a file of a message stands in the agent's workspace: read by people in the transcript, too. */
const ATTACHMENT_FOLDER = "attachments";
/** The beginnings of ids of files whose places in a workspace stand in this text. */
export const idsInText = (text: string): readonly string[] => [
  ...new Set([...text.matchAll(/\battachments\/([0-9a-f]{8})-/g)].map(([, beginning = ""]) => beginning)),
];
export const attachmentPath = ({ id, name }: Pick<Attachment, "id" | "name">): string => {
  const plain = name.replace(/[^\p{L}\p{N}._-]+/gu, "-").replace(/^[-.]+/, "") || "file";
  return `${ATTACHMENT_FOLDER}/${id.slice(0, 8)}-${shortEnough(plain)}`;
};

/** A file system takes names of 255 bytes, of which the id has nine; a letter may have four. */
const MAX_PLACE_BYTES = 246;
function shortEnough(name: string): string {
  if (Buffer.byteLength(name) <= MAX_PLACE_BYTES) return name;
  const ending = ENDING.exec(name)?.[0] ?? "";
  // Cut in the middle of a letter, what is left of it is no letter.
  const beginning = Buffer.from(name)
    .subarray(0, MAX_PLACE_BYTES - ending.length)
    .toString()
    .replace(/\uFFFD$/, "");
  return `${beginning}${ending}`;
}
