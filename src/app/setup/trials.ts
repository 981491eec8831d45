// Trying what would be saved. A test that passed counts for a while for exactly what was tried, so that saving does not make the same
// call twice.
import { createHash } from "node:crypto";
import type { SettingsEditor } from "../../config/edit.ts";
import type { Clock } from "../../core/clock.ts";
import type { Tested, Touched } from "../../web/setup.ts";
import type { Edit, Section } from "./section.ts";

export interface Trials {
  /** Throws AppError in words when the settings would be refused. */
  run(trial: Trial): Promise<Tested>;
  hasPassed(trial: Trial): boolean;
}

export interface Trial {
  readonly section: Section;
  readonly touched: Touched;
  readonly edit: Edit;
  /** Of the files it would change: on others it is another trial. */
  readonly version: string;
}

const TEST_MS = 30_000;
const PASSED_MS = 10 * 60_000;
const MAX_PASSED = 50;

export function createTrials(editor: Pick<SettingsEditor, "check">, clock: Clock): Trials {
  const passed = new Map<string, number>();
  return {
    async run(trial) {
      const { section, touched, edit, version } = trial;
      const candidate = editor.check({ version, ...edit });
      if (section.test === undefined) return { isOk: true, lines: [] };
      const tested = await section.test(candidate, touched, AbortSignal.timeout(TEST_MS));
      if (tested.isOk) remember(passed, digestOf(trial), clock.now());
      return withoutSecrets(tested, edit);
    },
    hasPassed: (trial) => clock.now() - (passed.get(digestOf(trial)) ?? -PASSED_MS) < PASSED_MS,
  };
}

const digestOf = ({ section, edit, version }: Trial): string =>
  createHash("sha256")
    .update(JSON.stringify([section.id, edit, version]))
    .digest("base64url");

function remember(passed: Map<string, number>, digest: string, at: number): void {
  passed.set(digest, at);
  const [oldest] = passed.keys();
  if (passed.size > MAX_PASSED && oldest !== undefined) passed.delete(oldest);
}

/** What was typed is no known secret yet, and a platform may say it back. */
function withoutSecrets(tested: Tested, { secrets }: Edit): Tested {
  const typed = Object.values(secrets).filter((value) => value !== null && value.length >= 4) as string[];
  return { ...tested, lines: tested.lines.map((line) => typed.reduce((text, secret) => text.replaceAll(secret, "(secret)"), line)) };
}
