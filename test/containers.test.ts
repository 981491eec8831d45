// Dockerfile, .dockerignore and the compose files, as far as they can be held to account without an engine: their form, that they name what is
// there, and that Herald takes the settings they give it.
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { load, YAML11_SCHEMA } from "js-yaml";
import { describe, expect, it } from "vitest";
import { AS_THEY_ARE } from "../src/build/copies.ts";
import { loadConfig } from "../src/config/config.ts";

const ROOT = new URL("..", import.meta.url).pathname;
const read = (name: string): string => readFileSync(join(ROOT, name), "utf8");

/** Instruction and the rest of it, continued lines as one. */
const steps = read("Dockerfile")
  .replace(/^#.*\n/gm, "")
  .replaceAll("\\\n", " ")
  .split("\n")
  .flatMap((line) => (/^[A-Z]+ /.test(line) ? [{ name: line.split(" ")[0] ?? "", text: line.slice(line.indexOf(" ") + 1).trim() }] : []));
const ofLastStage = steps.slice(steps.findLastIndex(({ name }) => name === "FROM"));
const stepOf = (name: string): string | undefined => ofLastStage.findLast((step) => step.name === name)?.text;

interface Service {
  readonly image?: string;
  readonly build?: string;
  readonly restart?: string;
  readonly ports?: readonly string[];
  readonly volumes?: readonly string[];
  readonly cap_drop?: readonly string[];
  readonly environment?: Readonly<Record<string, string>>;
  readonly configs?: readonly { readonly source: string; readonly target: string }[];
  readonly healthcheck?: { readonly test: readonly string[] };
}
interface Compose {
  readonly name: string;
  readonly services: Readonly<Record<string, Service>>;
  readonly volumes: Readonly<Record<string, null>>;
  readonly configs?: Readonly<Record<string, { readonly content: string }>>;
}
const composed = (name: string): Compose => load(read(name), { schema: YAML11_SCHEMA }) as Compose;

/** What Herald makes of these settings, in the home of the image's user. */
function settingsOf(text: string, env: Readonly<Record<string, string>> = {}): ReturnType<typeof loadConfig> {
  const dir = mkdtempSync(join(tmpdir(), "herald-container-"));
  try {
    writeFileSync(join(dir, "herald.json5"), text, { mode: 0o600 });
    return loadConfig({ env: { HOME: "/home/herald", ...env, HERALD_CONFIG: join(dir, "herald.json5") }, cwd: dir });
  } finally {
    rmSync(dir, { recursive: true });
  }
}
const OPEN = ["web.host is 0.0.0.0: the page can be reached from the network, guarded by its token only"];

describe("[CL3] the image", () => {
  it("[CL3] is a user of its own with a volume, a health check on /healthz and a signal to stop by", () => {
    expect(stepOf("USER")).toBe("herald");
    expect(stepOf("VOLUME")).toBe("/home/herald");
    expect(stepOf("HEALTHCHECK")).toContain("http://127.0.0.1:8787/healthz");
    expect(stepOf("STOPSIGNAL")).toBe("SIGTERM");
    expect(stepOf("CMD")).toBe('["herald", "start"]');
    expect(steps.filter(({ name }) => name === "FROM").length).toBe(2);
  });

  it("[CL3] its settings are taken, and listen where the health check looks", () => {
    const settings = /echo '([^']+)' > config\/herald\.json5/.exec(steps.map(({ text }) => text).join("\n"))?.[1] ?? "";
    const { config, stateDir, warnings } = settingsOf(settings);
    expect(config.web).toMatchObject({ host: "0.0.0.0", port: 8787 });
    expect({ stateDir, warnings }).toEqual({ stateDir: "/home/herald/.herald", warnings: OPEN });
  });

  it("[CL3] the build gets all it reads and nothing else: no keys, no state, no packages of this machine", () => {
    const lines = read(".dockerignore").split("\n");
    const allowed = lines.filter((line) => line.startsWith("!")).map((line) => line.slice(1));
    expect(lines.find((line) => line !== "" && !line.startsWith("#"))).toBe("*");
    for (const name of allowed) expect(readdirSync(ROOT)).toContain(name);
    const wanted = steps.flatMap(({ name, text }) => (name === "COPY" && !text.startsWith("--from") ? text.split(" ").slice(0, -1) : []));
    const tops = [...wanted.filter((name) => name !== "."), ...AS_THEY_ARE, "src"].map((path) => path.split("/")[0]);
    expect([...new Set(tops)].sort()).toEqual(allowed.sort());
    expect(allowed).not.toContain(".env");
  });
});

describe("[CL3] the compose files", () => {
  it.each(["compose.yaml", "compose.postgres.yaml"])(
    "[CL3] %s: reached from this machine alone, without rights, state in a volume",
    (file) => {
      const { services, volumes } = composed(file);
      const heralds = Object.values(services).filter(({ image }) => image === "herald");
      expect(heralds.length).toBe(file === "compose.yaml" ? 1 : 2);
      for (const service of heralds) {
        expect(service).toMatchObject({ build: ".", restart: "unless-stopped", cap_drop: ["ALL"] });
        for (const port of service.ports ?? []) expect(port).toMatch(/^127\.0\.0\.1:(\d+):\1$/);
        const [name = "", path] = service.volumes?.[0]?.split(":") ?? [];
        expect(path).toBe("/home/herald");
        expect(Object.keys(volumes)).toContain(name);
      }
      expect(read(file)).not.toMatch(/(?:PASSWORD|TOKEN|KEY): (?!\$)\S/);
    },
  );

  it("[SO1][CL3] two on PostgreSQL: each has its name, its settings and its port, where its health check looks", () => {
    const { services, configs } = composed("compose.postgres.yaml");
    for (const [name, port] of [
      ["herald-1", 8787],
      ["herald-2", 8788],
    ] as const) {
      const { environment, configs: given, ports, healthcheck } = services[name] ?? {};
      expect(environment?.HERALD_CONFIG).toBe(given?.[0]?.target);
      const url = environment?.DATABASE_URL?.replace(/\$\{.*\}/, "secret-of-24-bytes") ?? "";
      const settings = configs?.[given?.[0]?.source ?? ""]?.content ?? "";
      const { config, warnings } = settingsOf(settings, { ...environment, DATABASE_URL: url });
      expect(config.store).toMatchObject({ url: "postgres://herald:secret-of-24-bytes@db/herald", node: name });
      expect(config.web).toMatchObject({ host: "0.0.0.0", port });
      expect(warnings).toEqual(OPEN);
      expect(ports).toEqual([`127.0.0.1:${port}:${port}`]);
      expect(healthcheck?.test.join(" ") ?? stepOf("HEALTHCHECK")).toContain(`http://127.0.0.1:${port}/healthz`);
    }
  });
});
