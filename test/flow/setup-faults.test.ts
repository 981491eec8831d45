// `herald setup` on a disk that is full, or killed, at each call that writes: each file is the old one or the new one, and the two of
// them go together.
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { loadConfig } from "../../src/config/config.ts";
import { createIoFaults, type Fault, type IoFaults, whyNoIoFaults } from "../support/io-faults.ts";
import { type CliEnd, runCli } from "../support/run-cli.ts";

const KEY = "sk-of-set-up-0123456789";
const BEFORE = "// mine\n{\n  models: { probeLocal: false },\n}\n";
const ENV_BEFORE = "OTHER=kept\n";
const MANY = 1_000_000;

interface Place {
  readonly dir: string;
  read(name: string): string;
}

describe.skipIf(whyNoIoFaults() !== null)("a disk that fails", () => {
  let disk: IoFaults;
  let after: { settings: string; env: string };
  let reach: number;

  /** The state folder is where the settings are: below it calls can fail. */
  const inPlace = async <T>(work: (place: Place) => Promise<T>): Promise<T> => {
    const dir = mkdtempSync(join(tmpdir(), "herald-setup-"));
    mkdirSync(join(dir, "config"));
    writeFileSync(join(dir, "config/herald.json5"), BEFORE, { mode: 0o600 });
    writeFileSync(join(dir, ".env"), ENV_BEFORE, { mode: 0o600 });
    try {
      return await work({ dir, read: (name) => readFileSync(join(dir, name), "utf8") });
    } finally {
      rmSync(dir, { recursive: true, force: true });
    }
  };
  const setup = (dir: string, fault: Fault): Promise<CliEnd> => {
    disk.arm(fault);
    // Nobody listens at that address: it is tried and kept all the same.
    const flags = ["--model", "compatible/m", "--address", "http://127.0.0.1:9/v1", "--key-env", "MY_KEY", "--untested"];
    return runCli(["setup", ...flags], { cwd: dir, env: { HOME: dir, HERALD_STATE_DIR: dir, MY_KEY: KEY, ...disk.env } });
  };

  beforeAll(async () => {
    disk = createIoFaults();
    await inPlace(async ({ dir, read }) => {
      expect(await setup(dir, { name: "ENOSPC", skip: MANY, lasts: "once" })).toMatchObject({ code: 0 });
      reach = disk.tally().reach.ENOSPC;
      after = { settings: read("config/herald.json5"), env: read(".env") };
    });
    expect(after.env).toBe(`${ENV_BEFORE}COMPATIBLE_API_KEY=${KEY}\n`);
    expect(after.settings).toContain(`$\{COMPATIBLE_API_KEY}`);
    expect(reach).toBeGreaterThan(4);
  });
  afterAll(() => disk[Symbol.dispose]());

  function check({ dir, read }: Place, about: string): void {
    const [settings, env] = [read("config/herald.json5"), read(".env")];
    expect([BEFORE, after.settings], about).toContain(settings);
    expect([ENV_BEFORE, after.env], about).toContain(env);
    // A start takes the pair as it is.
    expect(() => loadConfig({ env: { HOME: dir, HERALD_STATE_DIR: dir }, cwd: dir }), about).not.toThrow();
    if (settings !== BEFORE) expect(read("config/herald.json5.bak"), about).toBe(BEFORE);
    for (const name of [...readdirSync(dir), ...readdirSync(join(dir, "config")).map((one) => `config/${one}`)])
      if (/env|json5/.test(name)) expect([name, statSync(join(dir, name)).mode & 0o777], about).toEqual([name, 0o600]);
  }

  it("[CL1] CLI-003 killed at each call that writes: old or new, never half, 0600 from the first byte, and the next start works", async () => {
    const seen = new Set<string>();
    for (let skip = 0; skip < reach; skip++)
      await inPlace(async (place) => {
        const { code } = await setup(place.dir, { name: "ENOSPC", skip, lasts: "once", kills: true });
        const about = `killed at call ${skip}: ${disk.tally().first}`;
        expect(code, about).toBe("SIGKILL");
        check(place, about);
        seen.add(`${place.read(".env") === ENV_BEFORE}${place.read("config/herald.json5") === BEFORE}`);
      });
    // It was met before the first file was in its place, and between the two.
    expect([...seen].sort()).toEqual(expect.arrayContaining(["falsetrue", "truetrue"]));
  });

  it("[CL1] CLI-003 full at each call that writes: exit 1 in words, and nothing is left behind", async () => {
    for (let skip = 0; skip < reach; skip++)
      await inPlace(async (place) => {
        const { code, err } = await setup(place.dir, { name: "ENOSPC", skip, lasts: "once" });
        const about = `full at call ${skip}: ${disk.tally().first}`;
        expect([code, err], about).toEqual([1, expect.stringMatching(/can't be written: .*(nothing was changed|was changed so far)\.$/m)]);
        expect(err, about).not.toContain(KEY);
        check(place, about);
        expect(
          readdirSync(place.dir)
            .concat(readdirSync(join(place.dir, "config")))
            .filter((name) => name.endsWith(".new")),
          about,
        ).toEqual([]);
      });
  });
});
