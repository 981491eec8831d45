// `herald service`: the gateway as a systemd unit, printed or written to its place. Starting it is the operator's word to systemd.
import { execFileSync } from "node:child_process";
import { chownSync, existsSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { homedir } from "node:os";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { type LoadedConfig, loadConfig } from "../config/config.ts";
import { AppError, errorText } from "../core/errors.ts";
import { ownFile } from "../core/own-files.ts";
import { type Call, EXIT, isSet, textOf, UsageError } from "./command.ts";
import { unitText } from "./unit-file.ts";

const NAME = "herald.service";
/** Beside the time that turns are given: rows, sockets, the database. */
const SPARE_SECONDS = 15;
const USER = /^[a-z_][a-z0-9_-]{0,31}$/;

export async function service(call: Call): Promise<number> {
  const { terminal } = call;
  if (call.words.length > 0) throw new UsageError("service takes no further words.");
  const name = textOf(call, "as");
  if (name !== undefined && !USER.test(name)) throw new UsageError("--as is the name of a user of this machine.");
  const user = name === undefined ? null : findUser(name);
  const { env, cwd } = terminal;
  // Under sudo HOME is root's: the folder would be one that the user can't even enter.
  const loaded = loadConfig({ env: user === null ? env : { ...env, HOME: user.home }, cwd });
  const text = unitOf(loaded, call, user);
  if (!isSet(call, "install")) {
    terminal.write(text);
    return EXIT.fine;
  }
  const home = env.XDG_CONFIG_HOME || join(env.HOME || homedir(), ".config");
  const path = user === null ? join(home, "systemd/user", NAME) : join("/etc/systemd/system", NAME);
  place(path, text);
  for (const folder of user === null ? [] : writtenBy(loaded)) giveFolder(folder, user);
  const systemctl = user === null ? "systemctl --user" : "systemctl";
  terminal.say(`${path} is written. Now: ${systemctl} daemon-reload && ${systemctl} enable --now herald`);
  if (user === null) terminal.say("So that it also runs while you are not logged in: loginctl enable-linger");
  return EXIT.fine;
}

export interface UnitUser {
  readonly name: string;
  readonly uid: number;
  readonly gid: number;
  readonly home: string;
}

/** Also one that no file of this machine names (LDAP and the like). Throws AppError("invalid"). */
function findUser(name: string): UnitUser {
  try {
    const [, , uid, gid, , home = ""] = execFileSync("getent", ["passwd", name], { encoding: "utf8", stdio: "pipe" }).trim().split(":");
    if (home !== "") return { name, uid: Number(uid), gid: Number(gid), home };
  } catch {
    // None, or nobody to ask.
  }
  throw new AppError(
    "invalid",
    `This machine has no user ${name} with a home folder. Make one first: sudo useradd --system --create-home ${name}`,
  );
}

/** systemd starts nothing whose writable folders are not there. One that is there stays as it is. */
export function giveFolder(path: string, user: UnitUser | null): void {
  if (user === null || existsSync(path)) return;
  const made = mkdirSync(path, { recursive: true, mode: 0o700 });
  for (let at = path; made !== undefined; at = dirname(at)) {
    chownSync(at, user.uid, user.gid);
    if (at === made) return;
  }
}

const workspacesOf = ({ config }: LoadedConfig): string[] =>
  [config.agents.defaults.workspace, ...config.agents.list.map(({ workspace }) => workspace)].filter((path) => path !== undefined);
const writtenBy = (loaded: LoadedConfig): string[] => [...new Set([loaded.stateDir, ...workspacesOf(loaded)])];

function unitOf(loaded: LoadedConfig, { terminal }: Call, user: UnitUser | null): string {
  const { config, stateDir } = loaded;
  const program = fileURLToPath(ownFile("src/herald.js"));
  // What `npx` fetched lies where npm tidies up.
  if (program.includes("/_npx/"))
    throw new AppError(
      "invalid",
      `${program} is in npm's cache and may be gone one day: npm install --global herald, then herald service.`,
    );
  const { HERALD_CONFIG } = terminal.env;
  const touched = [terminal.cwd, program, process.execPath, ...writtenBy(loaded)];
  return unitText({
    node: process.execPath,
    program,
    folder: terminal.cwd,
    env: { HERALD_STATE_DIR: stateDir, ...(HERALD_CONFIG === undefined ? {} : { HERALD_CONFIG }) },
    stopSeconds: config.gateway.drainSeconds + SPARE_SECONDS,
    system:
      user === null
        ? null
        : {
            user: user.name,
            writes: writtenBy(loaded),
            isInHome: touched.some((path) => /^\/(?:home|root|run\/user)(?:\/|$)/.test(path)),
          },
  });
}

/** One that is there and says something else may have been changed by hand. */
function place(path: string, text: string): void {
  if (existsSync(path) && readFileSync(path, "utf8") === text) return;
  if (existsSync(path))
    throw new AppError(
      "invalid",
      `${path} is there and says something else; it stays. Remove it first, or change it by hand: herald service prints what this would write.`,
    );
  try {
    mkdirSync(dirname(path), { recursive: true });
    writeFileSync(path, text, { flag: "wx", mode: 0o644 });
  } catch (error) {
    throw new AppError("state", `${path} can't be written: ${errorText(error)}. Run it with sudo for a unit of the system.`, {
      cause: error,
    });
  }
}
