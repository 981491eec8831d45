// `herald service`: the gateway as a systemd unit, printed or written to its place. Starting it is the operator's word to systemd.
import { existsSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
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
  const user = textOf(call, "as");
  if (user !== undefined && !USER.test(user)) throw new UsageError("--as is the name of a user of this machine.");
  const { env, cwd } = terminal;
  const text = unitOf(loadConfig({ env, cwd }), call, user);
  if (!isSet(call, "install")) {
    terminal.write(text);
    return EXIT.fine;
  }
  const home = env.XDG_CONFIG_HOME || join(env.HOME || homedir(), ".config");
  const path = user === undefined ? join(home, "systemd/user", NAME) : join("/etc/systemd/system", NAME);
  place(path, text);
  const systemctl = user === undefined ? "systemctl --user" : "systemctl";
  terminal.say(`${path} is written. Now: ${systemctl} daemon-reload && ${systemctl} enable --now herald`);
  if (user === undefined) terminal.say("So that it also runs while you are not logged in: loginctl enable-linger");
  return EXIT.fine;
}

function unitOf({ config, stateDir }: LoadedConfig, { terminal }: Call, user: string | undefined): string {
  const program = fileURLToPath(ownFile("src/herald.js"));
  // What `npx` fetched lies where npm tidies up.
  if (program.includes("/_npx/"))
    throw new AppError(
      "invalid",
      `${program} is in npm's cache and may be gone one day: npm install --global herald, then herald service.`,
    );
  const { HERALD_CONFIG } = terminal.env;
  const workspaces = [config.agents.defaults.workspace, ...config.agents.list.map(({ workspace }) => workspace)].filter(
    (path) => path !== undefined,
  );
  const touched = [terminal.cwd, program, process.execPath, stateDir, ...workspaces];
  return unitText({
    node: process.execPath,
    program,
    folder: terminal.cwd,
    env: { HERALD_STATE_DIR: stateDir, ...(HERALD_CONFIG === undefined ? {} : { HERALD_CONFIG }) },
    stopSeconds: config.gateway.drainSeconds + SPARE_SECONDS,
    system:
      user === undefined
        ? null
        : {
            user,
            writes: [...new Set([stateDir, ...workspaces])],
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
