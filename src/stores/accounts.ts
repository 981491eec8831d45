// Which account a channel speaks for, where only the platform can say so (Slack: the workspace). It is remembered, so that
// the next start knows whose waiting rows are its own before the network answers.
import type { Database, Tx } from "./database.ts";
import { lock } from "./lock-keys.ts";

export interface Accounts {
  /** The account this channel had last; null: the platform was never asked. */
  last(channel: string): Promise<string | null>;
  /**
   * The platform has said which account it is. What is looked up by account (who is paired, which updates came already) and
   * stands under one of its former names goes along; addresses keep the name they were pinned with, which still finds the
   * channel (Channel.formerly).
   */
  adopt(channel: string, account: string, former: readonly string[]): Promise<void>;
}

/** Table and the column that, with channel and account, names a row. */
const MOVED = [
  ["people", "sender_id"],
  ["pairing_codes", "sender_id"],
  ["inbox", "external_id"],
] as const;

export function createAccounts({ db }: { db: Database }): Accounts {
  const last = async (channel: string): Promise<string | null> =>
    (await db.get<{ account: string }>("SELECT account FROM channel_account WHERE channel = ?", channel))?.account ?? null;
  return {
    last,
    async adopt(channel, account, former) {
      await db.transaction([lock.accounts], async (tx) => {
        for (const name of former) if (name !== account) await move(tx, channel, name, account);
        if ((await last(channel)) === account) return;
        await tx.run(
          "INSERT INTO channel_account (channel, account) VALUES (?, ?) ON CONFLICT (channel) DO UPDATE SET account = excluded.account",
          channel,
          account,
        );
      });
    },
  };
}

async function move(tx: Tx, channel: string, from: string, to: string): Promise<void> {
  for (const [table, column] of MOVED) {
    // Known under both names: the newer row stands.
    await tx.run(
      `DELETE FROM ${table} WHERE channel = ? AND account = ? AND ${column} IN (SELECT ${column} FROM ${table} WHERE channel = ? AND account = ?)`,
      ...[channel, from, channel, to],
    );
    await tx.run(`UPDATE ${table} SET account = ? WHERE channel = ? AND account = ?`, to, channel, from);
  }
}
