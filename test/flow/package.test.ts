// The package as people get it (test/support/packed.ts): what is in it, and that it does from an empty folder what the sources do. Built
// and installed once for all of these.
import { execFileSync, spawn } from "node:child_process";
import { randomUUID } from "node:crypto";
import {
  chmodSync,
  chownSync,
  cpSync,
  existsSync,
  globSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  realpathSync,
  writeFileSync,
} from "node:fs";
import { join } from "node:path";
import { text } from "node:stream/consumers";
import { pathToFileURL } from "node:url";
import { Worker } from "node:worker_threads";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { COMMANDS } from "../../src/cli/table.ts";
import { BROWSER_NOTE, hasBrowser, useBrowser } from "../support/browser.ts";
import { createFakeDiscord, DIRECT } from "../support/fake-discord.ts";
import { createFakeSlack } from "../support/fake-slack.ts";
import { createFakeTelegram } from "../support/fake-telegram.ts";
import { freePort } from "../support/free-port.ts";
import { createHarness, type Harness, NODE } from "../support/harness.ts";
import { connectProgram } from "../support/mcp-client.ts";
import { FORMATS } from "../support/model-formats.ts";
import { createNodes } from "../support/nodes.ts";
import { installPacked, type Packed } from "../support/packed.ts";
import { runHerald } from "../support/run-herald.ts";
import { hasPostgres } from "../support/shared-folder.ts";
import { waitFor } from "../support/wait.ts";

const ROOT = new URL("../../", import.meta.url).pathname;
const OLD_NODE = ["/usr/bin/node", "/usr/local/bin/node"].find((path) => existsSync(path));
const oldMajor = OLD_NODE !== undefined ? Number(/^v(\d+)/.exec(execFileSync(OLD_NODE, ["--version"], { encoding: "utf8" }))?.[1]) : 99;

let packed: Packed;
beforeAll(async () => {
  packed = await installPacked();
}, 300_000);
afterAll(() => packed?.[Symbol.asyncDispose]());

interface End {
  readonly code: number | string | null;
  readonly out: string;
  readonly err: string;
}

/** A program in the project it is installed in, or elsewhere. */
async function start(words: readonly string[], { cwd = packed.project, env = {}, input = "" } = {}): Promise<End> {
  const [program = "", ...args] = words;
  const child = spawn(program, args, { cwd, env: { ...packed.env, ...env }, stdio: ["pipe", "pipe", "pipe"] });
  child.stdin.on("error", () => undefined).end(input);
  const closed = new Promise<void>((resolve) => child.once("close", () => resolve()));
  const [out, err] = await Promise.all([text(child.stdout), text(child.stderr)]);
  await closed;
  return { code: child.exitCode ?? child.signalCode, out, err };
}

const inPackage = (pattern: string): string[] => globSync(pattern, { cwd: packed.folder }).sort();
const read = (path: string): string => readFileSync(join(packed.folder, path), "utf8");

