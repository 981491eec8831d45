// The answer to a command or a press, by the token it came with: it belongs to whoever typed or pressed, and stands in no history. A
// command's answer is written where "thinking…" stands, a press's comes as a note of its own. The token is good for a quarter of an hour;
// later the answer is a message like any other.
import type { API } from "@discordjs/core/http-only";
import type { Address } from "../../core/address.ts";
import type { OnlyReader, SendResult } from "../../core/message.ts";
import { type ApiFailure, explainFailure } from "./api.ts";
import { EPHEMERAL, type Interactions } from "./interactions.ts";
import type { DiscordPart } from "./render.ts";

export interface Whispering {
  readonly api: API;
  readonly interactions: Pick<Interactions, "settled">;
}

export interface Whisper {
  readonly part: DiscordPart;
  readonly onlyTo: OnlyReader;
  readonly address: Address;
  readonly repeated: boolean;
}

type Reply = Parameters<API["interactions"]["editReply"]>[2];
type FollowUp = Parameters<API["interactions"]["followUp"]>[2];

const CALLS_NOBODY = { allowed_mentions: { parse: [] } };
const REPEATED = "(may be repeated)";
const UNKNOWN_MESSAGE = 10_008;
/** The token is good no more: too old, or the command was never acknowledged. */
const OVER: ReadonlySet<number> = new Set([10_015, 10_062, 40_060, 50_027, 401, 404]);

/** Never throws. */
export async function whisper(
  { api, interactions }: Whispering,
  { part, onlyTo, address, repeated }: Whisper,
  toResult: (failure: ApiFailure) => Promise<SendResult>,
): Promise<SendResult> {
  const { id = "", app = "", token = "", way } = onlyTo;
  await interactions.settled(id);
  const isPlaced = way === "command" && part.isFirst === true;
  const content = repeated && !isPlaced ? `${REPEATED}\n\n${part.content}` : part.content;
  const body = { content, components: part.components ?? [], ...CALLS_NOBODY };
  const followUp = async (): Promise<SendResult> => {
    const flags = address.kind === "dm" ? {} : { flags: EPHEMERAL };
    const { id: ref } = await api.interactions.followUp(app, token, { ...body, ...flags } as unknown as FollowUp);
    return { status: "sent", ref };
  };
  try {
    if (!isPlaced) return await followUp();
    const { id: ref } = await api.interactions.editReply(app, token, body as unknown as Reply, "@original");
    return { status: "sent", ref };
  } catch (error) {
    const failure = explainFailure(error);
    // Nothing thinks there any more: it took too long.
    if (isPlaced && failure.kind === "refused" && failure.code === UNKNOWN_MESSAGE) return afterwards(followUp, part, toResult);
    if (isPlaced && failure.kind === "lost") return { status: "retry", reason: failure.reason };
    return isOver(failure) ? openly(part, failure.reason) : toResult(failure);
  }
}

async function afterwards(
  followUp: () => Promise<SendResult>,
  part: DiscordPart,
  toResult: (failure: ApiFailure) => Promise<SendResult>,
): Promise<SendResult> {
  try {
    return await followUp();
  } catch (error) {
    const failure = explainFailure(error);
    return isOver(failure) ? openly(part, failure.reason) : toResult(failure);
  }
}

const isOver = (failure: ApiFailure): boolean => failure.kind === "refused" && OVER.has(failure.code);

function openly({ onlyTo: _onlyTo, isFirst: _isFirst, ...rest }: DiscordPart, reason: string): SendResult {
  return { status: "rerender", part: rest, reason };
}
