// `herald backup` and `herald restore`: one file for everything of an installation, and back.
import { constants, copyFileSync, existsSync, mkdirSync } from "node:fs";
import { dirname, join, resolve } from "node:path";
import { backUp } from "../app/backup/backup.ts";
import { SETTINGS_FOLDER } from "../app/backup/manifest.ts";
import { restore as restoreFile } from "../app/backup/restore.ts";
import { type LoadedConfig, loadConfig } from "../config/config.ts";
import { AppError } from "../core/errors.ts";
import type { Comeback } from "../stores/snapshot.ts";
import { type Call, EXIT, isSet, UsageError } from "./command.ts";
import { stateFolderOf } from "./state-folder.ts";

const SETTINGS = "herald.json5";
const ENV = ".env";

const fileOf = ({ words: [file = "", ...rest], terminal }: Call): string => {
  if (file === "" || rest.length > 0) throw new UsageError("Name one file.");
  return resolve(terminal.cwd, file);
};

export async function backup(call: Call): Promise<number> {
  const { terminal, version } = call;
  const target = fileOf(call);
  const loaded = loadConfig({ env: terminal.env, cwd: terminal.cwd });
  const { config } = loaded;
  if (config.store.url !== undefined)
    throw new AppError("state", "This installation is in PostgreSQL: back that up with pg_dump, which can be done while Herald runs.");
  const stateDir = stateFolderOf(terminal);
  if (!existsSync(join(stateDir, "herald.db")))
    throw new AppError("state", `Herald has not been started with the state folder ${stateDir} yet: there is nothing to back up.`);
  const withSecrets = isSet(call, "with-secrets");
  const settings = settingsOf(loaded, terminal.cwd, withSecrets);
  const counter = counterOn(terminal);
  const report = await backUp({
    stateDir,
    target,
    settings: settings.taken,
    withSecrets,
    version,
    now: Date.now(),
    signal: terminal.ended,
    onFile: counter.show,
  }).finally(counter.close);
  terminal.say(`${target}: ${report.files} files, ${sizeOf(report.bytes)}.`);
  if (!loaded.found)
    terminal.say(
      `No settings in it: there are none at ${loaded.path}. If Herald has some, take the backup in the folder it is started in, or set HERALD_CONFIG.`,
    );
  const left = [...report.leftOut.map((path) => join(stateDir, path)), ...settings.left];
  if (left.length > 0) terminal.say(`Left out because of the secrets in them (--with-secrets takes them): ${left.join(", ")}.`);
  if (report.gone > 0) terminal.say(`Removed while it was made, and not in it: ${report.gone} files.`);
  if (report.unreadable > 0)
    terminal.say(
      `Left out because they can't be read: ${report.unreadable} files and folders in workspaces, ${report.firstUnreadable} first.`,
    );
  const { length, 0: first } = report.unfollowed;
  if (length > 0)
    terminal.say(`Not in it: ${length} links, pipes or sockets, nor what they lead to, ${join(stateDir, first ?? "")} first.`);
  return EXIT.fine;
}

const sizeOf = (bytes: number): string => (bytes < 1e6 ? `${Math.ceil(bytes / 1e3)} kB` : `${(bytes / 1e6).toFixed(1)} MB`);

const SHOWN_EVERY_MS = 200;
/** Where a person looks on, how far it is, in a line that is gone at the end. */
function counterOn({ isLive, write }: Call["terminal"]) {
  let shownAt = performance.now();
  return {
    show(at: number, of: number, what = ""): void {
      if (!isLive || performance.now() - shownAt < SHOWN_EVERY_MS) return;
      shownAt = performance.now();
      write(`\r\u001b[K${at} of ${of} files${what}`);
    },
    close: (): void => {
      if (isLive) write("\r\u001b[K");
    },
  };
}

/** The settings themselves may hold secrets that are not taken from a variable. */
function settingsOf({ path, found, secrets }: LoadedConfig, cwd: string, withSecrets: boolean) {
  const env = join(cwd, ENV);
  const files = [
    { name: SETTINGS, path, isThere: found, isSecret: secrets.some(({ isLiteral }) => isLiteral) },
    { name: ENV, path: env, isThere: existsSync(env), isSecret: true },
  ].filter(({ isThere }) => isThere);
  const isTaken = ({ isSecret }: { isSecret: boolean }): boolean => withSecrets || !isSecret;
  return { taken: files.filter(isTaken), left: files.filter((file) => !isTaken(file)).map((file) => file.path) };
}

export async function restore(call: Call): Promise<number> {
  const { terminal } = call;
  const file = fileOf(call);
  const stateDir = stateFolderOf(terminal);
  const counter = counterOn(terminal);
  const onFile = (what: string, at: number, of: number): void => counter.show(at, of, ` ${what}`);
  const { manifest, comeback } = await restoreFile({ file, stateDir, signal: terminal.ended, onFile }).finally(counter.close);
  terminal.say(`${stateDir} is as it was on ${manifest.at} (Herald ${manifest.herald}): ${manifest.files.length} files.`);
  for (const line of comebackLines(comeback)) terminal.say(line);
  for (const line of placeSettings(stateDir, terminal)) terminal.say(line);
  if (!manifest.withSecrets)
    terminal.say("Keys and tokens were not in it: put them into .env, or set them with herald auth, before you start Herald.");
  terminal.say("Look at this first, then: herald start.");
  return EXIT.fine;
}

/** What was since delivered, revoked or answered comes back as it was then. */
function comebackLines(now: Comeback): string[] {
  const counted: [number, string][] = [
    [now.people, "people who may talk to it (herald pair revoke)"],
    [now.browsers, "browsers on record, which are signed in only if the page's token is the same"],
    [now.tokens, "tokens of other programs, which open /mcp again (herald token revoke)"],
    [now.rules, "tools that are always allowed (/approvals revoke)"],
    [now.questions, "open questions"],
    [now.unfinished, "sub-agents that will go on"],
    [now.unanswered, "messages that will be answered"],
    [now.unsent, "messages that will be sent, or looked up first where the platform can be asked"],
  ];
  return [
    "With the first start come back, also if you have since revoked or settled it:",
    ...counted.map(([count, what]) => `  ${count} ${what}`),
  ];
}

/** Into their place where that is free; else they stay beside. */
function placeSettings(stateDir: string, { env, cwd }: Call["terminal"]): string[] {
  const places: [string, string][] = [
    [SETTINGS, resolve(cwd, env.HERALD_CONFIG || join("config", SETTINGS))],
    [ENV, join(cwd, ENV)],
  ];
  return places.flatMap(([name, place]) => {
    const from = join(stateDir, SETTINGS_FOLDER, name);
    if (!existsSync(from)) return [];
    if (existsSync(place)) return [`${place} is there and stays; the one of the backup is ${from}.`];
    mkdirSync(dirname(place), { recursive: true });
    copyFileSync(from, place, constants.COPYFILE_EXCL);
    return [`${place} is the one of the backup.`];
  });
}