describe("[CL2] what is in the package", () => {
  it("[CL2] no dependency: one package is installed, and it says so", () => {
    const { dependencies, optionalDependencies, devDependencies, scripts, engines, bin } = JSON.parse(read("package.json"));
    expect({ dependencies, optionalDependencies, devDependencies, scripts }).toEqual({ dependencies: {} });
    expect(engines).toEqual({ node: ">=24.15" });
    expect(bin).toEqual({ herald: "src/herald.js" });
    const { packages } = JSON.parse(readFileSync(join(packed.project, "node_modules/.package-lock.json"), "utf8"));
    expect(Object.keys(packages)).toEqual(["node_modules/herald"]);
  });

  it("[CL2] a source map beside every file of code; the sources themselves, tests and settings of anybody are not in it", () => {
    const code = inPackage("src/**/*.js").filter((path) => !path.startsWith("src/web/page/"));
    expect(code.length).toBeGreaterThan(30);
    // One that only hands on what others hold, and what the bundler itself adds, have no line of anybody's.
    const isNobodys = (path: string): boolean => /^export\{[^}]*\}from"[^"]+";$/.test(read(path)) || path.includes("/rolldown-runtime-");
    expect(code.filter((path) => !existsSync(join(packed.folder, `${path}.map`)) && !isNobodys(path))).toEqual([]);
    expect(inPackage("**/*.ts").filter((path) => !path.endsWith(".d.ts"))).toEqual([]);
    const known = [".env.example", "CHANGELOG.md", "LICENSE", "README.md", "THIRD-PARTY-LICENSES", "config", "docs", "package.json", "src"];
    // What it compiled is kept in a node_modules of its own.
    expect(readdirSync(packed.folder).filter((name) => name !== "node_modules")).toEqual(known);
    const maps = inPackage("src/**/*.map").map((path) => JSON.parse(read(path)) as { sources: string[] });
    const sources = maps.flatMap((map) => map.sources);
    expect(sources.some((path) => path === "../gateway/gateway.ts")).toBe(true);
    // Where it was built is nobody's business.
    expect(sources.filter((path) => path.startsWith("/") || path.startsWith("file:"))).toEqual([]);
  });

  it("[CL2] the licence of every package that is bundled goes along", () => {
    const licences = read("THIRD-PARTY-LICENSES");
    const named = new Set([...licences.matchAll(/^(\S+) \d+\.\d+\.\d+\S* \(.+\)$/gm)].map((match) => match[1]));
    const wanted = ["@ai-sdk/anthropic", "@slack/web-api", "defuddle", "grammy", "js-yaml", "lit-html", "pg", "uplot", "zod"];
    expect(wanted.filter((name) => !named.has(name))).toEqual([]);
    expect(named.size).toBeGreaterThan(100);
    expect(licences.includes("Permission is hereby granted, free of charge")).toBe(true);
  });

  it("[CL2] every part loads, with no other package in reach", async () => {
    const parts = inPackage("src/parts/*.js").map((path) => pathToFileURL(join(packed.folder, path)).href);
    const script = `for (const part of ${JSON.stringify(parts)}) await import(part).catch((error) => { console.log(part, error); });`;
    expect(await start([NODE, "--input-type=module", "--eval", script])).toEqual({ code: 0, out: "", err: "" });
  });
});

