// Set-up in one go, for a person or a script beside the gateway: sections are answered and tried one after the other, and all of it is
// written at once at the end. Until then no file is touched, so whoever leaves in between leaves everything as it was.
import { accountsOf } from "../../config/accounts.ts";
import { type LoadConfigOptions, loadConfig } from "../../config/config.ts";
import { createSettingsEditor } from "../../config/edit.ts";
import { systemClock } from "../../core/clock.ts";
import { AppError } from "../../core/errors.ts";
import { silentLogger } from "../../core/logger.ts";
import { createCredentials } from "../../models/credentials.ts";
import { resolveDefaultModel } from "../../models/resolve.ts";
import type { SectionView, SetupView, Tested, Touched } from "../../web/setup.ts";
import { defaultAgent } from "../agents.ts";
import { CONNECTIONS } from "./connections.ts";
import { joined, type Section, type SetupNow } from "./section.ts";
import { createSections } from "./sections.ts";
import { createTrials } from "./trials.ts";
import { waitingParts } from "./waiting.ts";

export interface DraftOptions extends Pick<LoadConfigOptions, "env" | "cwd"> {
  /** A gateway runs with these settings, and so with their channels. */
  readonly isRunning: boolean;
}

export interface SetupDraft {
  readonly files: SetupView["files"];
  /** The model and the connections, in the order of the menu. */
  readonly sections: readonly SectionView[];
  /** Throws AppError in words when the settings would be refused. */
  test(touched: Touched): Promise<Tested>;
  /** Goes into the files with all else that is kept. */
  keep(touched: Touched): void;
  /** Returns what waits for the next start of a gateway that runs. Throws AppError in words; nothing is written then. */
  write(): readonly string[];
}

/** Throws AppError in words when the settings can't be taken as they are. */
export async function openDraft({ env, cwd, isRunning }: DraftOptions): Promise<SetupDraft> {
  const editor = createSettingsEditor({ env, cwd });
  const loaded = loadConfig({ env, cwd });
  const { config, stateDir } = loaded;
  const now: SetupNow = { files: editor.now(), config };
  const inUse = await modelOf(loaded);
  const all = createSections({
    ...{ config: () => config, clock: systemClock, log: silentLogger, stateDir, inUse: () => inUse },
    ...{ channels: () => (isRunning ? channelsOf(config) : []), mcpStatus: () => [] },
  });
  const asked = all.filter(({ id }) => id === "model" || CONNECTIONS.some((connection) => connection.id === id));
  const views = await Promise.all(asked.map((section) => section.view(now)));
  const trials = createTrials(editor, systemClock);
  const kept = new Map<Section, Touched>();
  const find = (id: string): Section => {
    const section = all.find((one) => one.id === id);
    if (section === undefined) throw new AppError("invalid", "There is no such section.");
    return section;
  };
  const { version } = now.files;
  return {
    files: { settings: now.files.settings.path, dotEnv: now.files.dotEnv.path },
    sections: views,
    async test(touched) {
      const section = find(touched.section);
      return trials.run({ section, touched, edit: section.edit(touched, now), version });
    },
    keep: (touched) => void kept.set(find(touched.section), touched),
    write() {
      const edit = joined([...kept].map(([section, touched]) => section.edit(touched, now)));
      const written = editor.write({ version, ...edit });
      if (written === "stale")
        throw new AppError("invalid", "Somebody has changed the settings or .env meanwhile. Nothing was written; begin again.");
      return waitingParts(config, written.config);
    },
  };
}

async function modelOf({ config, stateDir, env }: ReturnType<typeof loadConfig>): Promise<{ model: string; why: string }> {
  const main = defaultAgent(config).id;
  const settings = { mainAgentId: main, env, configProviders: config.models.providers, isIsolated: () => false };
  const credentials = createCredentials({ stateDir, settings: () => settings });
  return resolveDefaultModel({
    configured: config.agents.defaults.model.primary,
    configProviders: Object.keys(config.models.providers),
    findKey: (provider) => credentials.find(provider, main),
    probe: config.models.probeLocal,
  });
}

/** As far as the settings tell: a bot's id stands in its token. */
const channelsOf = ({ channels }: SetupNow["config"]) =>
  accountsOf(channels)
    .filter(({ settings: { enabled } }) => enabled)
    .map(({ channel: name, settings }) => ({
      name,
      account: "botToken" in settings ? (settings.botToken.split(":")[0] ?? "") : "",
      health: () => ({ state: "on" as const }),
    }));
