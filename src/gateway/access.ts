// The one gate: every message, command, slash command, button and page request that does something passes here (SC2).
// Senders are known by immutable ids only; an empty list means nobody; an unknown direct sender may get a pairing code.
import type { Inbound } from "../core/message.ts";
import type { Tx } from "../stores/database.ts";
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
  /**
   * Nothing stands against it. Changes nothing and needs no transaction, which is what most messages are: whoever is not
   * allowed is decided on anew by `authorize`.
   */
  isAllowed(inbound: Inbound): Promise<boolean>;
  /** Decides, and makes a pairing code where one is due: call it in the transaction that records what is said. */
  authorize(tx: Tx, inbound: Inbound): Promise<Verdict>;
  /** Why it is refused without a word; null: it is not. Changes nothing, so that it can be asked before anything is recorded. */
  refusal(inbound: Inbound): Promise<string | null>;
}

export interface AccessDeps {
  readonly pairing: Pairing;
  /** Null for a channel nobody configured: refused. */
  rules(channel: string): ChannelRules | null;
}

const STRANGER = "unknown person";

export function createAccess(deps: AccessDeps): Access {
  const { pairing } = deps;
  return {
    isAllowed: async (inbound) => (await objection(deps, inbound)) === null,
    async authorize(tx, inbound) {
      const reason = await objection(deps, inbound);
      if (reason === null) return { allow: true };
      const code =
        reason === STRANGER && isSaid(inbound) ? await pairing.request(tx, { ...personOf(inbound), address: inbound.address }) : null;
      return { allow: false, reason, ...(code === null ? {} : { code }) };
    },
    async refusal(inbound) {
      const reason = await objection(deps, inbound);
      return reason === STRANGER && isSaid(inbound) && (await pairing.wouldGive(personOf(inbound))) ? null : reason;
    },
  };
}

/** Somebody who presses a button under an old message asks for nothing, least of all to be let in. */
const isSaid = ({ kind }: Inbound): boolean => kind !== "button";

/** What stands against it; null: nothing. */
async function objection({ pairing, rules }: AccessDeps, inbound: Inbound): Promise<string | null> {
  const { channel, account, chat, kind } = inbound.address;
  const rule = rules(channel);
  if (rule === null) return "unknown channel";
  if (rule.open === true) return null;
  const isKnown = rule.allowFrom.includes(inbound.sender.id) || (await pairing.isPaired(channel, account, inbound.sender.id));
  if (kind === "dm") return isKnown ? null : STRANGER;
  const group = Object.hasOwn(rule.groups, chat) ? rule.groups[chat] : undefined;
  if (group === undefined) return "chat is not listed";
  if (!isKnown && !group.allowFrom.includes(inbound.sender.id)) return "sender is not on an allow-list";
  // A bare "stop" among people is no command to the bot either.
  if (inbound.kind === "message" && group.requireMention && !inbound.mentioned) return "not addressed";
  return null;
}

const personOf = ({ address: { channel, account }, sender }: Inbound) => ({
  channel,
  account,
  senderId: sender.id,
  senderName: sender.name ?? "",
});
