// compose.yaml as far as it can be held against the program: the settings in it are accepted, and what belongs together agrees.
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { load } from "js-yaml";
import { expect, it } from "vitest";
import { loadConfig } from "../../../src/config/config.ts";

interface Service {
  readonly environment: Readonly<Record<string, string>>;
  readonly configs: readonly { readonly source: string; readonly target: string }[];
  readonly ports: readonly string[];
}

const ROOT = new URL("../../../", import.meta.url).pathname;
const compose = load(readFileSync(join(ROOT, "compose.yaml"), "utf8")) as {
  readonly services: Readonly<Record<string, Service>>;
  readonly configs: Readonly<Record<string, { readonly content: string }>>;
};

it.each(["herald-1", "herald-2"])("[SO1] compose.yaml: %s has settings that are accepted, a name, a port and the database", (name) => {
  const dir = mkdtempSync(join(tmpdir(), "herald-compose-"));
  try {
    const { environment, configs, ports } = compose.services[name] as Service;
    const [file] = configs;
    expect(environment.HERALD_CONFIG).toBe(file?.target);
    const path = join(dir, "herald.json5");
    writeFileSync(path, compose.configs[file?.source ?? ""]?.content ?? "", { mode: 0o600 });
    const env = { ...environment, HERALD_CONFIG: path, DATABASE_URL: environment.DATABASE_URL?.replace(/\$\{.*\}/, "secret-of-24-bytes") };
    const { config, stateDir, warnings } = loadConfig({ cwd: dir, env });
    expect(config.store).toMatchObject({ url: "postgres://herald:secret-of-24-bytes@db/herald", node: name });
    expect(ports).toEqual([`127.0.0.1:${config.web.port}:${config.web.port}`]);
    expect(stateDir).toBe("/home/node/.herald");
    expect(warnings).toEqual(["web.host is 0.0.0.0: the page can be reached from the network, guarded by its token only"]);
  } finally {
    rmSync(dir, { recursive: true, force: true });
  }
});

it("[SO1] compose.yaml: its start command is a file of this repository", () => {
  const raw = readFileSync(join(ROOT, "compose.yaml"), "utf8");
  expect(/command: \["\/herald\/node_modules\/\.bin\/node", "\/herald\/(\S+)"\]/.exec(raw)?.[1]).toBe("src/start.js");
});
