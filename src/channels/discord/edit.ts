// What a message of ours says, as Discord takes it; and saying something else in its place, which done twice shows once.
import type { API } from "@discordjs/core/http-only";
import type { Address } from "../../core/address.ts";
import type { EditRequest, EditResult } from "../../core/message.ts";
import { type TokenWatch, unedited } from "../failure.ts";
import { type ApiFailure, explainFailure } from "./api.ts";
import { channelOf } from "./history.ts";
import type { DiscordPart } from "./render.ts";

export interface Editor extends TokenWatch {
  readonly api: API;
}

type EditBody = Parameters<API["channels"]["editMessage"]>[2];

/** Nobody is called, whatever stands in the text; nor by a reply. */
const CALLS_NOBODY = { allowed_mentions: { parse: [], replied_user: false } };
/** No previews of links; on request no sound either. */
const NO_PREVIEW = 1 << 2;
const QUIET = 1 << 12;
const UNKNOWN_MESSAGE = 10_008;
/** Put away, because nobody spoke or by hand: a message opens it again, an edit doesn't. */
export const THREAD_ARCHIVED = 50_083;
/** Removed, not ours, or in a place that is closed to us. */
const GONE: ReadonlySet<number> = new Set([UNKNOWN_MESSAGE, 10_003, 50_001, 50_005, 50_013, 403, 404]);

/** The words of a call, with what must be said first in front. */
export function contentOf({ content, components, quiet }: DiscordPart, notes: readonly string[] = []): object {
  const text = notes.length === 0 ? content : `${notes.join("\n")}\n\n${content}`;
  return { content: text, components: components ?? [], flags: NO_PREVIEW | (quiet === true ? QUIET : 0), ...CALLS_NOBODY };
}

/** One attempt to bring a message of ours up to date. Never throws. */
export async function editPart(editor: Editor, { address, ref, part }: EditRequest): Promise<EditResult> {
  const failure = await rewrite(editor, address, ref, part as DiscordPart);
  if (failure === null) return { status: "shown" };
  if (failure.kind !== "refused") return unedited(editor, failure);
  return { status: GONE.has(failure.code) ? "gone" : "refused", reason: failure.reason };
}

/** Null: it says so now. */
export async function rewrite({ api, authTrouble }: Editor, address: Address, id: string, part: DiscordPart): Promise<ApiFailure | null> {
  try {
    // Of its flags only this one can be changed.
    const body = { ...contentOf(part), flags: NO_PREVIEW };
    await api.channels.editMessage(channelOf(address), id, body as unknown as EditBody);
    authTrouble(null);
    return null;
  } catch (error) {
    const failure = explainFailure(error);
    if (failure.kind === "auth") authTrouble(failure.reason);
    return failure;
  }
}

export const isMessageGone = (failure: ApiFailure): boolean => failure.kind === "refused" && failure.code === UNKNOWN_MESSAGE;
