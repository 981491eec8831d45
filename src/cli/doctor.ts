// `herald doctor`: what is looked at, and how it is told. Exit code 1 when something has to be done before it can work.
import { findStateDir, type LoadedConfig, loadConfig } from "../config/config.ts";
import { errorText } from "../core/errors.ts";
import { visibleLine } from "../core/visible-text.ts";
import type { ChannelStanding } from "../web/live.ts";
import { type Call, EXIT, isSet, UsageError } from "./command.ts";
import { type Finding, fail, ok, warn } from "./finding.ts";
import { findGateway, isServing } from "./gateway.ts";
import { checkClock, checkDatabase, checkDisk, checkFolder, checkPort, checkRuntime, checkSandbox, checkSearch } from "./machine-checks.ts";
import { whyForeign } from "./state-folder.ts";
import type { Terminal } from "./terminal.ts";

const SIGN = { ok: "✓", warn: "!", fail: "✗" } as const;
const COLOUR = { ok: "green", warn: "yellow", fail: "red" } as const;
const LONGEST = 500;

export async function doctor(call: Call): Promise<number> {
  const { terminal } = call;
  if (call.words.length > 0) throw new UsageError("doctor takes no further words.");
  const findings = await examine(terminal, isSet(call, "online"));
  for (const finding of findings) terminal.say(isSet(call, "json") ? JSON.stringify(finding) : lineOf(finding, terminal));
  return findings.some(({ level }) => level === "fail") ? EXIT.failed : EXIT.fine;
}

const INDENT = " ".repeat(7);

const lineOf = ({ name, level, text, remedy }: Finding, { paint, broken }: Terminal): string => {
  const sign = `${SIGN[level]} ${level.padEnd(4)}`;
  const words = broken(`${sign} ${name}: ${visibleLine(text, LONGEST)}${remedy === "" ? "" : `\n${remedy}`}`, INDENT);
  return `${paint(COLOUR[level], sign)}${words.slice(sign.length)}`;
};

async function examine(terminal: Terminal, isOnline: boolean): Promise<Finding[]> {
  const at = { env: terminal.env, cwd: terminal.cwd };
  const stateDir = findStateDir(at);
  const { loaded, findings } = checkSettings(at);
  const foreign = whyForeign(stateDir);
  const state =
    foreign === null
      ? [checkFolder(stateDir), checkClock(stateDir), await checkDatabase(stateDir)]
      : [fail("state folder", foreign.text, foreign.remedy)];
  const machine = [checkRuntime(), checkDisk(stateDir), ...state];
  if (loaded === null) return [...machine, ...findings];
  const { checkChannels, checkKeys, checkPostgres } = await import("./settings-checks.ts");
  const { web, tools } = loaded.config;
  // In a folder that can't be looked into nobody knows whose port, keys and gateway these are.
  const isServed = foreign === null && web.enabled && (await isServing(terminal));
  const now = isServed ? await channelsNow(terminal) : { standings: [], findings: [] };
  const [sandbox, search, keys, port, channels, postgres] = await Promise.all([
    checkSandbox(tools.exec.unsandboxed),
    checkSearch(),
    foreign === null ? checkKeys(loaded, isOnline) : [],
    foreign !== null ? [] : web.enabled ? [await checkPort(web, isServed)] : [ok("port", "the page is off")],
    checkChannels(loaded, { isOnline, standings: now.standings }),
    checkPostgres(loaded),
  ]);
  return [...machine, sandbox, search, ...findings, ...keys, ...now.findings, ...channels, ...port, ...postgres];
}

async function channelsNow(terminal: Terminal): Promise<{ standings: readonly ChannelStanding[]; findings: Finding[] }> {
  const { presentOf } = await import("./status.ts");
  try {
    const { status } = await presentOf(findGateway(terminal));
    return { standings: status?.channels ?? [], findings: [] };
  } catch (error) {
    const unknown = warn("channels", `the gateway that runs does not say how they stand: ${errorText(error)}`, "Try again.");
    return { standings: [], findings: [unknown] };
  }
}

/** What is to be done about rights stands behind the colon. */
function ofWarning(warning: string): Finding {
  const [text = "", todo] = warning.split(/: (?=chmod )/);
  return warn("settings", text, todo === undefined ? "Look at it in the settings." : `${todo}.`);
}

function checkSettings(at: Parameters<typeof loadConfig>[0]): { loaded: LoadedConfig | null; findings: Finding[] } {
  try {
    const loaded = loadConfig(at);
    const where = loaded.found ? loaded.path : "defaults";
    const warnings = loaded.found ? loaded.warnings : loaded.warnings.filter((text) => !text.startsWith("no settings file"));
    return { loaded, findings: [ok("settings", where), ...warnings.map(ofWarning)] };
  } catch (error) {
    return { loaded: null, findings: [fail("settings", errorText(error), "Correct the file; config/herald.json5 shows every setting.")] };
  }
}