describe("[CL2] a gateway of the package", () => {
  let herald: Harness;
  beforeAll(async () => {
    herald = await createHarness({ program: packed.program });
  }, 90_000);
  afterAll(() => herald?.[Symbol.asyncDispose]());
  const cli = (...words: string[]): Promise<End> =>
    start([packed.command, ...words], { cwd: herald.dir, env: { HOME: herald.dir, HERALD_STATE_DIR: herald.stateDir } });

  it("[CL2] chats, sends a sub-agent out and announces what it says; the workspace has its first files", async () => {
    await herald.say("hello");
    await herald.reply(/offline model/i);
    await herald.say("in the background, list the files here");
    await herald.reply(/Status: success[\s\S]*AGENTS\.md/);
    expect(readdirSync(join(herald.stateDir, "workspace"))).toEqual(expect.arrayContaining(["AGENTS.md", "README.md", "TOOLS.md"]));
  });

  it("[CL2] kill -9 while it works, and it goes on", async () => {
    const chat = randomUUID();
    await herald.say("in the background, wait 2 seconds", { chat });
    await waitFor("the run", () => herald.rows("SELECT id FROM runs WHERE state = 'running'").length > 0);
    await herald.crash();
    await herald.restart();
    await herald.reply(/Status: success[\s\S]*Waited 2 seconds/, chat);
  });

  it("[CL1][CL2] the command: its help, its version, doctor and status", async () => {
    const help = await cli("--help");
    expect(help).toMatchObject({ code: 0, err: "" });
    for (const { name } of COMMANDS) expect(help.out).toMatch(new RegExp(`^  ${name} +\\S`, "m"));
    const { version } = JSON.parse(readFileSync(join(ROOT, "package.json"), "utf8"));
    expect(await cli("--version")).toEqual({ code: 0, out: `${version}\n`, err: "" });
    expect(await cli("status")).toMatchObject({ code: 0, out: expect.stringContaining(herald.origin()), err: "" });
    const doctor = await cli("doctor");
    expect(doctor).toMatchObject({ code: 0, err: "" });
    expect(doctor.out).toMatch(/^✓ ok +database: /m);
    // It brings none along.
    const bare = await start([NODE, packed.program, "doctor"], { cwd: herald.dir, env: { HOME: herald.dir, PATH: "" } });
    expect(bare.out).toMatch(/^! warn search: ripgrep is missing[\s\S]*apt-get install ripgrep/m);
    expect(await cli("runs", "--json")).toMatchObject({ code: 0, out: expect.stringContaining("list the files here"), err: "" });
  });

  it("[CL1][CL2] setup names what is missing, writes what is not, and tells the gateway", async () => {
    expect(await cli("setup", "--model", "openai")).toMatchObject({
      code: 2,
      out: "",
      err: expect.stringMatching(/^Missing: --key-env\./),
    });
    expect(await cli("setup", "--telegram", "off")).toEqual({
      code: 0,
      err: "",
      out: expect.stringMatching(/^Telegram: Telegram is off\.\nWritten: .*\n(?:Takes effect after a restart|The gateway that runs)/),
    });
  });

  it("[CL1][CL2] the unit of herald service starts this package, and refuses to start one from npm's cache", async () => {
    const { code, out } = await cli("service");
    expect(code).toBe(0);
    expect(out).toContain(`ExecStart="${realpathSync(NODE)}" "${packed.program}" "start"\n`);
    const cached = join(packed.home, ".npm/_npx/1/node_modules/herald");
    mkdirSync(cached, { recursive: true });
    cpSync(packed.folder, cached, { recursive: true });
    expect(await start([NODE, join(cached, "src/herald.js"), "service"])).toMatchObject({
      code: 1,
      out: "",
      err: expect.stringContaining("npm install --global herald"),
    });
  });

  it("[CL2] everything the page asks for is there", async () => {
    const page = await herald.request("/");
    const scripts = [...(page.headers.get("link") ?? "").matchAll(/<([^>]+)>/g)].map((match) => match[1] ?? "");
    expect(scripts.length).toBeGreaterThan(20);
    for (const path of [...scripts, "/style.css", "/lib/uplot.js", "/lib/lit-html/lit-html.js", "/lib/lit-html/directives/repeat.js"]) {
      const response = await herald.request(path);
      expect([path, response.status, (await response.text()).length > 100]).toEqual([path, 200, true]);
    }
  });

  it("[CL3] the health check of the image says whether it serves", async () => {
    const [, words = "[]"] = /^ +CMD (\["node", "-e", .+\])$/m.exec(readFileSync(join(ROOT, "Dockerfile"), "utf8")) ?? [];
    const [, ...args] = JSON.parse(words) as string[];
    const check = (origin: string) => start([NODE, ...args.map((word) => word.replace("http://127.0.0.1:8787", origin))]);
    expect(await check(herald.origin())).toEqual({ code: 0, out: "", err: "" });
    expect(await check(`http://127.0.0.1:${await freePort()}`)).toEqual({ code: 1, out: "", err: "" });
  });

  it("[PR1][CL2] other programs: /mcp with the official client", async () => {
    const [token = ""] = /^herald_\S+$/m.exec((await cli("token", "new", "client")).out) ?? [];
    await using program = await connectProgram(herald.origin(), token);
    const { data } = await program.call("spawn", { task: "list the files here", label: "files" });
    const waited = await program.call("wait", { runId: data.runId, maxSeconds: 50 });
    expect(waited.text).toMatch(/^It has ended \(done\)/);
  });

  describe.skipIf(!hasBrowser)(`in a browser${BROWSER_NOTE}`, () => {
    const visit = useBrowser(1200);

    it("[CL2] the page opens, takes a message and shows the answer, and the chart of the usage is drawn", async () => {
      const token = readFileSync(join(herald.stateDir, "web-token"), "utf8").trim();
      const page = await visit.open(herald.origin(), token);
      await page.fill("#text", "hello from a browser");
      await page.keyboard.press("Enter");
      await page
        .getByText(/offline model/i)
        .first()
        .waitFor();
    });
  });
});

/** One question to a thread of the package's; what it says before its answer is passed over. */
async function ask(path: string, job: unknown): Promise<unknown> {
  const worker = new Worker(pathToFileURL(path), { env: {} });
  const isAnswer = (message: unknown): boolean => typeof message === "string" || "ok" in (message as object);
  try {
    return await new Promise((resolve, reject) => {
      worker.on("message", (message) => isAnswer(message) && resolve(message));
      worker.on("error", reject);
      worker.postMessage(job);
    });
  } finally {
    await worker.terminate();
  }
}

