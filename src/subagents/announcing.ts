// When and where one run is announced (AP1): decided at its spawn from the settings of whoever sends it out, and pinned on its row.
// Nothing of it can be said in a tool call, so that no model, and nobody who talks one into something, has a result sent elsewhere.
import type { AnnouncePolicy } from "../agents/agent.ts";
import { type Address, addressKey, channelWords } from "../core/address.ts";
import { nameOf, type Person } from "../core/question.ts";
import { ALWAYS, type Announcing, announceAddress, type EndState, type Run } from "../core/run.ts";
import { oneLine } from "./quoting.ts";

interface Asked {
  readonly address: Address;
  readonly person: Person | null;
}

/** `soleAccount`: of a channel that has only one; null: it has none. */
export function pinAnnouncing(
  { when, everyMinutes, to }: AnnouncePolicy,
  asked: Asked,
  soleAccount: (channel: string) => string | null,
): Announcing {
  const target = to === "thread" ? null : to === "dm" ? directChat(asked) : { ...to, account: to.account ?? soleAccount(to.channel) ?? "" };
  const isAsking = target !== null && target !== "nobody" && addressKey(target) === addressKey(asked.address);
  if (when === "always" && (target === null || isAsking)) return ALWAYS;
  return { when, everyMinutes: when === "digest" ? everyMinutes : null, to: isAsking ? null : target };
}

/** Of who asked in a direct chat, or on the page, it is where they asked. */
function directChat({ address, person }: Asked): Announcing["to"] {
  if (person === null) return "nobody";
  const { channel, account } = address;
  // The platforms name the chat with a person by the person: Telegram as it is, Slack once it is opened (channels/slack/send.ts).
  return address.kind === "dm" ? null : { channel, account, chat: person.id, kind: "dm" };
}

/** `post`: at once. `hold`: with the next digest. `keep`: not at all. Only what went well ever waits or is left out. */
export function wayOf({ announcing: { when } }: Pick<Run, "announcing">, as: EndState): "post" | "hold" | "keep" {
  if (as !== "done" || when === "always") return "post";
  return when === "digest" ? "hold" : "keep";
}

export const isElsewhere = (run: Pick<Run, "address" | "announcing">): boolean => announceAddress(run) !== run.address;

/** Who reads it there has not seen it asked for. */
export function askedFor({ address, person }: Pick<Run, "address" | "person">): string {
  const by = person === null || address.channel === "web" ? "" : ` by ${oneLine(nameOf(person))}`;
  return `asked for${by} ${placeWords(address)}`;
}

/** `in the Telegram group -1001, topic 7` */
export function placeWords({ channel, kind, chat, thread }: Address): string {
  if (channel === "web") return chat === "main" ? "on the page" : `on the page, chat ${chat}`;
  const platform = channelWords(channel);
  if (kind === "dm") return `in a direct chat on ${platform}`;
  const part = thread === undefined ? "" : `, ${kind === "group" ? "topic" : "thread"} ${oneLine(thread)}`;
  return `in the ${platform} ${kind} ${oneLine(chat)}${part}`;
}
