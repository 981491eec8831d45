// What Discord refuses of a message, and what a person sees of one.
import type { SeenMessage } from "./fake-discord-state.ts";

export interface Refusal {
  status: number;
  code: number;
  message: string;
}

export const refuse = (status: number, code: number, message: string): Refusal => ({ status, code, message });

interface Row {
  type: number;
  components: { type: number; label: string; custom_id: string; style: number }[];
}

export interface MessageBody {
  content?: string;
  components?: Row[];
  nonce?: string;
  enforce_nonce?: boolean;
  flags?: number;
  allowed_mentions?: { parse?: string[]; replied_user?: boolean };
  message_reference?: { message_id: string; fail_if_not_exists?: boolean };
}

/** Null: it is taken. */
export function checkMessage(body: MessageBody, fileCount: number): Refusal | null {
  const { content = "", components = [], nonce } = body;
  const invalid = (field: string, why: string): Refusal => refuse(400, 50_035, `Invalid Form Body\n${field}: ${why}`);
  if ([...content].length > 2_000) return invalid("content", "Must be 2000 or fewer in length.");
  if (nonce !== undefined && nonce.length > 25) return invalid("nonce", "Must be 25 or fewer in length.");
  if (content.replace(/[\s\p{C}]/gu, "") === "" && fileCount === 0) return refuse(400, 50_006, "Cannot send an empty message");
  if (components.length > 5) return invalid("components", "Must be 5 or fewer in length.");
  const buttons = components.flatMap((row) => row.components);
  const isLong = components.some((row) => row.components.length > 5 || row.components.length === 0);
  if (isLong || buttons.some(({ label, custom_id }) => label.length > 80 || custom_id.length > 100))
    return invalid("components", "a row or a button is too long");
  if (new Set(buttons.map((one) => one.custom_id)).size !== buttons.length)
    return invalid("components", "Component custom id cannot be duplicated");
  return null;
}

export const buttonsOf = ({ components = [] }: MessageBody): SeenMessage["buttons"] =>
  components.flatMap((row) => row.components).map(({ label, custom_id, style }) => ({ label, customId: custom_id, style }));

/** Without a word about whom to call Discord calls everybody who is named. */
export const pings = ({ content = "", allowed_mentions }: MessageBody): boolean =>
  /@everyone|@here|<@[!&]?\d+>/.test(content) && (allowed_mentions === undefined || (allowed_mentions.parse ?? []).length > 0);
