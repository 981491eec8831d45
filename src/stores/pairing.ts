// Who may talk to Herald by the operator's word. An unknown person's code, shown to them once, is approved or refused on the
// page or with `npm run pair`; the decision is a row, of which the person is told (gateway/introductions.ts), and can be revoked.
//
// Codes live an hour and at most three wait at a time, so that nobody can try many and the operator's list stays readable. But
// three strangers must not keep everybody else out for that hour: a code that had its ten minutes makes room for whoever asks
// next, and channels share the places, so that strangers on Telegram can't keep a colleague on Slack waiting. So a flood of
// strangers is given some twenty codes an hour and not one row more, however many they are.
//
// Nor may a handful of them hold the places in turns, each asking again the moment another's ten minutes are over: who had a
// code in the last day that nobody answered has had those ten minutes. They take a place that is free and nobody else's, and
// give it up to the next newcomer. Their rows stay that long; of a day of such flood there are some hundreds.
import { randomInt } from "node:crypto";
import type { Address } from "../core/address.ts";
import type { Clock } from "../core/clock.ts";
import type { Database, Tx } from "./database.ts";
import { lock } from "./lock-keys.ts";

/** Somebody on a platform: known by immutable ids only. */
export interface Sender {
  readonly channel: string;
  readonly account: string;
  readonly senderId: string;
}

export interface PairingRequest extends Sender {
  readonly code: string;
  readonly senderName: string;
  readonly address: Address;
  /** When they first asked; an unanswered code before this one counts. */
  readonly createdAt: number;
  readonly expiresAt: number;
}

export interface Person extends Sender {
  readonly senderName: string;
  /** Where they asked; null for who was let in before that was kept. */
  readonly address: Address | null;
  readonly state: "paired" | "refused";
  readonly at: number;
}

export interface Pairing {
  isPaired(channel: string, account: string, senderId: string): Promise<boolean>;
  /** Whether `request` would give this person a code now. Changes nothing. */
  wouldGive(sender: Sender): Promise<boolean>;
  /** A new code; null: this person has one that is still good, was refused, or three others wait. */
  request(tx: Tx, from: Sender & Pick<PairingRequest, "senderName" | "address">): Promise<string | null>;
  listPending(): Promise<PairingRequest[]>;
  /** The person it let in, or null for an unknown or expired code. */
  approve(code: string): Promise<PairingRequest | null>;
  /** The person it keeps out, or null for an unknown or expired code. */
  refuse(code: string): Promise<PairingRequest | null>;
  /** Those about whom the operator decided, latest first. */
  listPeople(): Promise<Person[]>;
  /** Takes the decision back, at once: who was let in is a stranger again, who was refused may ask again. False: there was none. */
  revoke(sender: Sender): Promise<boolean>;
  /** People who have not been told yet what was decided about them. */
  listUntold(): Promise<Person[]>;
  /** False: it was told already, or the decision is another one by now. */
  markTold(tx: Tx, person: Person): Promise<boolean>;
}

const ALPHABET = "ABCDEFGHJKLMNPQRSTUVWXYZ23456789";
const CODE_LENGTH = 8;
const LIFETIME_MS = 3_600_000;
const MAX_PENDING = 3;
/** So long a person's first code is good whatever happens. */
const KEPT_MS = 10 * 60_000;
/** So long it is remembered that a code ended without an answer. */
const REMEMBERED_MS = 24 * 3_600_000;

interface Stored {
  channel: string;
  account: string;
  sender_id: string;
  sender_name: string;
}

interface StoredCode extends Stored {
  code: string;
  address: string;
  created_at: number;
  expires_at: number;
}

interface StoredPerson extends Stored {
  address: string | null;
  state: Person["state"];
  at: number;
}

const SAME = "channel = ? AND account = ? AND sender_id = ?";
const idOf = ({ channel, account, senderId }: Sender): [string, string, string] => [channel, account, senderId];

