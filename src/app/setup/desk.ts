// Set-up, put together: sections → what would be written → tried → written → in force.
import type { LoadConfigOptions, LoadedConfig } from "../../config/config.ts";
import { createSettingsEditor, type SettingsChange } from "../../config/edit.ts";
import { showPath } from "../../config/problems.ts";
import { AppError } from "../../core/errors.ts";
import type { FieldValue, Saved, SetupDesk, Touched } from "../../web/setup.ts";
import type { Base } from "../base.ts";
import type { Edit, Section, SetupNow } from "./section.ts";
import { createSections, type SectionsDeps } from "./sections.ts";
import { createTrials, type Trial } from "./trials.ts";
import { waitingParts } from "./waiting.ts";

/** What the process hands in: where its files are found, and how it takes them up. */
export interface SettingsAccess extends Pick<LoadConfigOptions, "env" | "cwd"> {
  /** Takes the files up now; what they hold has been checked. */
  reload(): void;
  /** Ends gracefully and begins anew; null where it can't. */
  readonly restart: (() => void) | null;
}

export interface SetupDeps extends SectionsDeps, Pick<Base, "secrets"> {
  readonly access: SettingsAccess;
  readonly atStart: LoadedConfig["config"];
  /** The name of this machine among several; null alone. */
  readonly machine: string | null;
}

export function createSetupDesk(deps: SetupDeps): SetupDesk {
  const { access, clock, log } = deps;
  const editor = createSettingsEditor(access);
  const sections = createSections(deps);
  const trials = createTrials(editor, clock);
  const nowOf = (): SetupNow => ({ files: editor.now(), config: deps.config() });
  const find = (id: string): Section => {
    const section = sections.find((one) => one.id === id);
    if (section === undefined) throw new AppError("invalid", "There is no such section.");
    return section;
  };
  const prepare = async (sent: Touched): Promise<Trial> => {
    const section = find(sent.section);
    const now = nowOf();
    const touched = await restored(sent, section, now, deps.secrets);
    return { section, touched, edit: section.edit(touched, now), version: now.files.version };
  };
  const waiting = (): string[] => waitingParts(deps.atStart, deps.config());

  const write = (section: string, item: string | null, change: SettingsChange): Saved => {
    const before = deps.config();
    const written = editor.write(change);
    if (written === "stale") return { outcome: "stale" };
    for (const { name, value } of written.secrets) deps.secrets.add(name, value);
    log.info({ audit: "settings changed", section, item, ...namesOf(change) }, "settings were changed from the page");
    access.reload();
    const changed = waitingParts(before, deps.config());
    return { outcome: "saved", waiting: waiting().filter((part) => changed.includes(part)) };
  };

  return {
    async view() {
      const now = nowOf();
      const { files } = now;
      return {
        version: files.version,
        machine: deps.machine,
        files: { settings: files.settings.path, dotEnv: files.dotEnv.path },
        problem: files.problem,
        waiting: waiting(),
        canRestart: access.restart !== null,
        sections: await Promise.all(sections.map((section) => section.view(now))),
      };
    },
    async test(sent) {
      return trials.run(await prepare(sent));
    },
    async save({ version, isInsisted, ...sent }) {
      const trial = await prepare(sent);
      editor.check({ version, ...trial.edit });
      if (!isInsisted && !trials.hasPassed(trial)) {
        const tested = await trials.run(trial);
        if (!tested.isOk) return { outcome: "failed", tested };
      }
      return write(sent.section, sent.item, { version, ...trial.edit });
    },
    async remove({ section: id, item, version }) {
      const section = find(id);
      if (section.remove === undefined) throw new AppError("invalid", "Nothing can be removed here.");
      return write(id, item, { version, ...section.remove(item, nowOf()) });
    },
    async reload() {
      access.reload();
      return { problem: editor.now().problem, waiting: waiting() };
    },
    async restart() {
      if (access.restart === null) return false;
      // It would end, and nobody would be there to start it again.
      const { problem } = editor.now();
      if (problem !== null) throw new AppError("config", `Herald would not come back with these settings. ${problem}`);
      log.info({ audit: "restart" }, "Herald is started anew from the page");
      access.restart();
      return true;
    },
  };
}

/**
 * A setting with a known secret in it is shown with the secret's name in its place, and comes back so when something beside it was
 * changed: written like that, the secret would be lost.
 */
async function restored(touched: Touched, section: Section, now: SetupNow, secrets: SetupDeps["secrets"]): Promise<Touched> {
  if (!JSON.stringify(touched.values).includes("[")) return touched;
  const view = await section.view(now);
  const fields = view.items.find(({ id }) => id === touched.item)?.fields ?? view.blank?.fields ?? [];
  const restore = (name: string, text: string): string => {
    const shown = fields.find((field) => field.name === name);
    if (shown === undefined || shown.kind === "secret") return text;
    const { text: whole, unknown } = secrets.restore(text, [shown.value].flat().join("\n"));
    if (unknown.length > 0)
      throw new AppError("invalid", `${shown.label}: ${unknown.join(", ")} stands for a secret; write \${NAME} for a variable of .env.`);
    return whole;
  };
  const one = (name: string, value: FieldValue): FieldValue =>
    typeof value === "string" ? restore(name, value) : Array.isArray(value) ? value.map((entry: string) => restore(name, entry)) : value;
  return { ...touched, values: Object.fromEntries(Object.entries(touched.values).map(([name, value]) => [name, one(name, value)])) };
}

/** What was changed, for the log: names and no values. */
const namesOf = ({ set, remove, secrets }: Edit) => ({
  paths: [...set.map(({ path }) => path), ...remove].map(showPath),
  variables: Object.entries(secrets).map(([name, value]) => `${name} ${value === null ? "removed" : "set"}`),
});
