// All sections of set-up, made with what they need: the page's desk and the command line ask the same ones.
import { createCredentials } from "../../models/credentials.ts";
import { defaultAgent } from "../agents.ts";
import type { Base } from "../base.ts";
import { createModelTrial } from "../models.ts";
import { agentsSection } from "./agents-section.ts";
import { createConnectionSections } from "./channel-sections.ts";
import type { ConnectionDeps } from "./connections.ts";
import { limitsSection } from "./limits-section.ts";
import { createMcpSection, type McpSectionDeps } from "./mcp-section.ts";
import { createModelSection, type ModelSectionDeps } from "./model-section.ts";
import type { Section } from "./section.ts";

export interface SectionsDeps extends Pick<Base, "config" | "clock" | "log" | "stateDir"> {
  inUse: ModelSectionDeps["inUse"];
  channels: ConnectionDeps["channels"];
  mcpStatus: McpSectionDeps["status"];
}

/** In the order of the menu. */
export const createSections = (deps: SectionsDeps): Section[] => [
  createModelSection({ inUse: deps.inUse, keyFile: (provider) => findKeyFile(deps, provider), tryModel: createModelTrial(deps) }),
  ...createConnectionSections(deps),
  createMcpSection({ clock: deps.clock, log: deps.log, status: deps.mcpStatus }),
  agentsSection,
  limitsSection,
];

function findKeyFile({ config, stateDir }: SectionsDeps, provider: string): string | null {
  const main = defaultAgent(config()).id;
  const settings = { mainAgentId: main, env: {}, configProviders: {}, isIsolated: () => true };
  try {
    return createCredentials({ stateDir, settings: () => settings }).find(provider, main)?.source.name ?? null;
  } catch {
    // A damaged file is told of by whoever needs a key from it.
    return null;
  }
}
