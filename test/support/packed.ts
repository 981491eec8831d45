// The package as people get it: built, packed, and installed from its tarball into an empty folder, with an empty home and without a network.
import { execFile } from "node:child_process";
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { promisify } from "node:util";
import { NODE } from "./harness.ts";

const run = promisify(execFile);
const BUILD = new URL("../../src/build/build.ts", import.meta.url).pathname;
const DEADLINE_MS = 240_000;

export interface Packed extends AsyncDisposable {
  /** All of it is below; gone at the end. */
  readonly dir: string;
  readonly tarball: string;
  /** The project it is installed in; its only package is Herald. */
  readonly project: string;
  readonly home: string;
  /** The package there. */
  readonly folder: string;
  /** Its herald.js, and the command that npm linked to it. */
  readonly program: string;
  readonly command: string;
  /** Variables of a shell that finds the Node of this checkout. */
  readonly env: { readonly PATH: string; readonly HOME: string };
}

export async function installPacked(): Promise<Packed> {
  const dir = mkdtempSync(join(tmpdir(), "herald-packed-"));
  const [project, home, dist] = ["project", "home", "dist"].map((name) => join(dir, name)) as [string, string, string];
  const env = { PATH: `${dirname(NODE)}:${process.env.PATH}`, HOME: home };
  const npm = (cwd: string, ...args: string[]) => run("npm", args, { cwd, env, timeout: DEADLINE_MS });
  try {
    for (const folder of [project, home]) mkdirSync(folder);
    await run(NODE, [BUILD, dist], { env: { PATH: env.PATH }, timeout: DEADLINE_MS });
    const { stdout } = await npm(dir, "pack", dist, "--json");
    const [{ filename }] = JSON.parse(stdout) as [{ filename: string }];
    const tarball = join(dir, filename);
    writeFileSync(join(project, "package.json"), JSON.stringify({ name: "project", private: true, type: "module" }));
    await npm(project, "install", "--offline", "--no-audit", "--no-fund", tarball);
    const folder = join(project, "node_modules/herald");
    return {
      ...{ dir, tarball, project, home, folder, env },
      program: join(folder, "src/herald.js"),
      command: join(project, "node_modules/.bin/herald"),
      async [Symbol.asyncDispose]() {
        rmSync(dir, { recursive: true, force: true });
      },
    };
  } catch (error) {
    rmSync(dir, { recursive: true, force: true });
    throw error;
  }
}