describe("[CL2] what is loaded with its first use", () => {
  it("[CL2] a provider of every kind with the prices that came along, an MCP server's tools, Telegram, Slack and Discord", async () => {
    const respond = () => ({ text: "Said by the fake provider.", usage: { input: 100_000, output: 10_000 } });
    const [telegram, slack, discord, ...models] = await Promise.all([
      createFakeTelegram(),
      createFakeSlack(),
      createFakeDiscord(),
      ...FORMATS.map((format) => format.create({ respond })),
    ]);
    const providers = FORMATS.map(({ api, model }, n) => {
      return [model.split("/")[0], { api, baseUrl: models[n]?.url, apiKey: "key-of-a-fake-0123456789" }];
    });
    try {
      await using herald = await createHarness({
        program: packed.program,
        env: {
          ...{ TELEGRAM_BOT_TOKEN: telegram.token, SLACK_BOT_TOKEN: slack.botToken, SLACK_APP_TOKEN: slack.appToken },
          DISCORD_BOT_TOKEN: discord.botToken,
        },
        config: {
          agents: { defaults: { model: FORMATS[1]?.model } },
          models: { providers: Object.fromEntries(providers) },
          mcp: { servers: { fake: { command: NODE, args: [join(ROOT, "test/support/fake-mcp.mjs"), "good"] } } },
          channels: { telegram: { apiRoot: telegram.apiRoot }, slack: { apiUrl: slack.apiUrl }, discord: { apiUrl: discord.apiUrl } },
        },
      });
      const known = "openai/gpt-4o";
      for (const model of [...FORMATS.map((format) => format.model), known]) {
        const chat = randomUUID();
        await herald.say(`/model ${model}`, { chat });
        await herald.reply(/from the next message on/, chat);
        await herald.say("hello", { chat });
        await herald.reply(/^Said by the fake provider\.$/, chat);
        if (model !== known) continue;
        await herald.say("/usage", { chat });
        expect((await herald.reply(/^\*\*Usage\*\*/, chat)).text).toMatch(/This conversation: tokens .+ • est \$0\.35/);
      }
      await waitFor("its tool to be offered", async () => {
        const chat = randomUUID();
        await herald.say("hello", { chat });
        await herald.reply(/^Said by the fake provider\.$/, chat);
        return models[1]?.calls.at(-1)?.tools.some((tool) => tool.includes("echo"));
      });
      telegram.say({ chat: 42, text: "/start" });
      slack.say({ channel: "D0PERSON", text: "hello" });
      const code = /herald pair [A-Z0-9]{8}/;
      await waitFor("a pairing code on Telegram", () => telegram.messages(42).some((message) => code.test(message.text)));
      await waitFor("a pairing code on Slack", () => slack.messages("D0PERSON").some((message) => code.test(message.text)));
      await discord.until(() => discord.gateway.isUp(), "Discord's session");
      discord.say({ channel: DIRECT, text: "hello" });
      await waitFor("a pairing code on Discord", () => discord.messages(DIRECT).some((message) => code.test(message.content)));
    } finally {
      await Promise.all([telegram, slack, discord, ...models].map((server) => server.close()));
    }
  });

  it("[CL2] threads and processes of its own: patterns and schemas, code and formulas, the reader of pages", async () => {
    const schema = { type: "object", required: ["colour"] };
    const judged = await ask(join(packed.folder, "src/tools/judge-worker.js"), {
      kind: "data",
      schema,
      candidates: [{}, { colour: "red" }],
    });
    expect(judged).toEqual({ ok: true, index: 1 });
    const html = await ask(join(packed.folder, "src/web/markdown-worker.js"), "```js\nconst a = 1;\n```\n\n$a^2$\n\n| a |\n|---|\n| b |\n");
    expect(html).toMatch(/<span class="hljs-keyword">const<\/span>[\s\S]*<math[\s\S]*<table>/);
    const page = {
      html: `<article><h1>Fences</h1>${"<p>A fence keeps what is <b>inside</b>.</p>".repeat(9)}</article>`,
      url: "https://example.com/",
    };
    const reader = [NODE, "--permission", "--allow-fs-read=*", join(packed.folder, "src/tools/readable-process.js")];
    const { code, out } = await start(reader, { input: JSON.stringify(page) });
    expect(code).toBe(0);
    expect(JSON.parse(out).text).toContain("A fence keeps what is **inside**.");
  });

  it.skipIf(!hasPostgres())("[CL2] two of them on PostgreSQL", async () => {
    await using nodes = await createNodes(2, { program: packed.program });
    await nodes.say("in the background, list the files here");
    await nodes.reply(/Status: success/);
  });
});