export function createPairing({ db, clock }: { db: Database; clock: Clock }): Pairing {
  const changed = (tx: Tx): void => tx.emit({ type: "pairing.changed" });
  const pending = async (): Promise<PairingRequest[]> =>
    (
      await db.all<StoredCode>(
        "SELECT * FROM pairing_codes WHERE expires_at > ? ORDER BY created_at, channel, account, sender_id",
        clock.now(),
      )
    ).map(fromCode);
  const stateOf = async (sender: Sender): Promise<Person["state"] | null> =>
    (await db.get<{ state: Person["state"] }>(`SELECT state FROM people WHERE ${SAME}`, ...idOf(sender)))?.state ?? null;
  // Asked of who has no code now: then a row of theirs is one that nobody answered.
  const askedBefore = async (sender: Sender): Promise<boolean> =>
    (await db.get(`SELECT 1 FROM pairing_codes WHERE ${SAME} AND expires_at > ?`, ...idOf(sender), clock.now() - REMEMBERED_MS)) !==
    undefined;
  const placeFor = async (sender: Sender): Promise<Place> =>
    (await stateOf(sender)) === "refused"
      ? "none"
      : findPlace(await pending(), { ...sender, askedBefore: await askedBefore(sender) }, clock.now());
  const decide = (code: string, state: Person["state"]): Promise<PairingRequest | null> =>
    db.transaction([lock.pairing], async (tx) => {
      const found = (await pending()).find((one) => one.code === code.trim().toUpperCase());
      if (found === undefined) return null;
      await tx.run("DELETE FROM pairing_codes WHERE code = ?", found.code);
      await tx.run(`DELETE FROM people WHERE ${SAME}`, ...idOf(found));
      await tx.run(
        "INSERT INTO people (channel, account, sender_id, sender_name, address, state, at) VALUES (?, ?, ?, ?, ?, ?, ?)",
        ...idOf(found),
        found.senderName,
        JSON.stringify(found.address),
        state,
        clock.now(),
      );
      changed(tx);
      return found;
    });
  return {
    isPaired: async (channel, account, senderId) => (await stateOf({ channel, account, senderId })) === "paired",
    wouldGive: async (sender) => (await placeFor(sender)) !== "none",
    async request(tx, from) {
      const place = await placeFor(from);
      if (place === "none") return null;
      if (place !== "free") await tx.run("UPDATE pairing_codes SET expires_at = ? WHERE code = ?", clock.now(), place.takenFrom);
      const code = await insertCode(tx, from, clock.now());
      changed(tx);
      return code;
    },
    listPending: pending,
    approve: (code) => decide(code, "paired"),
    refuse: (code) => decide(code, "refused"),
    listPeople: async () =>
      (await db.all<StoredPerson>("SELECT * FROM people ORDER BY at DESC, channel, account, sender_id")).map(fromPerson),
    revoke: (sender) =>
      db.transaction([lock.pairing], async (tx) => {
        const isGone = (await tx.run(`DELETE FROM people WHERE ${SAME}`, ...idOf(sender))) > 0;
        if (isGone) changed(tx);
        return isGone;
      }),
    listUntold: async () => (await db.all<StoredPerson>("SELECT * FROM people WHERE told_at IS NULL ORDER BY at")).map(fromPerson),
    async markTold(tx, person) {
      const sql = `UPDATE people SET told_at = ? WHERE ${SAME} AND state = ? AND at = ? AND told_at IS NULL`;
      return (await tx.run(sql, clock.now(), ...idOf(person), person.state, person.at)) === 1;
    },
  };
}

/** For a new code: there is one, one is made by giving this other code up, or there is none. */
type Place = "free" | "none" | { readonly takenFrom: string };

/** `waiting`: oldest first. */
function findPlace(waiting: readonly PairingRequest[], sender: Sender & { askedBefore: boolean }, now: number): Place {
  if (waiting.some((one) => isSame(one, sender))) return "none";
  if (waiting.length < MAX_PENDING) return "free";
  const lines = Map.groupBy(waiting, ({ channel, account }) => `${channel} ${account}`);
  const own = lines.get(`${sender.channel} ${sender.account}`)?.length ?? 0;
  const crowded = [...lines.values()].find((line) => line.length > own + 1);
  // Not from a line shorter than their own, or the channels would take each other's share back and forth.
  const mayTake = ({ channel, account, createdAt }: PairingRequest): boolean =>
    !sender.askedBefore && now - createdAt >= KEPT_MS && (lines.get(`${channel} ${account}`)?.length ?? 0) >= own;
  const oldest = crowded?.[0] ?? waiting.find(mayTake);
  return oldest === undefined ? "none" : { takenFrom: oldest.code };
}

async function insertCode(tx: Tx, from: Sender & Pick<PairingRequest, "senderName" | "address">, now: number): Promise<string> {
  const code = Array.from({ length: CODE_LENGTH }, () => ALPHABET[randomInt(ALPHABET.length)]).join("");
  await tx.run("DELETE FROM pairing_codes WHERE expires_at <= ?", now - REMEMBERED_MS);
  await tx.run(
    `INSERT INTO pairing_codes (code, channel, account, sender_id, sender_name, address, created_at, expires_at) VALUES (?, ?, ?, ?, ?, ?, ?, ?)
     ON CONFLICT (channel, account, sender_id) DO UPDATE SET
       code = excluded.code, sender_name = excluded.sender_name, address = excluded.address, expires_at = excluded.expires_at`,
    code,
    ...idOf(from),
    from.senderName.slice(0, 80),
    JSON.stringify(from.address),
    now,
    now + LIFETIME_MS,
  );
  return code;
}

const isSame = (a: Sender, b: Sender): boolean => a.channel === b.channel && a.account === b.account && a.senderId === b.senderId;

const fromStored = (row: Stored): Sender & { senderName: string } => ({
  channel: row.channel,
  account: row.account,
  senderId: row.sender_id,
  senderName: row.sender_name,
});

const fromCode = (row: StoredCode): PairingRequest => ({
  ...fromStored(row),
  code: row.code,
  address: JSON.parse(row.address) as Address,
  createdAt: row.created_at,
  expiresAt: row.expires_at,
});

const fromPerson = (row: StoredPerson): Person => ({
  ...fromStored(row),
  address: row.address === null ? null : (JSON.parse(row.address) as Address),
  state: row.state,
  at: row.at,
});
