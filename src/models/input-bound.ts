// The most tokens a request's input can be, before anybody has counted it (BG2). A token is at least one byte, so its bytes are a true
// bound; but they are some four times what is really used, and of a long history all that would be held back for nothing. So what the
// provider counted for an earlier request stands in for that request's bytes, and only what came after it is bytes. It counts only where
// it is the same conversation: same model, and message by message what was sent then. That is not reasoned about (compaction, a brief
// taken back, another tokenizer) but compared, by a digest that stands with the answer in the transcript.
import { createHash } from "node:crypto";
import type { InputCount } from "../core/usage.ts";
import type { ChatMessage, ModelRequest } from "./model.ts";
import { TOKENS_PER_PICTURE } from "./vision.ts";

/** A provider adds a few tokens to each message. */
const TOKENS_PER_MESSAGE = 16;
/** A longer token on average is nobody's text: a server that leaves out what its cache had. */
const LONGEST_TOKEN = 16;

export interface InputBound {
  readonly tokens: number;
  /** For the answer, once the provider has said what the input was; undefined: that can't be true. */
  counted(tokens: number): InputCount | undefined;
}

type Counted = Pick<ModelRequest, "system" | "tools" | "messages"> & {
  readonly model: string;
  /** As it is sent: some providers say more to a model that thinks. */
  readonly reasoning: string | undefined;
};

export function inputBound({ model, reasoning, system, tools, messages }: Counted): InputBound {
  const headText = JSON.stringify([reasoning, system, tools]);
  const head = digestOf(createHash("sha256").update(headText));
  const headBytes = Buffer.byteLength(headText) + TOKENS_PER_MESSAGE;
  const at = messages.findLastIndex((message, index) => countOf(message)?.model === model && countOf(message)?.messages === index);
  const known = countOf(messages[at]);
  const hash = createHash("sha256");
  let [bytes, bytesSince, isSame] = [0, 0, false];
  for (const [index, message] of messages.entries()) {
    if (index === at) isSame = known?.digest === digestOf(hash.copy());
    const text = JSON.stringify(withoutCount(message));
    const added = Buffer.byteLength(text) + TOKENS_PER_MESSAGE + picturesIn(message) * TOKENS_PER_PICTURE;
    bytes += added;
    if (index >= at) bytesSince += added;
    hash.update(text);
  }
  const all = headBytes + bytes;
  const digest = digestOf(hash);
  return {
    // Other tools or another system prompt: what was counted holds the old ones, and the new ones are added whole.
    tokens: known !== undefined && isSame ? Math.min(all, known.tokens + (known.head === head ? 0 : headBytes) + bytesSince) : all,
    counted: (tokens) => (tokens * LONGEST_TOKEN < all ? undefined : { model, messages: messages.length, digest, head, tokens }),
  };
}

const digestOf = (hash: ReturnType<typeof createHash>): string => hash.digest("hex").slice(0, 32);

/** A transcript may be damaged: it says what it likes there. */
function countOf(message: ChatMessage | undefined): InputCount | undefined {
  const counted = message?.role === "assistant" ? message.counted : undefined;
  return Number.isSafeInteger(counted?.tokens) && (counted?.tokens ?? 0) > 0 ? counted : undefined;
}

const picturesIn = (message: ChatMessage): number => (message.role === "user" ? (message.pictures?.length ?? 0) : 0);

function withoutCount(message: ChatMessage): ChatMessage {
  if (message.role !== "assistant") return message;
  const { counted: _, ...sent } = message;
  return sent;
}
