// `herald setup` as a process: by flags without a terminal, beside a gateway that runs, and with its questions on a terminal.
import { existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { stripVTControlCharacters } from "node:util";
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from "vitest";
import type { FakeModelServer } from "../support/fake-model-server.ts";
import { createFakeOpenAi } from "../support/fake-openai.ts";
import { createFakeTelegram, type FakeTelegram } from "../support/fake-telegram.ts";
import { createHarness } from "../support/harness.ts";
import { type CliEnd, type CliOptions, type RunningCli, runCli, startCli } from "../support/run-cli.ts";
import { waitFor } from "../support/wait.ts";

const KEY = "sk-of-set-up-0123456789";
const BEFORE = `// mine\n{\n  models: { probeLocal: false }, // no looking around\n  web: { port: 0 },\n}\n`;

let model: FakeModelServer;
let telegram: FakeTelegram;
let dir: string;
beforeAll(async () => {
  model = await createFakeOpenAi({
    respond: (_, { headers }) =>
      headers.authorization === `Bearer ${KEY}` ? { text: "I am ready." } : { status: 401, message: "Incorrect API key" },
  });
  telegram = await createFakeTelegram();
});
afterAll(() => Promise.all([model.close(), telegram.close()]));
beforeEach(() => {
  dir = mkdtempSync(join(tmpdir(), "herald-setup-"));
  mkdirSync(join(dir, "config"));
  writeFileSync(join(dir, "config/herald.json5"), BEFORE, { mode: 0o600 });
});
afterEach(() => rmSync(dir, { recursive: true, force: true }));

const place = () => ({ dir, stateDir: join(dir, "state") });
const setup = (args: readonly string[], options: CliOptions = {}): Promise<CliEnd> =>
  runCli(["setup", ...args], { cwd: dir, ...options, env: { HOME: dir, HERALD_STATE_DIR: join(dir, "state"), ...options.env } });
const settings = (): string => readFileSync(join(dir, "config/herald.json5"), "utf8");
const dotEnv = (): string => readFileSync(join(dir, ".env"), "utf8");
/** All that lies there, as it was put there. */
const isUntouched = (): boolean =>
  settings() === BEFORE && readdirSync(dir).join() === "config" && readdirSync(join(dir, "config")).length === 1;

const MODEL = () => ["--model", "compatible/fake-1", "--address", model.url];
const BOT = () => ["--telegram-token-env", "MY_BOT", "--telegram-address", telegram.apiRoot];

describe("[CL1] without a terminal", () => {
  it.each<[string, string[], Record<string, string>, RegExp]>([
    ["no flag at all", [], {}, /^setup asks its questions on a terminal\. Without one, answer them with flags/],
    ["a provider without its key", ["--model", "openai"], {}, /^Missing: --key-env\. Nothing was written\./],
    [
      "one of two tokens",
      ["--slack-bot-token-env", "A", "--model", "openai"],
      { A: "xoxb-1" },
      /^Missing: --key-env, --slack-app-token-env\./,
    ],
    ["one from stdin, one missing", ["--slack-bot-token-env", "-"], {}, /^Missing: --slack-app-token-env\./],
  ])("[CL1] CLI-001 %s: exit 2 at once, what is missing is named, nothing is read or written", async (_what, args, env, says) => {
    const { code, out, err } = await setup(args, { env, isInputOpen: true });
    expect([code, out]).toEqual([2, ""]);
    expect(err).toMatch(says);
    expect(isUntouched()).toBe(true);
  });

  it("[CL1] what fails is said with its flag, all of it at once, and nothing is written; then all of it is, and comments stay", async () => {
    const env = { MY_KEY: "sk-wrong-0123456789", MY_BOT: "123456:wrong-token-here" };
    const wrong = await setup([...MODEL(), "--key-env", "MY_KEY", ...BOT()], { env });
    expect([wrong.code, wrong.out]).toEqual([1, ""]);
    expect(wrong.err).toMatch(/^Model: .*refused the key\..* \(Key: --key-env\)$/m);
    expect(wrong.err).toMatch(/^Telegram: Telegram does not know this token\..* \(Bot token: --telegram-token-env\)$/m);
    expect(wrong.err).toMatch(/^Nothing was written\./m);
    expect(wrong.err).not.toMatch(/sk-wrong|wrong-token/);
    expect(isUntouched()).toBe(true);
    const right = await setup([...MODEL(), "--key-env", "-", ...BOT(), "--telegram-allow-from", "42, 43"], {
      env: { MY_BOT: telegram.token },
      input: `${KEY}\n`,
    });
    expect([right.code, right.err]).toEqual([0, ""]);
    expect(right.out).toMatch(/^Model: compatible\/fake-1 answered: “I am ready\.”$/m);
    expect(right.out).toContain(`Telegram: This is @${telegram.username}`);
    expect(right.out).toMatch(/^It counts from the next start: herald start\.$/m);
    expect(settings()).toMatch(/^\/\/ mine\n\{\n {2}models: \{ probeLocal: false.*\/\/ no looking around$/ms);
    expect(settings()).toMatch(/compatible\/fake-1/);
    expect(settings()).toMatch(/allowFrom: \[\s*"42",\s*"43",?\s*\]/);
    expect(settings()).not.toMatch(new RegExp(`${KEY}|${telegram.token}`));
    expect(readFileSync(join(dir, "config/herald.json5.bak"), "utf8")).toBe(BEFORE);
    expect(dotEnv()).toContain(`COMPATIBLE_API_KEY=${KEY}\n`);
    expect(dotEnv()).toMatch(new RegExp(`^TELEGRAM_BOT_TOKEN=.*${telegram.token}`, "m"));
    expect(statSync(join(dir, ".env")).mode & 0o777).toBe(0o600);
    // What is set is not missing any more.
    const off = await setup(["--telegram", "off"]);
    expect(off).toEqual({ code: 0, err: "", out: expect.stringMatching(/^Telegram: Telegram is off\.\nWritten: /) });
    expect(settings()).toMatch(/enabled: false/);
  });

  it("[CL1] handed over in the variable of its own name it is kept in .env; --untested keeps what fails", async () => {
    const { code, err } = await setup(["--model", "anthropic", "--key-env", "ANTHROPIC_API_KEY", "--untested"], {
      env: { ANTHROPIC_API_KEY: KEY, HTTPS_PROXY: "http://127.0.0.1:9", https_proxy: "http://127.0.0.1:9" },
    });
    expect([code, err]).toEqual([0, expect.stringMatching(/^Model: /)]);
    expect(dotEnv()).toContain(`ANTHROPIC_API_KEY=${KEY}\n`);
  });

  it("[CL1] what fails: --untested is named; what is refused, or was given it: it is not, for it would not help", async () => {
    const BAD = "no-address";
    const matrix = ["--matrix-homeserver", BAD, "--matrix-token-env", "MY_MATRIX"];
    const env = { MY_MATRIX: "syt_some_token_0123", MY_BOT: "123456:wrong-token-here" };
    for (const more of [[], ["--untested"], [...BOT()], [...BOT(), "--untested"]]) {
      const { code, err } = await setup([...matrix, ...more], { env });
      expect([code, err], more.join()).toEqual([1, expect.stringMatching(/^Nothing was written\.$/m)]);
      expect(err).not.toContain("--untested");
    }
    expect((await setup(BOT(), { env })).err).toMatch(/^Nothing was written\. \(--untested writes it all the same\.\)$/m);
    expect(isUntouched()).toBe(true);
  });

  it("[CL1] settings that can't be taken as they are: said in the words of a start, exit 1, and they stay", async () => {
    const broken = "{ web: { prot: 1 } }";
    writeFileSync(join(dir, "config/herald.json5"), broken);
    const { code, err } = await setup(["--telegram", "off"]);
    expect([code, settings()]).toEqual([1, broken]);
    expect(err).toMatch(/herald\.json5.*\n?.*prot/s);
  });
});

describe("[CL1] beside a gateway", () => {
  it("[CL1] it takes up what it can at once, and what waits for a restart is named", async () => {
    await using herald = await createHarness({ config: { gateway: { drainSeconds: 0 } } });
    const beside = (args: readonly string[], env: Record<string, string>) =>
      runCli(["setup", ...args], { cwd: herald.dir, env: { HOME: herald.dir, HERALD_STATE_DIR: herald.stateDir, ...env } });
    const first = await beside([...MODEL(), "--key-env", "MY_KEY"], { MY_KEY: KEY });
    expect(first).toEqual({
      code: 0,
      err: "",
      out: expect.stringMatching(/^The gateway that runs has taken it up: it counts from now on\.$/m),
    });
    await herald.say("Who are you?");
    expect(await herald.reply(/I am ready/)).toBeTruthy();
    // Only .env changes: nobody watches that.
    await beside([...MODEL(), "--key-env", "MY_KEY", "--untested"], { MY_KEY: "sk-another-0123456789" });
    await herald.say("And now?");
    expect(await herald.reply(/key/i)).toBeTruthy();
    const bot = await beside(BOT(), { MY_BOT: telegram.token });
    expect(bot).toMatchObject({ code: 0, out: expect.stringMatching(/^Takes effect after a restart of the gateway: Telegram\.$/m) });
    await herald.stop();
    await herald.restart();
    await telegram.until(() => telegram.calls.some(({ method }) => method === "setMyCommands"), "the bot to be on");
    // Its own polling is no other program's.
    expect(await beside(["--telegram-allow-from", "42"], {})).toMatchObject({
      code: 0,
      err: "",
      out: expect.stringContaining(`This is @${telegram.username}`),
    });
  });
});

describe.skipIf(!existsSync("/usr/bin/script"))("[CL1] on a terminal", () => {
  const ENTER = "\r";
  const DOWN = "\u001b[B";
  const CTRL_C = "\u0003";
  const start = (args: readonly string[] = [], env: Record<string, string> = {}): RunningCli =>
    startCli(place(), ["setup", ...args], {
      env: { TERM: "xterm", ...env },
      isTyped: true,
      shell: `export HERALD_WORDS="$*"; script -qec 'stty cols 100 rows 40; $HERALD_WORDS; echo "ended with $?"' /dev/null`,
    });
  const seen = (cli: RunningCli): string => stripVTControlCharacters(cli.out());
  /** Each answer when its question has come up since the one before: with its sign, for what is told about it comes before it listens. */
  async function answer(cli: RunningCli, steps: readonly (readonly [question: string, keys: string])[]): Promise<void> {
    let from = 0;
    for (const [question, keys] of steps) {
      await waitFor(`"${question}" in ${seen(cli).slice(from)}`, () => seen(cli).indexOf(question, from) >= 0);
      from = seen(cli).length;
      cli.type(keys);
    }
  }
  const ended = (cli: RunningCli) => waitFor(`its end: ${seen(cli)}`, () => /ended with (\d+)/.exec(seen(cli))?.[1]);
  const TO_COMPATIBLE = DOWN.repeat(5) + ENTER;

  it("[CL1] it asks, tries, says what is wrong and asks again, and writes once it is agreed to; no secret is shown", async () => {
    const cli = start();
    await answer(cli, [
      ["Model (no model is connected", ENTER],
      ["◆  Provider", TO_COMPATIBLE],
      ["◆  Address", model.url + ENTER],
      ["◆  Key", `sk-wrong-0123456789${ENTER}`],
      ["◆  Model\r", `fake-1${ENTER}`],
      ["◆  What now?", ENTER],
      ["◆  Provider", ENTER],
      ["◆  Address", ENTER],
      ["◆  Key (Enter keeps", KEY + ENTER],
      ["◆  Model\r", ENTER],
      ["Telegram (off). Set it up?", ENTER],
      ["Slack (off). Set it up?", ENTER],
      ["Matrix (off). Set it up?", ENTER],
      ["Discord (off). Set it up?", ENTER],
      ["Write this to", ENTER],
    ]);
    expect(await ended(cli)).toBe("0");
    await cli.ended();
    expect(seen(cli)).toContain("refused the key");
    expect(seen(cli)).toContain("compatible/fake-1 answered: “I am ready.”");
    expect(seen(cli)).not.toMatch(/sk-wrong|sk-of-set-up/);
    expect(seen(cli)).toContain("It counts from the next start: herald start.");
    expect(settings()).toMatch(/^\/\/ mine[\s\S]*compatible\/fake-1/);
    expect(dotEnv()).toContain(`COMPATIBLE_API_KEY=${KEY}\n`);
  });

  it("[CL1] Ctrl-C at any question, or no at the end, leaves everything as it was; NO_COLOR has no colours", async () => {
    const [early, late, never] = [start(), start([], { NO_COLOR: "1" }), start()];
    const upToTest: [string, string][] = [
      ["Model (no model is connected", ENTER],
      ["◆  Provider", TO_COMPATIBLE],
      ["◆  Address", model.url + ENTER],
      ["◆  Key", KEY + ENTER],
      ["◆  Model\r", `fake-1${ENTER}`],
    ];
    await Promise.all([
      answer(early, [["Model (no model is connected", CTRL_C]]),
      answer(late, [...upToTest, ["Telegram (off)", CTRL_C]]),
      answer(never, [
        ...upToTest,
        ...["Telegram (off)", "Slack (off)", "Matrix (off)", "Discord (off)"].map((question): [string, string] => [question, ENTER]),
        ["Write this to", DOWN + ENTER],
      ]),
    ]);
    expect(await Promise.all([early, late, never].map(ended))).toEqual(["1", "1", "0"]);
    for (const cli of [early, late, never]) {
      await cli.ended();
      expect(seen(cli)).toContain("Nothing was changed.");
    }
    expect(late.out()).not.toMatch(/\[3\dm/);
    expect(early.out()).toMatch(/\[3\dm/);
    expect(isUntouched()).toBe(true);
  });

  it("[CL1] with flags it asks only what is missing in what they name", async () => {
    const cli = start(MODEL());
    // A server of one's own may want no key; this one does.
    await answer(cli, [["◆  What now?", DOWN + DOWN + ENTER]]);
    expect(await ended(cli)).toBe("0");
    const bot = start(["--telegram-address", telegram.apiRoot]);
    await answer(bot, [["◆  Bot token", telegram.token + ENTER]]);
    expect(await ended(bot)).toBe("0");
    await Promise.all([cli.ended(), bot.ended()]);
    expect(seen(bot)).not.toMatch(/Write this to|Slack|Matrix|Discord/);
    expect(dotEnv()).toMatch(/^TELEGRAM_BOT_TOKEN=/m);
  });
});
