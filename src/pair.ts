// `npm run pair -- CODE`: lets in the person who was shown this code. Works beside a running gateway, which looks the
// person up anew at every message; without a code it lists those that wait.
import { existsSync } from "node:fs";
import { join } from "node:path";
import { findStateDir } from "./config/config.ts";
import { systemClock } from "./core/clock.ts";
import { errorText } from "./core/errors.ts";
import { openDatabase } from "./stores/database.ts";
import { createPairing } from "./stores/pairing.ts";

function pair(code: string | undefined): string {
  const stateDir = findStateDir({ env: process.env, cwd: process.cwd() });
  const path = join(stateDir, "herald.db");
  if (!existsSync(path)) throw new Error(`Herald has not been started with this state folder yet: ${stateDir}`);
  const db = openDatabase({ path });
  try {
    const pairing = createPairing({ db, clock: systemClock });
    const name = (one: { senderName: string; senderId: string; channel: string }): string =>
      `${one.senderName || "somebody"} (${one.channel} ${one.senderId})`;
    if (code === undefined) {
      const waiting = pairing.listPending().map((one) => `${one.code}  ${name(one)}`);
      return waiting.length === 0 ? "Nobody is waiting." : waiting.join("\n");
    }
    const approved = pairing.approve(code);
    if (approved === null) throw new Error(`There is no pairing code ${JSON.stringify(code.slice(0, 20))}; codes live for one hour.`);
    return `${name(approved)} may now talk to Herald. Tell them: it answers from their next message on.`;
  } finally {
    db.close();
  }
}

try {
  process.stdout.write(`${pair(process.argv[2])}\n`);
} catch (error) {
  process.stderr.write(`${errorText(error)}\n`);
  process.exitCode = 1;
}
