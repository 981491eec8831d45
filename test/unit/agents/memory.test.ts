import { execFileSync } from "node:child_process";
import { mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { afterEach, beforeEach, expect, it } from "vitest";
import { checkMemoryReference, MEMORY_TIERS, readBootstrap, readMemory, readMemoryReference } from "../../../src/agents/memory.ts";
import { readInside, type SeenFiles } from "../../../src/agents/workspace-file.ts";

let dir: string;
let workspace: string;
beforeEach(() => {
  dir = mkdtempSync(join(tmpdir(), "herald-memory-"));
  workspace = join(dir, "workspace");
  mkdirSync(workspace);
});
afterEach(() => rmSync(dir, { recursive: true }));

function put(path: string, text: string): void {
  const file = join(workspace, path);
  mkdirSync(dirname(file), { recursive: true });
  writeFileSync(file, text);
}

const now = Date.parse("2026-03-02T10:00:00Z");
const names = (sections: readonly { name: string }[]) => sections.map((section) => section.name);

it("[AG5] a main session reads the five bootstrap files that are there, a child only AGENTS.md and TOOLS.md", async () => {
  for (const name of ["USER.md", "SOUL.md", "AGENTS.md", "IDENTITY.md", "TOOLS.md", "OTHER.md"]) put(name, `I am ${name}`);
  expect(names(await readBootstrap({ workspace, forChild: false }))).toEqual([
    "AGENTS.md",
    "TOOLS.md",
    "SOUL.md",
    "IDENTITY.md",
    "USER.md",
  ]);
  expect(await readBootstrap({ workspace, forChild: true })).toEqual([
    { name: "AGENTS.md", text: "I am AGENTS.md", cut: false },
    { name: "TOOLS.md", text: "I am TOOLS.md", cut: false },
  ]);
  rmSync(join(workspace, "AGENTS.md"));
  expect(names(await readBootstrap({ workspace, forChild: true }))).toEqual(["TOOLS.md"]);
  expect(await readBootstrap({ workspace: join(dir, "none"), forChild: false })).toEqual([]);
});

it("[AG5] a file that lay still is not read again, and one that changed is, however fast and of whatever size", async () => {
  const seen: SeenFiles = new Map();
  const root = new URL("../../../", import.meta.url).pathname;
  const whole = { maxBytes: 1_000_000, keep: "head", seen } as const;
  const first = await readInside(root, "package.json", whole);
  expect(await readInside(root, "package.json", whole)).toBe(first);
  expect(await readInside(root, "package.json", { ...whole, maxBytes: 10 })).toMatchObject({ cut: true });
  for (const text of ["one", "two", "six"]) {
    put("AGENTS.md", text);
    expect(await readBootstrap({ workspace, forChild: true, seen })).toMatchObject([{ text }]);
  }
  rmSync(join(workspace, "AGENTS.md"));
  expect(await readBootstrap({ workspace, forChild: true, seen })).toEqual([]);
});

it("[AG5] of a link what it leads to is read each time: its own stamp says nothing about that", async () => {
  const seen: SeenFiles = new Map();
  put("CLAUDE.md", "one");
  symlinkSync("CLAUDE.md", join(workspace, "AGENTS.md"));
  await readBootstrap({ workspace, forChild: true, seen });
  expect([...seen.keys()]).not.toContain(join(workspace, "AGENTS.md"));
});

it("[AG5] a long file is cut with a visible note, at a whole character", async () => {
  put("AGENTS.md", `x${"é".repeat(20_000)}`);
  const [file] = await readBootstrap({ workspace, forChild: true });
  expect(file).toMatchObject({ cut: true });
  expect(file?.text).toMatch(/^xé+\n\[cut: the first 20000 of 40001 bytes are shown\]$/);
});

it("[AG5] links inside the workspace are followed, links out of it and odd files are named, not read", async () => {
  writeFileSync(join(dir, "secret"), "SECRET");
  put("CLAUDE.md", "shared");
  symlinkSync("CLAUDE.md", join(workspace, "AGENTS.md"));
  symlinkSync("../secret", join(workspace, "TOOLS.md"));
  symlinkSync("SOUL.md", join(workspace, "SOUL.md"));
  mkdirSync(join(workspace, "IDENTITY.md"));
  execFileSync("sh", ["-c", 'mkfifo "$0"', join(workspace, "USER.md")]);
  const files = await readBootstrap({ workspace, forChild: false });
  expect(files.map((file) => file.text)).toEqual([
    "shared",
    "[TOOLS.md was not read: it is a link that leads out of the workspace]",
    "[SOUL.md was not read: it is a link]",
    "[IDENTITY.md was not read: it is not a regular file]",
    "[USER.md was not read: it is not a regular file]",
  ]);
});

function fillTiers(): string {
  put("memory/AGENT.md", "- a fact\n");
  put("memory/PERSONA.md", "kind");
  put("memory/pins/über.md", "pin ü");
  put("memory/pins/b.md", "pin b");
  put("memory/pins/a.md", "pin a");
  put("memory/pins/not-a-note.txt", "no");
  put("memory/lessons/l.md", "lesson");
  put("memory/daily/2026-03-02.md", "today");
  put("memory/daily/2026-03-01.md", "yesterday");
  put("memory/daily/2026-02-28.md", "long ago");
  put("memory/peers/42.md", "likes tea");
  put("memory/peers/43.md", "somebody else");
  writeFileSync(join(dir, "CREW.md"), "for all");
  return join(dir, "CREW.md");
}

it("[ME1] a main session sees all tiers, its own peer and the shared CREW.md; a child only the inherited AGENT.md", async () => {
  const crewPath = fillTiers();
  expect(names(await readMemory({ workspace, forChild: false, crewPath, peer: "42", now }))).toEqual([
    ...["PERSONA.md", "AGENT.md", "CREW.md", "pins/a.md", "pins/b.md", "pins/über.md", "lessons/l.md"],
    ...["peers/42.md", "daily/2026-03-01.md", "daily/2026-03-02.md"],
  ]);
  expect(names(await readMemory({ workspace, forChild: false, peer: "../../CREW", now }))).not.toContain("CREW.md");
  expect(await readMemory({ workspace, forChild: true, crewPath, peer: "42", now })).toEqual([
    { name: "AGENT.md", text: "- a fact\n", cut: false },
  ]);
  expect(await readMemory({ workspace: join(dir, "none"), forChild: false, now })).toEqual([]);
});

it("[ME1] of a long memory the newest lines are kept, and the whole block is bounded", async () => {
  put("memory/AGENT.md", `${"- old\n".repeat(5000)}- newest\n`);
  for (let n = 0; n < 40; n++) put(`memory/pins/p${String(n).padStart(2, "0")}.md`, "x".repeat(10_000));
  const sections = await readMemory({ workspace, forChild: false, now });
  expect(sections[0]?.text).toMatch(/^\[cut: the last 16000 of 30009 bytes are shown\]\n[\s\S]*- newest\n$/);
  expect(sections.at(-1)).toMatchObject({ name: "(more)", cut: true });
  expect(sections.reduce((sum, section) => sum + section.text.length, 0)).toBeLessThan(70_000);
});

it("[BF1] a reference is read by tier and key", async () => {
  const crewPath = fillTiers();
  const read = async (reference: Parameters<typeof checkMemoryReference>[0]) => {
    const found = await readMemoryReference({ ...reference, workspace, crewPath });
    return found.ok ? found.sections.map((section) => section.text) : found.error;
  };
  expect(await read({ tier: "AGENT" })).toEqual(["- a fact\n"]);
  expect(await read({ tier: "CREW" })).toEqual(["for all"]);
  expect(await read({ tier: "daily", key: "2026-02-28" })).toEqual(["long ago"]);
  expect(await read({ tier: "peers", key: "43" })).toEqual(["somebody else"]);
  expect(await read({ tier: "pins" })).toEqual(["pin a", "pin b", "pin ü"]);
  expect(await read({ tier: "lessons", key: "l" })).toEqual(["lesson"]);
  expect(await read({ tier: "pins", key: "zz" })).toBe("There is nothing in pins/zz.md.");
  expect(await readMemoryReference({ tier: "CREW", workspace })).toEqual({ ok: false, error: "There is nothing in CREW.md." });
});

it("[BF1] a malformed reference is refused before any file is touched", async () => {
  put("memory/pins/x.md", "x");
  writeFileSync(join(dir, "secret.md"), "SECRET");
  for (const tier of MEMORY_TIERS) {
    for (const key of [
      "",
      "..",
      "../x",
      "../../../secret",
      "/etc/passwd",
      "a/b",
      "a\\b",
      "a\0b",
      ".hidden",
      "a..b",
      "x".repeat(200),
      "a\n",
    ]) {
      expect((await readMemoryReference({ tier, key, workspace })).ok, `${tier} ${key}`).toBe(false);
      expect(checkMemoryReference({ tier, key }), `${tier} ${key}`).not.toBeNull();
    }
  }
  for (const key of ["2026-13-01", "today", "2026-1-1"]) expect(checkMemoryReference({ tier: "daily", key })).toContain("date");
  expect(checkMemoryReference({ tier: "daily" })).toBe("tier daily needs a key");
  expect(checkMemoryReference({ tier: "peers" })).toBe("tier peers needs a key");
  expect(checkMemoryReference({ tier: "AGENT", key: "x" })).toBe("tier AGENT takes no key");
  symlinkSync("../../../secret.md", join(workspace, "memory/pins/out.md"));
  expect(await readMemoryReference({ tier: "pins", key: "out", workspace })).toMatchObject({
    ok: true,
    sections: [{ text: expect.stringContaining("was not read") }],
  });
});
