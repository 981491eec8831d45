// Pictures on their way to a model: which model sees at all, and which pictures of a conversation are sent with a request. By place
// alone and in steps, so that what was sent once stands there again, byte for byte, in the requests after it (their cache).
import type { ModelTarget } from "./language-model.ts";
import type { ChatMessage, PictureRef } from "./model.ts";

/** Of one request; every provider takes so many. */
const MAX_PICTURES = 10;
const MAX_BYTES = 12_000_000;
/** What a provider counts for one picture at most: it scales larger ones down. */
export const TOKENS_PER_PICTURE = 6_000;

/** What the makers' own models can't: older ones, and small ones for thinking only. */
const BLIND = /^(?:gpt-3|gpt-4-(?:0|1106)|gpt-4$|o1-mini|o1-preview|o3-mini|claude-(?:2|instant)|text-|davinci)/;
const SEEING =
  /(?:^|\/)(?:claude|gpt-4o|gpt-4\.1|gpt-[5-9]|o[134]|gemini|gemma-?[3-9]|pixtral|llama-4|grok-[4-9])|vision|llava|[-_.]vl\b|\d+v\b/i;

/** By the settings (`models.providers.<name>.models[].images`), else by whose model it is; of one nobody knows: no. */
export function seesPictures({ id, endpoint }: Pick<ModelTarget, "id" | "endpoint">): boolean {
  const said = endpoint.models?.find((model) => model.id === id)?.images;
  if (said !== undefined) return said;
  if (endpoint.api === "anthropic" || endpoint.api === "openai" || endpoint.api === "google") return !BLIND.test(id);
  return SEEING.test(id);
}

/** Ids of the pictures that are sent: the newest ones. When they become too many, the older half goes at once. */
export function chosenPictures(messages: readonly ChatMessage[]): ReadonlySet<string> {
  let kept: PictureRef[] = [];
  const bytes = (): number => kept.reduce((sum, { size }) => sum + size, 0);
  for (const message of messages) {
    for (const picture of (message.role === "user" ? message.pictures : undefined) ?? []) {
      kept.push(picture);
      while (kept.length > MAX_PICTURES || bytes() > MAX_BYTES) kept = kept.slice(Math.ceil(kept.length / 2));
    }
  }
  return new Set(kept.map(({ id }) => id));
}

/** In base64, by id. Left out: it is not sent, or its bytes are gone. */
export type LoadedPictures = ReadonlyMap<string, string>;

export async function loadPictures(
  messages: readonly ChatMessage[],
  target: ModelTarget,
  read: (id: string) => Promise<Uint8Array | null>,
): Promise<LoadedPictures> {
  const loaded = new Map<string, string>();
  if (!seesPictures(target)) return loaded;
  for (const id of chosenPictures(messages)) {
    const bytes = await read(id);
    if (bytes !== null) loaded.set(id, Buffer.from(bytes).toString("base64"));
  }
  return loaded;
}

/** What a model reads in the place of a picture it isn't shown. */
export const unseenNote = ({ name }: PictureRef, target: ModelTarget): string =>
  `[The image ${JSON.stringify(name)} is not shown: ${seesPictures(target) ? "it is too far back or no longer kept" : "you can't see images"}. Say so if it matters; don't guess what it shows.]`;
