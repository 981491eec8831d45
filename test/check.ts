// `npm run lint` and `npm run check`: what looks at the code, side by side, because each alone leaves cores idle. Prints
// what each one said when it is done; fails when one of them fails.
import { spawn } from "node:child_process";
import { text } from "node:stream/consumers";
import { styleText } from "node:util";

const LINT = ["biome check .", "tsc", "knip --cache"];
const UNIT = "vitest run --config test/vitest.config.ts --project unit";

/** Resolves with true when the command succeeded; its words are printed in one piece. */
async function run(command: string): Promise<boolean> {
  const startedAt = performance.now();
  // Together on one pipe, so that they stay in the order they were said.
  const child = spawn(`${command} 2>&1`, {
    shell: true,
    stdio: ["ignore", "pipe", "inherit"],
    env: process.stdout.isTTY ? { ...process.env, FORCE_COLOR: "1" } : process.env,
  });
  const closed = new Promise<number | null>((resolve) => child.once("close", resolve));
  const said = await text(child.stdout);
  const ok = (await closed) === 0;
  const seconds = ((performance.now() - startedAt) / 1000).toFixed(1);
  process.stdout.write(`${styleText(ok ? "green" : "red", `${ok ? "✓" : "✗"} ${command}`)} (${seconds} s)\n${said}`);
  return ok;
}

const results = await Promise.all((process.argv.includes("--lint") ? LINT : [...LINT, UNIT]).map(run));
process.exitCode = results.every(Boolean) ? 0 : 1;
