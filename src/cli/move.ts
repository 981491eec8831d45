// `herald move --to …`: brings an installation from its state folder into PostgreSQL, or back. Nothing that it prints shows the address:
// a password is part of it.
import { uptime } from "node:os";
import { parseArgs } from "node:util";
import { moveInstallation } from "../app/move/move.ts";
import { type LoadedConfig, loadConfig } from "../config/config.ts";
import { storeUrl } from "../config/values.ts";
import { storeSecrets } from "../config/variables.ts";
import { systemClock } from "../core/clock.ts";
import { AppError, errorText } from "../core/errors.ts";
import { createFailpoints } from "../core/failpoints.ts";
import { createSecrets } from "../core/secrets.ts";
import { type Call, EXIT, UsageError } from "./command.ts";

interface Asked {
  readonly to: "postgres" | "embedded";
  readonly url: string;
  readonly isAside: boolean;
}

const isAddress = (text: string): boolean => storeUrl().safeParse(text).success;

/** What parseArgs says of a word it doesn't know repeats it, and that may be the address. */
function parse(args: readonly string[]): { to?: string | undefined; aside?: boolean | undefined } {
  try {
    return parseArgs({ args: [...args], options: { to: { type: "string" }, aside: { type: "boolean" } } }).values;
  } catch {
    return {};
  }
}

function readArguments(args: readonly string[], known: string | undefined): Asked {
  const { to = "", aside: isAside = false } = parse(args);
  if (to === "postgres" || to === "embedded") {
    if (known === undefined) throw new AppError("invalid", "Set store.url, or DATABASE_URL in .env, to the address of the database first.");
    return { to, url: known, isAside };
  }
  if (!isAddress(to)) throw new UsageError("");
  return { to: "postgres", url: to, isAside };
}

/** What to change in the settings now. */
function closing({ to, url }: Asked, { config, path, stateDir }: LoadedConfig): string {
  if (to === "embedded")
    return `Done. The database in PostgreSQL is as it was, and no Herald starts on it any more. Now take store.url out of ${path} and DATABASE_URL out of .env, and start Herald on this machine alone.`;
  const next =
    config.store.url === url
      ? "store.url (or DATABASE_URL) names this database already: start Herald."
      : `Now set store.url in ${path}, or DATABASE_URL in .env, to this address, and start Herald.`;
  return `Done. The state folder ${stateDir} is as it was, and no Herald starts on it without store.url any more. ${next}`;
}

export async function move({ words, terminal }: Call): Promise<number> {
  const secrets = createSecrets();
  const hide = (url: string | undefined): void => {
    for (const { name, value } of storeSecrets(url)) secrets.add(name, value);
  };
  const say = (line: string): void => terminal.say(secrets.redact(line));
  try {
    const loaded = loadConfig({ env: terminal.env, cwd: terminal.cwd });
    hide(loaded.config.store.url);
    const asked = readArguments(words, loaded.config.store.url);
    hide(asked.url);
    await moveInstallation({
      ...{ ...asked, stateDir: loaded.stateDir, clock: systemClock, say },
      failpoint: createFailpoints(terminal.env.HERALD_FAILPOINT, () => process.kill(process.pid, "SIGKILL")),
      steady: () => uptime() * 1000,
    });
    say(closing(asked, loaded));
    return EXIT.fine;
  } catch (error) {
    throw error instanceof UsageError ? error : new Error(secrets.redact(errorText(error)));
  }
}
