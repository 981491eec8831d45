// What `herald doctor` looks at on this machine: runtime, sandbox, disk, rights, clock, database, port.
import { accessSync, constants, existsSync, readdirSync, readFileSync, readlinkSync, statfsSync, statSync } from "node:fs";
import { createServer } from "node:net";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { errorText } from "../core/errors.ts";
import { silentLogger } from "../core/logger.ts";
import { ownFile, ownFolder } from "../core/own-files.ts";
import { type Finding, fail, ok, warn } from "./finding.ts";

const MB = 1e6;
const LITTLE_BYTES = 1_000 * MB;
const TOO_LITTLE_BYTES = 100 * MB;
const FEW_INODES = 10_000;

export function checkRuntime(): Finding {
  const { node } = process.versions;
  const isOwn = process.execPath.startsWith(join(ownFolder, "node_modules/"));
  return ok("runtime", `Node ${node}${isOwn ? ", the one that came along" : ""}, ${process.platform} ${process.arch}`);
}

export async function checkSandbox(isUnsandboxed: boolean): Promise<Finding> {
  const { detectSandbox } = await import("../tools/sandbox.ts");
  const sandbox = await detectSandbox({ log: silentLogger });
  if (sandbox.available) return ok("sandbox", `${sandbox.kind} ${sandbox.version} works`);
  if (isUnsandboxed)
    return warn("sandbox", "commands run without one (tools.exec.unsandboxed)", "Take the setting out on a host you can't lose.");
  return warn("sandbox", `none: ${sandbox.reason}; the tool exec is off`, `To have it: ${sandbox.howTo}.`);
}

export async function checkSearch(): Promise<Finding> {
  const { findRipgrep } = await import("../tools/ripgrep.ts");
  const path = await findRipgrep();
  if (path !== null) return ok("search", path);
  return warn("search", "ripgrep is missing; the tool search finds nothing without it", "Install it: apt-get install ripgrep.");
}

export function checkDisk(stateDir: string): Finding {
  const at = nearestFolder(stateDir);
  const { bavail, bsize, files, ffree } = statfsSync(at);
  const free = bavail * bsize;
  const text = `${free < 10_000 * MB ? `${Math.floor(free / MB)} MB` : `${Math.floor(free / 1000 / MB)} GB`}${files === 0 ? "" : ` and ${ffree} files`} free at ${at}`;
  const remedy = "Make room there, or set HERALD_STATE_DIR to a larger disk.";
  if (free < TOO_LITTLE_BYTES || (files > 0 && ffree < FEW_INODES / 10)) return fail("disk", text, remedy);
  return free < LITTLE_BYTES || (files > 0 && ffree < FEW_INODES) ? warn("disk", text, remedy) : ok("disk", text);
}

const nearestFolder = (path: string): string => (existsSync(path) || dirname(path) === path ? path : nearestFolder(dirname(path)));

export function checkFolder(stateDir: string): Finding {
  const stat = statSync(stateDir, { throwIfNoEntry: false });
  if (stat === undefined) return ok("state folder", `${stateDir} is made by the first start`);
  if (!stat.isDirectory()) return fail("state folder", `${stateDir} is no folder`, "Set HERALD_STATE_DIR to one, or move the file away.");
  try {
    accessSync(stateDir, constants.R_OK | constants.W_OK | constants.X_OK);
  } catch {
    return fail(
      "state folder",
      `${stateDir} can't be written by this user`,
      "Make it this user's: chown -R it, or start Herald as its owner.",
    );
  }
  if ((stat.mode & 0o077) !== 0)
    return warn("state folder", `others on this machine can look into ${stateDir}`, `chmod 700 ${stateDir}; the next start does it, too.`);
  return ok("state folder", `${stateDir}, for its owner only`);
}

/** What was written is never later than now, and this program not older than itself. */
export function checkClock(stateDir: string): Finding {
  const known = [join(stateDir, "herald.db"), fileURLToPath(ownFile("package.json"))];
  const latest = Math.max(0, ...known.map((path) => statSync(path, { throwIfNoEntry: false })?.mtimeMs ?? 0));
  const now = Date.now();
  if (latest > now + 60_000)
    return fail(
      "clock",
      `it says ${new Date(now).toISOString()}, but files were written at ${new Date(latest).toISOString()}`,
      "Set the clock (timedatectl set-ntp true): times, limits by the day and keys depend on it.",
    );
  return ok("clock", new Date(now).toISOString());
}

export async function checkDatabase(stateDir: string): Promise<Finding> {
  const path = join(stateDir, "herald.db");
  if (!existsSync(path)) return ok("database", "none yet; the first start makes it");
  try {
    const { checkFile } = await import("../stores/read-only.ts");
    const wrong = checkFile(path);
    if (wrong === null) return ok("database", `${path} is whole`);
    return fail("database", `${path}: ${wrong}`, "Stop Herald and restore a backup: herald restore.");
  } catch (error) {
    return fail(
      "database",
      `${path} can't be read: ${errorText(error)}`,
      "Look at the rights and the disk; if it is damaged, restore a backup.",
    );
  }
}

export async function checkPort({ host, port }: { host: string; port: number }, isOurs: boolean): Promise<Finding> {
  if (port === 0) return ok("port", "any free one");
  const code = await new Promise<string | null>((resolve) => {
    const server = createServer();
    server.once("error", (error: NodeJS.ErrnoException) => resolve(error.code ?? "unknown"));
    server.listen(port, host, () => server.close(() => resolve(null)));
  });
  if (code === null) return ok("port", `${host}:${port} is free`);
  if (code !== "EADDRINUSE") return fail("port", `${host}:${port} can't be used (${code})`, "Set web.port or web.host to another one.");
  const holder = holderOf(port);
  if (isOurs) return ok("port", `${host}:${port} is the running gateway's`);
  return fail("port", `${host}:${port} is taken by ${holder ?? "another program"}`, "End that program, or set web.port to another one.");
}

/** The program that listens on a port, as Linux tells its own user; null: it does not. */
function holderOf(port: number): string | null {
  const hex = `:${port.toString(16).toUpperCase().padStart(4, "0")}`;
  try {
    const rows = ["/proc/net/tcp", "/proc/net/tcp6"].flatMap((path) => (existsSync(path) ? readFileSync(path, "utf8").split("\n") : []));
    const sockets = rows.map((row) => row.trim().split(/\s+/)).filter((row) => row[1]?.endsWith(hex) && row[3] === "0A");
    const wanted = new Set(sockets.map((row) => `socket:[${row[9]}]`));
    const pid = readdirSync("/proc").find((name) => /^\d+$/.test(name) && holds(name, wanted));
    return pid === undefined ? null : `${readFileSync(`/proc/${pid}/comm`, "utf8").trim()} (pid ${pid})`;
  } catch {
    return null;
  }
}

function holds(pid: string, sockets: ReadonlySet<string>): boolean {
  try {
    return readdirSync(`/proc/${pid}/fd`).some((fd) => sockets.has(readlinkSync(`/proc/${pid}/fd/${fd}`)));
  } catch {
    // Another user's, or gone by now.
    return false;
  }
}
