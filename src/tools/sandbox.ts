// The boundary around commands: bubblewrap with a user, pid, net, ipc and uts namespace of its own and a filter for
// system calls (TL5).
// start-up: detectSandbox runs `true` in the full profile → exec and search wrap their commands with sandboxCommand,
// or exec is absent and /status says why. Nothing of the host is visible but /usr, a few files of /etc and the workspace,
// and of /usr nothing that is Herald's own.
import { lstat, mkdtemp, readlink, realpath, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { errorText } from "../core/errors.ts";
import type { Logger } from "../core/logger.ts";
import { findOnPath } from "./find-on-path.ts";
import type { Names } from "./mount-points.ts";
import { runProcess } from "./process.ts";
import { seccompFilter } from "./seccomp.ts";
import { SANDBOX_WORKSPACE } from "./workspace-path.ts";

/** Where programs are inside. */
export const SANDBOX_PATH = "/usr/local/bin:/usr/bin:/bin:/usr/local/sbin:/usr/sbin:/sbin";

export const SANDBOX_PROGRAM = "/program";

const DETECT_TIMEOUT_MS = 1800;
/** Inside, every file of the gateway's user belongs to this id: it is mapped to that user, so the workspace is writable. */
const INSIDE_ID = 1000;
/** Size of each file system in memory, and where they stand; /scratch only where the host gives none. */
export const TMPFS_BYTES = 512 * 1024 * 1024;
export const MEMORY_MOUNTS = ["/tmp", "/dev/shm", "/scratch"] as const;
/** Needed by ordinary programs, secret in none: no passwd, shadow, hosts, ssh or machine id of the host. */
const ETC_FILES = ["alternatives", "ld.so.cache", "ld.so.conf", "ld.so.conf.d", "localtime", "ssl/certs", "ssl/openssl.cnf"];
const PASSWD = `herald:x:${INSIDE_ID}:${INSIDE_ID}::/tmp:/bin/sh\n`;
const GROUP = `herald:x:${INSIDE_ID}:\n`;
const FILTER = seccompFilter(process.arch);
const GIT_IGNORE = "/etc/gitignore";
const GIT_CONFIG = `[core]\n\texcludesFile = ${GIT_IGNORE}\n`;

export interface AvailableSandbox {
  readonly available: true;
  readonly kind: "bubblewrap";
  readonly version: string;
  /** Paths of the two programs, and the mounts that show this host's programs inside. */
  readonly bwrap: string;
  readonly prlimit: string;
  readonly systemMounts: readonly string[];
}

interface MissingSandbox {
  readonly available: false;
  /** One clause each, for /status and the start-up lines. */
  readonly reason: string;
  readonly howTo: string;
}

export type Sandbox = AvailableSandbox | MissingSandbox;

/** What of the workspace is kept from the command; all of it is there, and none of it a link. */
export interface Covers {
  /** Folders that can be neither renamed nor removed. */
  readonly pinned?: readonly Names[];
  /** Files that can only be read. */
  readonly files?: readonly Names[];
  /** Folders that stand there empty. */
  readonly folders?: readonly Names[];
  /** Of the files, those that git must not take for a part of the work. */
  readonly empty?: readonly Names[];
}

export interface SandboxRequest {
  readonly argv: readonly string[];
  /** A program of the host's own that stands inside as SANDBOX_PROGRAM. */
  readonly program?: string;
  /** Real path of the workspace on the host. */
  readonly workspace: string;
  readonly readOnly: boolean;
  readonly covers?: Covers;
  /** Folder below the workspace to start in; "" is the workspace. */
  readonly cwd: string;
  /** Host folder shown as /scratch, or null for one in memory that lasts for this command. */
  readonly scratch: string | null;
  readonly env: Readonly<Record<string, string>>;
  /** Per process; `tasks` (processes and threads) for all of them. The kernel does not hold root to `tasks`. */
  readonly limits: { readonly cpuSeconds: number; readonly fileBytes: number; readonly tasks: number };
}

export interface SandboxCommand {
  readonly command: string;
  readonly args: readonly string[];
  readonly env: Readonly<Record<string, string>>;
  readonly inputs: readonly (string | Buffer)[];
  readonly tellsFirst: true;
}

/**
 * Wraps a command. The environment goes in as bwrap's own, not with --setenv: values don't show in the host's process
 * list, and /proc/1/environ inside holds no more than the command may see.
 */
export function sandboxCommand(sandbox: Omit<AvailableSandbox, "version">, request: SandboxRequest): SandboxCommand {
  const args = [
    ...NAMESPACES,
    ...sandbox.systemMounts,
    ...OWN_MOUNTS,
    ...(request.program === undefined ? [] : ["--ro-bind", request.program, SANDBOX_PROGRAM]),
    ...workspaceMounts(request),
    "--",
    ...limitsOf(sandbox, request),
    ...request.argv,
  ];
  // The numbers 3 to 7 among the arguments stand for these, in this order; 8 is where it tells its first process.
  const inputs = [PASSWD, GROUP, GIT_CONFIG, gitIgnore(request), FILTER ?? ""];
  return { command: sandbox.bwrap, args, env: request.env, inputs, tellsFirst: true };
}

const split = (text: string): string[] => text.trim().split(/\s+/);

// --unshare-user is named although --unshare-all implies it: as root bwrap would otherwise go on without one.
const NAMESPACES = split(`
  --unshare-user --unshare-all --disable-userns --die-with-parent --new-session --cap-drop ALL
  --uid ${INSIDE_ID} --gid ${INSIDE_ID} --hostname sandbox --seccomp 7 --info-fd 8`);

// /proc is read-only because for a gateway that runs as root /proc/sys is writable even without capabilities,
// core_pattern included. Every tmpfs has a size: it is memory.
const OWN_MOUNTS = split(`
  --ro-bind-data 3 /etc/passwd --ro-bind-data 4 /etc/group
  --ro-bind-data 5 /etc/gitconfig --ro-bind-data 6 ${GIT_IGNORE}
  --proc /proc --remount-ro /proc
  --dev /dev --size ${TMPFS_BYTES} --tmpfs /dev/shm --remount-ro /dev
  --size ${TMPFS_BYTES} --tmpfs /tmp`);

function workspaceMounts({ workspace, readOnly, covers = {}, scratch, cwd }: SandboxRequest): string[] {
  const writable = scratch === null ? ["--size", `${TMPFS_BYTES}`, "--tmpfs", "/scratch"] : ["--bind", scratch, "/scratch"];
  const mounts = readOnly ? ["--ro-bind", workspace, SANDBOX_WORKSPACE, ...writable] : ["--bind", workspace, SANDBOX_WORKSPACE];
  const { pinned = [], files = [], folders = [] } = covers;
  // Mounted on itself a folder can't be renamed; what lies in it is covered after it, or would be hidden by it.
  const self = (names: Names): [string, string] => [join(workspace, ...names), join(SANDBOX_WORKSPACE, ...names)];
  for (const names of pinned) mounts.push(readOnly ? "--ro-bind" : "--bind", ...self(names));
  for (const names of files) mounts.push("--ro-bind", ...self(names));
  for (const names of folders) mounts.push(...cover(join(SANDBOX_WORKSPACE, ...names)));
  // The root itself is a tmpfs without a size, so it is closed once everything stands in it.
  return [...mounts, "--remount-ro", "/", "--chdir", join(SANDBOX_WORKSPACE, cwd)];
}

/** An empty file stands there only to be covered, so \`git add --all\` must not take it along. */
const gitIgnore = ({ covers }: SandboxRequest): string => (covers?.empty ?? []).map((names) => `/${names.join("/")}\n`).join("");

/** An empty folder that stays so, over one that exists. */
const cover = (folder: string): string[] => ["--size", "4096", "--tmpfs", folder, "--remount-ro", folder];

// Set inside, so that the task limit counts what runs in the sandbox and not all that the user runs. No --as: programs
// like Node reserve far more address space than they use; process.ts watches the memory really held. nice: people's
// messages come before builds, and the watch over a fork bomb before the bomb.
function limitsOf({ prlimit }: Pick<AvailableSandbox, "prlimit">, { limits }: SandboxRequest): string[] {
  const { cpuSeconds, fileBytes, tasks } = limits;
  return ["nice", "-n", "19", prlimit, `--cpu=${cpuSeconds}`, `--fsize=${fileBytes}`, `--nproc=${tasks}`, "--core=0", "--"];
}

export interface DetectOptions {
  readonly log: Logger;
  /** Where to look for programs; default the PATH of this process. */
  readonly path?: string;
  /** Folders with something private in them: where they lie among the host's programs they are empty inside. */
  readonly hide?: readonly string[];
}

/** Tries the whole profile once, in at most 2 s. Never throws: what fails is the reason why there is no sandbox. */
export async function detectSandbox(options: DetectOptions): Promise<Sandbox> {
  const sandbox = await trySandbox(options).catch((error: unknown) => missing(errorText(error)));
  if (sandbox.available) options.log.info({ version: sandbox.version }, "sandbox available");
  else options.log.warn({ reason: sandbox.reason, howTo: sandbox.howTo }, "no sandbox");
  return sandbox;
}

const INSTALL = "install it, for example: apt-get install bubblewrap util-linux";
const ALLOW =
  "allow unprivileged user namespaces (sysctl kernel.unprivileged_userns_clone=1, on Ubuntu also kernel.apparmor_restrict_unprivileged_userns=0; " +
  "in a container run it with user namespaces allowed), and use bubblewrap 0.8 or newer";
const MOVE = "move its program, its settings and its state to a folder of their own, and start it there";

const missing = (reason: string, howTo = ALLOW): MissingSandbox => ({ available: false, reason, howTo });

async function trySandbox({ path = process.env.PATH ?? "", hide = [] }: DetectOptions): Promise<Sandbox> {
  if (process.platform !== "linux") {
    return missing(`bubblewrap needs Linux, this is ${process.platform}`, "run Herald on Linux, in a virtual machine for example");
  }
  if (FILTER === null) return missing(`the system calls of ${process.arch} are not known here`, "run Herald on x86-64 or 64-bit ARM");
  const [bwrap, prlimit] = [findOnPath("bwrap", path), findOnPath("prlimit", path)];
  if (bwrap === null) return missing("bubblewrap (bwrap) is not installed", INSTALL);
  if (prlimit === null) return missing("prlimit is not installed", INSTALL);
  const mounts = await systemMounts();
  const hidden = await foldersToHide(hide, mounts);
  const needed = hidden.find((folder) => NEEDED.some((path) => isIn(folder, path)));
  if (needed !== undefined) return missing(`Herald has private files in ${needed}, which commands need to see`, MOVE);
  const all = [...mounts, ...hidden.flatMap(cover)];
  const sandbox = { available: true, kind: "bubblewrap", bwrap, prlimit, systemMounts: all } as const;
  const [about, trial] = await Promise.all([runShort({ command: bwrap, args: ["--version"], env: {}, inputs: [] }), tryTrue(sandbox)]);
  const version = about.text.replace(/^bubblewrap\s+/, "");
  if (trial.ok) return { ...sandbox, version };
  return missing(`bubblewrap ${version} can't make the sandbox here: ${trial.text || "no answer"}`);
}

async function tryTrue(sandbox: Omit<AvailableSandbox, "version">): Promise<{ ok: boolean; text: string }> {
  const workspace = await mkdtemp(join(tmpdir(), "herald-sandbox-"));
  try {
    const limits = { cpuSeconds: 5, fileBytes: 1024 * 1024, tasks: 64 };
    const request = { argv: ["true"], workspace, readOnly: false, cwd: "", scratch: null, env: { PATH: SANDBOX_PATH }, limits };
    return await runShort(sandboxCommand(sandbox, request));
  } finally {
    await rm(workspace, { recursive: true, force: true });
  }
}

async function runShort(command: Omit<SandboxCommand, "tellsFirst"> & Partial<SandboxCommand>): Promise<{ ok: boolean; text: string }> {
  const chunks: Buffer[] = [];
  const result = await runProcess({
    ...command,
    cwd: "/",
    timeoutMs: DETECT_TIMEOUT_MS,
    limits: { processes: 64, outputBytes: 64 * 1024 },
    signal: new AbortController().signal,
    onOutput: (chunk) => chunks.push(chunk),
  });
  const text = Buffer.concat(chunks).toString("utf8").trim().slice(0, 300);
  return { ok: result.end === "exit" && result.code === 0, text: result.end === "failed" ? result.reason : text };
}

/** /usr, the top-level links or folders that go with it, and a few files of /etc: all read-only. */
async function systemMounts(): Promise<string[]> {
  const mounts = ["--ro-bind", "/usr", "/usr"];
  for (const path of ["/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32"]) {
    const stats = await lstat(path).catch(() => null);
    if (stats?.isSymbolicLink()) mounts.push("--symlink", await readlink(path), path);
    else if (stats?.isDirectory()) mounts.push("--ro-bind", path, path);
  }
  for (const name of ETC_FILES) mounts.push("--ro-bind-try", `/etc/${name}`, `/etc/${name}`);
  return mounts;
}

/** Without these nothing runs. */
const NEEDED = ["/usr/bin", "/usr/lib"];

const isIn = (folder: string, path: string): boolean => path === folder || path.startsWith(folder === "/" ? folder : `${folder}/`);

/** The real folders among them that a mount would show. One in another goes with it, and can't be covered a second time. */
async function foldersToHide(folders: readonly string[], mounts: readonly string[]): Promise<string[]> {
  const real = await Promise.all(folders.map((folder) => realpath(folder).catch(() => null)));
  const shown = [...new Set(real)].filter((folder) => folder !== null).filter((folder) => mounts.some((source) => isIn(source, folder)));
  return shown.filter((folder) => !shown.some((other) => other !== folder && isIn(other, folder)));
}
