// Other settings for a process that runs, so that a test needs none of its own for them.
import { type Harness, writeConfig } from "./harness.ts";
import { waitFor } from "./wait.ts";

/** Resolves when they are taken. Some wait for the next start (main.ts says which). */
export async function reload(herald: Pick<Harness, "members">, config: Record<string, unknown>): Promise<void> {
  await Promise.all(herald.members.map((one) => reloadOne(one, config)));
}

async function reloadOne(herald: Harness, config: Record<string, unknown>): Promise<void> {
  const taken = (): number => herald.output().split("settings reloaded").length;
  const before = taken();
  writeConfig(herald, config);
  process.kill(herald.pid(), "SIGHUP");
  await waitFor("the new settings", () => taken() > before);
}
