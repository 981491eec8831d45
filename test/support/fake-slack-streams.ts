// The fake's streams: a message that grows until it is ended, only by what goes behind it, and dies by itself after some minutes.
import { type Block, buttonsOf, callsSomebody, checkMessage, shownText } from "./fake-slack-rules.ts";
import type { Channel, SeenMessage, State } from "./fake-slack-state.ts";

/** An error's name, or nothing. */
type Refusal = string | null;

const MAX_STREAM = 12_000;

/** Slack has no place for metadata here, and wants a thread; outside direct chats also to know who reads along. */
function checkStart(state: State, channel: Channel, args: Record<string, string>): Refusal {
  if (args.metadata !== undefined || args.blocks !== undefined) return "invalid_arguments";
  if (args.thread_ts === undefined) return "invalid_thread_ts";
  if (!channel.messages.some((message) => message.ts === args.thread_ts && message.thread === null)) return "thread_not_found";
  if (channel.type === "im") return null;
  if (!/^[UW]/.test(args.recipient_user_id ?? "")) return "missing_recipient_user_id";
  return args.recipient_team_id === state.teamId ? null : "missing_recipient_team_id";
}

/** What stands there and what comes behind it, or why that can't be. */
function grow(message: SeenMessage, args: Record<string, string>): Refusal {
  const piece = args.markdown_text ?? "";
  const words = message.blocks.flatMap((block) => (block.type === "markdown" ? [String(block.text)] : [])).join("") + piece;
  if (words.length > MAX_STREAM) return "msg_too_long";
  const below = JSON.parse(args.blocks ?? "[]") as Block[];
  const blocks = [...(words === "" ? [] : [{ type: "markdown", text: words }]), ...below];
  const given: Record<string, string> = { blocks: JSON.stringify(blocks) };
  if (args.metadata !== undefined) given.metadata = args.metadata;
  const checked = blocks.length === 0 ? null : checkMessage(given);
  if (checked !== null && "error" in checked) return checked.error;
  const text = shownText("", blocks);
  Object.assign(message, { text, fallback: words.slice(0, 4_000), blocks, buttons: buttonsOf(blocks) });
  if (checked?.message.metadata) message.metadata = checked.message.metadata;
  message.calls ||= callsSomebody("", blocks);
  if (message.versions.at(-1) !== text) message.versions.push(text);
  return null;
}

/** An error's name, or the message. */
export function startStream(state: State, channel: Channel, fresh: SeenMessage, args: Record<string, string>): string | SeenMessage {
  const message: SeenMessage = { ...fresh, streaming: "in_progress" };
  const refusal = checkStart(state, channel, args) ?? grow(message, args);
  if (refusal !== null) return refusal;
  channel.messages.push(message);
  return message;
}

export function goOn(channel: Channel, args: Record<string, string>, isEnd: boolean): string | SeenMessage {
  const message = channel.messages.find((one) => one.ts === args.ts && one.fromBot);
  if (message === undefined) return "message_not_found";
  if (message.streaming !== "in_progress") return "message_not_in_streaming_state";
  if (!isEnd && (args.markdown_text ?? "") === "") return "no_text";
  const refusal = grow(message, args);
  if (refusal !== null) return refusal;
  if (isEnd) message.streaming = "completed";
  return message;
}

/** What grows can't be removed, no more than it can be edited. */
export function deleteMessage(channel: Channel, args: Record<string, string>): string | SeenMessage {
  const message = channel.messages.find((one) => one.ts === args.ts);
  if (message === undefined) return "message_not_found";
  if (!message.fromBot) return "cant_delete_message";
  if (message.streaming === "in_progress") return "streaming_state_conflict";
  channel.messages = channel.messages.filter((one) => one !== message);
  return message;
}
