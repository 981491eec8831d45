// One JSON object per line, whatever is logged: control characters escaped, secrets named, long lines cut.
import { expect, it } from "vitest";
import { createLogger, type LoggerOptions } from "../../../src/core/logger.ts";
import { createSecrets } from "../../../src/core/secrets.ts";

async function logging(options: Partial<LoggerOptions> = {}) {
  const lines: string[] = [];
  const secrets = createSecrets();
  const log = await createLogger({ level: "info", pretty: false, secrets, write: (line) => void lines.push(line), ...options });
  return { log, lines, secrets, last: () => JSON.parse(lines.at(-1) ?? "null") as Record<string, unknown> };
}

it("[OB1] a line is one JSON object with level, time, ids and message", async () => {
  const { log, lines, last } = await logging();
  log.child({ sessionKey: "agent:main:web:dm:main" }).child({ runId: "r1" }).info({ n: 1 }, "hello");
  expect(last()).toMatchObject({ level: "info", sessionKey: "agent:main:web:dm:main", runId: "r1", n: 1, msg: "hello" });
  expect(last().time).toBeTypeOf("number");
  expect(last()).not.toHaveProperty("hostname");
  expect(lines[0]?.endsWith("}\n")).toBe(true);
});

it("[OB1] SEC-006 line breaks, escapes and invisible control characters can't forge a line", async () => {
  const { log, lines, last } = await logging();
  log.warn({ text: 'a\n{"level":"error","msg":"forged"}\r\u001b[31m\u0000' }, "odd\ninput");
  expect(lines).toHaveLength(1);
  expect(lines[0]?.trimEnd()).not.toMatch(/\p{Cc}/u);
  expect(last()).toMatchObject({ level: "warn", msg: "odd\ninput" });
});

it("[SC4] a secret shows as its name, in fields, messages and errors", async () => {
  const { log, lines, secrets } = await logging();
  secrets.add("BOT_TOKEN", "123456:very-secret");
  const error = new Error("GET https://api/bot123456:very-secret/x failed", { cause: new Error("123456:very-secret") });
  log.error({ err: error, url: "bot123456:very-secret" }, "failed with 123456:very-secret");
  expect(lines.join("")).not.toContain("very-secret");
  expect(lines.join("")).toContain("[BOT_TOKEN]");
});

it("[OB1] a huge line is cut and stays one valid JSON object with its level and message", async () => {
  const { log, lines, last } = await logging();
  log.error({ text: '"\\\n'.repeat(100_000) }, `big ${"m".repeat(5_000)}`);
  expect(lines[0]?.length).toBeLessThan(20_000);
  expect(last()).toMatchObject({ level: "error", cut: expect.any(String) });
  expect(String(last().msg).length).toBeLessThanOrEqual(1_000);
});

it("[OB1] an error keeps type, message, stack and cause", async () => {
  const { log, last } = await logging();
  log.error({ err: new Error("outer", { cause: new Error("inner") }) }, "x");
  expect(last().err).toMatchObject({ type: "Error", message: expect.stringContaining("outer") });
  expect(JSON.stringify(last().err)).toContain("inner");
});

it("[OB1] below the level nothing is written", async () => {
  const { log, lines } = await logging({ level: "warn" });
  log.debug({}, "no");
  log.info({}, "no");
  expect(lines).toEqual([]);
});

it("[OB1] pretty lines are for people, and still without secrets", async () => {
  const { log, lines, secrets } = await logging({ pretty: true });
  secrets.add("KEY", "abcdefghijkl");
  log.info({ a: 1 }, "hello abcdefghijkl");
  expect(lines.join("")).toContain("hello [KEY]");
  expect(() => JSON.parse(lines.join(""))).toThrow();
});

it("[OB1] SEC-006 a pretty line obeys nothing that was logged: no colours, titles, cleared screens, forged lines", async () => {
  const { log, lines } = await logging({ pretty: true });
  const hostile = "x\u001b[2J\u001b]0;owned\u0007\n12:00:00 ERROR forged\r\u202e\u009b31m";
  const error = new Error(hostile, { cause: new Error(hostile) });
  log.child({ [hostile]: hostile }).error({ text: hostile, list: [hostile], err: error }, hostile);
  const written = lines.join("");
  // pino-pretty's own colours are the only escapes.
  // biome-ignore lint/suspicious/noControlCharactersInRegex: they are what is looked for
  expect(written.replace(/\u001b\[\d*m/g, "")).not.toMatch(/[^\P{C}\n\t]/u);
  expect(written).not.toMatch(/^12:00:00/m);
  expect(written).toContain("x\\u{1b}[2J\\u{1b}]0;owned\\u{7}\\n12:00:00 ERROR forged\\r\\u{202e}\\u{9b}31m");
  expect(written).toMatch(/\n +at /);
});
