// One event put into a room, by a transaction id: the same id again is the same event to a server that still knows it.
import { hash } from "node:crypto";
import type { Address } from "../../core/address.ts";
import type { SendRequest } from "../../core/message.ts";
import { type Api, v3 } from "./api.ts";
import type { Content } from "./render.ts";

/** The same for the same words. */
export const transactionOf = (name: string): string => `herald.${hash("sha256", name, "base64url")}`;

/** The same for the same row, whoever sends it and however often; and no other's, which a server that remembers would not show. */
export const transactionOfRow = ({ key, madeAt }: Pick<SendRequest, "key" | "madeAt">): string =>
  transactionOf(madeAt === undefined ? key : `${key} ${madeAt}`);

/** Null: the answer named no event. Throws MatrixFailure. */
export async function post({ api }: { readonly api: Api }, { chat }: Address, transaction: string, body: Content): Promise<string | null> {
  const { event_id: id } = await api.call("PUT", v3("rooms", chat, "send", "m.room.message", transaction), { body });
  return typeof id === "string" ? id : null;
}
