// Who was let in by a pairing code: an unknown person's code, shown to them once, is approved by the operator on the
// page or with `npm run pair`. Codes live an hour, at most three wait at a time, and a person gets one only once.
import { randomInt } from "node:crypto";
import type { Address } from "../core/address.ts";
import type { Clock } from "../core/clock.ts";
import type { Bus } from "../core/events.ts";
import type { Database } from "./database.ts";

export interface PairingRequest {
  readonly code: string;
  readonly channel: string;
  readonly account: string;
  readonly senderId: string;
  readonly senderName: string;
  readonly address: Address;
  readonly createdAt: number;
  readonly expiresAt: number;
}

export interface Pairing {
  isPaired(channel: string, account: string, senderId: string): boolean;
  /** A new code, or null when this person was given one already or three are waiting. */
  request(from: Omit<PairingRequest, "code" | "createdAt" | "expiresAt">): string | null;
  listPending(): PairingRequest[];
  /** The person it let in, or null for an unknown or expired code. */
  approve(code: string): PairingRequest | null;
}

const ALPHABET = "ABCDEFGHJKLMNPQRSTUVWXYZ23456789";
const CODE_LENGTH = 8;
const LIFETIME_MS = 3_600_000;
const MAX_PENDING = 3;

interface Stored {
  code: string;
  channel: string;
  account: string;
  sender_id: string;
  sender_name: string;
  address: string;
  created_at: number;
  expires_at: number;
}

/** `bus` is left out where nobody listens (`npm run pair`). */
export function createPairing({ db, clock, bus }: { db: Database; clock: Clock; bus?: Pick<Bus, "emit"> }): Pairing {
  const changed = (): void => db.afterCommit(() => bus?.emit({ type: "pairing.changed" }));
  const forget = (): void => void db.run("DELETE FROM pairing_codes WHERE expires_at <= ?", clock.now());
  const pending = (): PairingRequest[] =>
    db
      .all<Stored>("SELECT * FROM pairing_codes WHERE expires_at > ? ORDER BY created_at, channel, account, sender_id", clock.now())
      .map(fromRow);
  return {
    isPaired: (channel, account, senderId) =>
      db.get("SELECT 1 FROM paired WHERE channel = ? AND account = ? AND sender_id = ?", channel, account, senderId) !== undefined,
    request: (from) =>
      db.part(() => {
        forget();
        const waiting = pending();
        if (waiting.length >= MAX_PENDING || waiting.some((one) => isSame(one, from))) return null;
        const code = Array.from({ length: CODE_LENGTH }, () => ALPHABET[randomInt(ALPHABET.length)]).join("");
        const now = clock.now();
        db.run(
          "INSERT INTO pairing_codes (code, channel, account, sender_id, sender_name, address, created_at, expires_at) VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
          code,
          from.channel,
          from.account,
          from.senderId,
          from.senderName.slice(0, 80),
          JSON.stringify(from.address),
          now,
          now + LIFETIME_MS,
        );
        changed();
        return code;
      }),
    listPending: pending,
    approve: (code) =>
      db.part(() => {
        const found = pending().find((one) => one.code === code.trim().toUpperCase());
        if (found === undefined) return null;
        db.run(
          "INSERT OR IGNORE INTO paired (channel, account, sender_id, at) VALUES (?, ?, ?, ?)",
          found.channel,
          found.account,
          found.senderId,
          clock.now(),
        );
        db.run("DELETE FROM pairing_codes WHERE code = ?", found.code);
        changed();
        return found;
      }),
  };
}

const isSame = (
  a: { channel: string; account: string; senderId: string },
  b: { channel: string; account: string; senderId: string },
): boolean => a.channel === b.channel && a.account === b.account && a.senderId === b.senderId;

const fromRow = (row: Stored): PairingRequest => ({
  code: row.code,
  channel: row.channel,
  account: row.account,
  senderId: row.sender_id,
  senderName: row.sender_name,
  address: JSON.parse(row.address) as Address,
  createdAt: row.created_at,
  expiresAt: row.expires_at,
});
