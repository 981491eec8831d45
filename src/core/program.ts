// Other programs as clients (PR): what a token of theirs may do, and where runs stand that no chat is told of.
import type { Address } from "./address.ts";

export const SCOPES = ["spawn", "read", "send", "stop", "approve"] as const;
export type Scope = (typeof SCOPES)[number];

/** A token as everybody but its holder knows it. */
export interface Program {
  readonly id: string;
  /** The operator's word for it, a part of its session's key. */
  readonly name: string;
  readonly scopes: readonly Scope[];
  /** Whose session it is; null: the default agent's. */
  readonly agentId: string | null;
  /** The chat its runs are announced in; null: none. */
  readonly address: Address | null;
}

const NAME = /^[a-z0-9][a-z0-9._-]{0,39}$/;
export const isProgramName = (text: string): boolean => NAME.test(text);

/** No channel has this name, so nothing can be posted there. */
const CHANNEL = "mcp";

export const programAddress = ({ id, name }: Pick<Program, "id" | "name">): Address => ({
  channel: CHANNEL,
  account: id,
  chat: name,
  kind: "dm",
});

/** The token's id when no chat stands behind the address; null: one does. */
export const programOf = ({ channel, account }: Pick<Address, "channel" | "account">): string | null =>
  channel === CHANNEL ? account : null;

/** As people read who it was. */
export const programLabel = ({ name }: Pick<Program, "name">): string => `${CHANNEL} ${name}`;
