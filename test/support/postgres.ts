// A real PostgreSQL for tests: one server for a whole run (vitest's global set-up starts it and gives its address to all workers), a schema
// of its own for each rig, so that rigs don't meet. Without Debian's `postgresql` on the machine the tests that need it say so and skip.
import { execFileSync, spawn } from "node:child_process";
import { chownSync, existsSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { Client } from "pg";
import { freePort } from "./free-port.ts";

const ROOT = "/usr/lib/postgresql";
/** Where a test finds the server's address; empty: there is none. */
export const POSTGRES_ENV = "HERALD_TEST_POSTGRES";

/** The newest server program that is installed, 15 or later. */
export function findPostgres(): string | null {
  if (!existsSync(ROOT)) return null;
  const versions = readdirSync(ROOT).filter((version) => Number(version) >= 15 && existsSync(join(ROOT, version, "bin/initdb")));
  const newest = versions.sort((a, b) => Number(b) - Number(a))[0];
  return newest === undefined ? null : join(ROOT, newest, "bin");
}

export interface PostgresServer {
  /** Of the database, as a superuser. */
  readonly url: string;
  readonly port: number;
  readonly pid: number;
  /** As a crash: everything it runs is gone at once. */
  kill(): Promise<void>;
  start(): Promise<void>;
  stop(): Promise<void>;
}

/** Root must not run it: then it is the user `postgres`, whom its package makes. */
const asUser = (command: string, args: readonly string[]): [string, string[]] =>
  process.getuid?.() === 0
    ? ["setpriv", ["--reuid=postgres", "--regid=postgres", "--clear-groups", command, ...args]]
    : [command, [...args]];

function run(command: string, args: readonly string[]): string {
  const [program, all] = asUser(command, args);
  return execFileSync(program, all, { encoding: "utf8", stdio: ["ignore", "pipe", "pipe"], cwd: "/" });
}

/** `env`: what the server itself finds in its environment. */
export async function startPostgres(
  settings: Readonly<Record<string, string>> = {},
  env: Readonly<Record<string, string>> = {},
): Promise<PostgresServer> {
  const bin = findPostgres();
  if (bin === null) throw new Error("PostgreSQL is not installed: apt-get install postgresql");
  const base = existsSync("/dev/shm") ? "/dev/shm" : tmpdir();
  const dir = mkdtempSync(join(base, "herald-postgres-"));
  if (process.getuid?.() === 0) {
    const [uid = 0, gid = 0] = [run("id", ["-u"]), run("id", ["-g"])].map(Number);
    chownSync(dir, uid, gid);
  }
  const data = join(dir, "data");
  run(join(bin, "initdb"), ["-D", data, "-U", "herald", "-A", "trust", "-E", "UTF8", "--locale=C.UTF-8", "--no-sync"]);
  const port = await freePort();
  // A process that is killed loses nothing without them; only a power cut would, and nobody pulls the plug here.
  const options: Record<string, string> = {
    ...{ fsync: "off", full_page_writes: "off", max_connections: "200", listen_addresses: "'127.0.0.1'", port: String(port) },
    ...{ unix_socket_directories: "''", shared_buffers: "64MB", autovacuum_naptime: "10s", ...settings },
  };
  const lines = Object.entries(options).map(([name, value]) => `${name} = ${value}`);
  const extra = join(dir, "extra.conf");
  writeFileSync(extra, `${lines.join("\n")}\n`, { mode: 0o644 });
  run("sh", ["-c", `cat '${extra}' >> '${data}/postgresql.conf'`]);
  const url = `postgres://herald@127.0.0.1:${port}/postgres`;
  let pid = 0;
  const start = async (): Promise<void> => {
    // For itself alone, not for what changes the user before it.
    const [program, args] = asUser("env", [
      ...Object.entries(env).map(([name, value]) => `${name}=${value}`),
      join(bin, "postgres"),
      "-D",
      data,
    ]);
    const child = spawn(program, args, { stdio: "ignore", cwd: "/" });
    pid = child.pid ?? 0;
    await reachable(url);
  };
  await start();
  const gone = async (): Promise<void> => {
    for (let n = 0; n < 200 && isAlive(pid); n++) await sleep(50);
  };
  return {
    url,
    port,
    get pid() {
      return pid;
    },
    async kill() {
      run("sh", ["-c", `kill -QUIT ${pid} || true`]);
      await gone();
    },
    start,
    async stop() {
      run("sh", ["-c", `kill -QUIT ${pid} 2>/dev/null || true`]);
      await gone();
      rmSync(dir, { recursive: true, force: true });
    },
  };
}

export function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch {
    return false;
  }
}

async function reachable(url: string): Promise<void> {
  for (let tries = 0; ; tries++) {
    const client = new Client({ connectionString: url });
    client.on("error", () => {});
    try {
      await client.connect();
      await client.end();
      return;
    } catch (error) {
      await client.end().catch(() => {});
      if (tries > 200) throw error;
      await sleep(50);
    }
  }
}

export interface Schema extends AsyncDisposable {
  readonly url: string;
  readonly name: string;
}

/** A schema of its own in the server of this run, gone afterwards. */
export async function createSchema(server = process.env[POSTGRES_ENV] ?? ""): Promise<Schema> {
  const name = `t_${crypto.randomUUID().replaceAll("-", "").slice(0, 16)}`;
  const admin = async (sql: string): Promise<void> => {
    const client = new Client({ connectionString: server });
    await client.connect();
    await client.query(sql).finally(() => client.end());
  };
  await admin(`CREATE SCHEMA ${name}`);
  const url = new URL(server);
  url.searchParams.set("options", `-csearch_path=${name}`);
  return {
    url: url.href,
    name,
    [Symbol.asyncDispose]: () => admin(`DROP SCHEMA IF EXISTS ${name} CASCADE`),
  };
}
