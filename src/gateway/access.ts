// The one gate: every message, command, slash command, button and page request that does something passes here (SC2).
// Senders are known by immutable ids only; an empty list means nobody; an unknown direct sender may get a pairing code.
import type { Inbound } from "../core/message.ts";
import type { Pairing } from "../stores/pairing.ts";

/** Who may speak on one channel. `open`: the channel has checked already (the page's token). */
export type ChannelRules =
  | { readonly open: true }
  | {
      readonly open?: false;
      readonly allowFrom: readonly string[];
      readonly groups: Readonly<Record<string, { readonly requireMention: boolean; readonly allowFrom: readonly string[] }>>;
    };

export type Verdict =
  | { readonly allow: true }
  /** `code`: tell the person this pairing code, once. Otherwise no reaction at all. */
  | { readonly allow: false; readonly reason: string; readonly code?: string };

export interface Access {
  authorize(inbound: Inbound): Verdict;
}

export interface AccessDeps {
  readonly pairing: Pairing;
  /** Null for a channel nobody configured: refused. */
  rules(channel: string): ChannelRules | null;
}

const ALLOW: Verdict = { allow: true };
const deny = (reason: string): Verdict => ({ allow: false, reason });

export function createAccess(deps: AccessDeps): Access {
  return {
    authorize(inbound) {
      const rules = deps.rules(inbound.address.channel);
      if (rules === null) return deny("unknown channel");
      if (rules.open === true) return ALLOW;
      const { channel, account, chat, kind } = inbound.address;
      const known = rules.allowFrom.includes(inbound.sender.id) || deps.pairing.isPaired(channel, account, inbound.sender.id);
      if (kind === "dm") return known ? ALLOW : unknownPerson(deps.pairing, inbound);
      const group = Object.hasOwn(rules.groups, chat) ? rules.groups[chat] : undefined;
      if (group === undefined) return deny("chat is not listed");
      if (!known && !group.allowFrom.includes(inbound.sender.id)) return deny("sender is not on an allow-list");
      if (inbound.kind === "message" && group.requireMention && !inbound.mentioned) return deny("not addressed");
      return ALLOW;
    },
  };
}

function unknownPerson(pairing: Pairing, inbound: Inbound): Verdict {
  const { channel, account } = inbound.address;
  const code = pairing.request({
    channel,
    account,
    senderId: inbound.sender.id,
    senderName: inbound.sender.name ?? "",
    address: inbound.address,
  });
  return { allow: false, reason: "unknown person", ...(code === null ? {} : { code }) };
}
