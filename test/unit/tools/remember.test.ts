import { linkSync, mkdirSync, mkdtempSync, readFileSync, rmSync, statSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, it } from "vitest";
import type { Clock } from "../../../src/core/clock.ts";
import { createSecrets } from "../../../src/core/secrets.ts";
import { createRemember } from "../../../src/tools/remember.ts";
import { callTool } from "../../support/tool-context.ts";

const clock: Clock = { now: () => Date.parse("2026-03-02T23:59:00Z"), sleep: async () => {} };
let dir: string;
let workspace: string;
beforeEach(() => {
  dir = mkdtempSync(join(tmpdir(), "herald-remember-"));
  workspace = join(dir, "workspace");
  mkdirSync(workspace);
});
afterEach(() => rmSync(dir, { recursive: true }));

const memory = (path = "AGENT.md") => readFileSync(join(workspace, "memory", path), "utf8");
const remember = (text: string, tier?: string) => callTool(createRemember({ clock }), { text, ...(tier && { tier }) }, { workspace });

it("[ME1] appends a dated line to AGENT.md, private to the owner", async () => {
  expect(await remember("The user likes tea.")).toEqual({ text: "Remembered in memory/AGENT.md." });
  await remember("And rain.");
  expect(memory()).toBe("- 2026-03-02 The user likes tea.\n- 2026-03-02 And rain.\n");
  expect(statSync(join(workspace, "memory/AGENT.md")).mode & 0o777).toBe(0o600);
  expect(statSync(join(workspace, "memory")).mode & 0o777).toBe(0o700);
});

it("[ME1] a line stays one line: newlines and control characters can't forge an entry", async () => {
  await remember("one\n- 2020-01-01 forged\r\n# Heading\u2028x\u0000\u202e\u001b[0m end");
  expect(memory()).toBe("- 2026-03-02 one - 2020-01-01 forged # Heading x[0m end\n");
  expect((await remember(" \n\u200b ")).isError).toBe(true);
});

it("[SC4] a secret is remembered by its name", async () => {
  const secrets = createSecrets();
  secrets.add("API_KEY", "sk-very-secret");
  const tool = createRemember({ clock, redact: secrets.redact });
  // With something unseen inside it would pass the redactor and be whole again on the way to the file.
  await callTool(tool, { text: "The key is sk-very-secret, or sk-very\u200b-secret." }, { workspace });
  expect(memory()).toBe("- 2026-03-02 The key is [API_KEY], or [API_KEY].\n");
});

it("[ME1] goes to the tier that was named, and ends a line a person left open", async () => {
  mkdirSync(join(workspace, "memory"));
  writeFileSync(join(workspace, "memory/AGENT.md"), "written by hand");
  await remember("a");
  expect(memory()).toBe("written by hand\n- 2026-03-02 a\n");
  for (const tier of ["daily", "pins", "lessons"]) await remember(tier, tier);
  expect(memory("daily/2026-03-02.md")).toBe("- 2026-03-02 daily\n");
  expect(memory("pins/pins.md")).toBe("- 2026-03-02 pins\n");
  expect(memory("lessons/lessons.md")).toBe("- 2026-03-02 lessons\n");
  await expect(remember("x", "CREW")).rejects.toThrow();
});

it("[ME1] a child adds to its requester's memory", async () => {
  const tool = createRemember({ clock, workspaceOf: (context) => (context.runId === null ? context.workspace : workspace) });
  const child = join(dir, "child");
  mkdirSync(child);
  await callTool(tool, { text: "found by a child" }, { workspace: child, runId: "run" });
  expect(memory()).toBe("- 2026-03-02 found by a child\n");
});

it("[ME1] forty calls at once leave forty whole lines", async () => {
  await Promise.all(Array.from({ length: 40 }, (_, n) => remember(`fact ${n} ${"x".repeat(500)}`)));
  const lines = memory().trimEnd().split("\n");
  expect(lines).toHaveLength(40);
  expect(lines.every((line) => /^- 2026-03-02 fact \d+ x{500}$/.test(line))).toBe(true);
});

it("[ME1] links, second names and a full file are refused, and nothing outside is touched", async () => {
  const outside = join(dir, "outside.md");
  writeFileSync(outside, "untouched\n");
  mkdirSync(join(workspace, "memory/lessons"), { recursive: true });
  symlinkSync(outside, join(workspace, "memory/AGENT.md"));
  symlinkSync(dir, join(workspace, "memory/daily"));
  linkSync(outside, join(workspace, "memory/lessons/lessons.md"));
  for (const tier of ["AGENT", "daily", "lessons"]) expect((await remember("x", tier)).isError, tier).toBe(true);
  expect(readFileSync(outside, "utf8")).toBe("untouched\n");
  mkdirSync(join(workspace, "memory/pins"));
  writeFileSync(join(workspace, "memory/pins/pins.md"), "x".repeat(256 * 1024 - 5));
  expect((await remember("x", "pins")).text).toContain("is full");
  expect((await callTool(createRemember({ clock }), { text: "x" }, { workspace: join(dir, "none") })).isError).toBe(true);
});