describe("[CL2] herald/brief in somebody else's project", () => {
  const SCRIPT = `import { Brief, DocumentError, validateBrief } from "herald/brief";
const brief = Brief.create({ delegator: "a", delegatee: "b", body: "Paint the fence." });
const back = Brief.parse(brief.content);
const response = back.createResponse({ status: "success", body: "Done." });
let refused = false;
try { Brief.parse("no document"); } catch (error) { refused = error instanceof DocumentError; }
console.log(JSON.stringify({ body: back.body.trim(), answers: response.id === brief.id, refused, valid: validateBrief(brief.content).valid }));
`;

  it("[BP2][CL2] from JavaScript", async () => {
    writeFileSync(join(packed.project, "use.mjs"), SCRIPT);
    const { code, out, err } = await start([NODE, "use.mjs"]);
    expect({ code, err }).toEqual({ code: 0, err: "" });
    expect(JSON.parse(out)).toEqual({ body: "Paint the fence.", answers: true, refused: true, valid: true });
  });

  it("[BP2][CL2] from TypeScript: its types are found, need no other package, and hold", async () => {
    writeFileSync(
      join(packed.project, "use.ts"),
      `${SCRIPT.replace("console.log(", "export const said = (")}
import { type BriefMeta, type ResponseStatus, Trace } from "herald/brief";
const meta: BriefMeta = brief.meta;
const id: string = meta.id;
const more: unknown = meta["anything"];
const status: ResponseStatus = response.status;
const trace: Trace = Trace.create().append({ agent: id, action: "spawn" });
export { more, status, trace };
`,
    );
    const tsc = (file: string, resolution: string): Promise<End> => {
      const options = `--ignoreConfig --noEmit --strict --skipLibCheck false --lib esnext --target es2022 --types  --module ${resolution}`;
      return start([NODE, join(ROOT, "node_modules/typescript/bin/tsc"), file, ...options.split(" ")]);
    };
    for (const resolution of ["nodenext", "esnext --moduleResolution bundler"])
      expect(await tsc("use.ts", resolution)).toEqual({ code: 0, out: "", err: "" });
    writeFileSync(join(packed.project, "wrong.ts"), 'import { Brief } from "herald/brief";\nBrief.create({ delegator: 1 });\n');
    expect(await tsc("wrong.ts", "nodenext")).toMatchObject({ code: 1, out: expect.stringMatching(/^wrong\.ts\(2,\d+\): error TS/) });
  });
});

describe("[CL2] odd places", () => {
  const NOBODY = 54_321;
  const isRoot = process.getuid?.() === 0;

  it.skipIf(!isRoot)("[CL2] CLI-011 a path with blanks and an ü, nothing to write there, a user nobody knows, no HOME", async () => {
    const folder = join(packed.dir, "an ünusual  place/node_modules/herald");
    cpSync(packed.folder, folder, { recursive: true, filter: (path) => !path.startsWith(join(packed.folder, "node_modules")) });
    chmodSync(packed.dir, 0o755);
    const program = join(folder, "src/herald.js");
    const prepare = (dir: string): void => chownSync(dir, NOBODY, NOBODY);
    const config = "{ web: { port: 0 }, models: { probeLocal: false } }";
    await using herald = runHerald({ program, uid: NOBODY, config, prepare, env: { HOME: undefined } });
    const origin = await herald.ready();
    expect((await fetch(`${origin}/lib/uplot.js`)).status).toBe(200);
    expect(readdirSync(join(herald.stateDir, "workspace"))).toContain("AGENTS.md");
    expect(await ask(join(folder, "src/tools/judge-worker.js"), { kind: "match", pattern: "a", text: "a" })).toEqual({ ok: true });
    expect(existsSync(join(folder, "node_modules"))).toBe(false);
    herald.kill("SIGTERM");
    expect(await herald.ended()).toBe(0);

    await using homeless = runHerald({ program, uid: NOBODY, config, prepare, env: { HOME: undefined, HERALD_STATE_DIR: undefined } });
    expect(await homeless.ended()).toBe(1);
    expect(homeless.stderr()).toMatch(/^There is no home folder: set HERALD_STATE_DIR .*\n$/);
  });

  it.skipIf(oldMajor >= 24)("[RN1][CL2] CLI-011 on an older Node it says so in one sentence and exits 1", async () => {
    const { code, out, err } = await start([OLD_NODE ?? "", packed.program]);
    expect({ code, out }).toEqual({ code: 1, out: "" });
    expect(err).toMatch(/^Herald needs Node 24\.15 or newer; this is \d+\.\d+\.\d+\. .*\n$/);
  });
});
