import { type ChildProcess, execFileSync, spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync } from "node:fs";
import { chmod, link, mkdir, open, readdir, readFile, stat, symlink, writeFile } from "node:fs/promises";
import { createServer } from "node:net";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { createSecrets } from "../../../src/core/secrets.ts";
import type { Tool } from "../../../src/core/tool.ts";
import { createFileTools } from "../../../src/tools/files.ts";
import { createPromptFiles } from "../../../src/tools/prompt-files.ts";
import { createToolBench, type ToolBench } from "../../support/tool-bench.ts";

let bench: ToolBench;
let secret: string;
let tools: Record<string, Tool>;

beforeEach(async () => {
  bench = await createToolBench();
  secret = join(bench.outer, "secret.txt");
  await writeFile(secret, "TOP SECRET");
  tools = Object.fromEntries(createFileTools().map((tool) => [tool.name, tool]));
});
afterEach(() => bench.remove());

const at = (...names: string[]) => join(bench.workspace, ...names);
const call = (name: string, args: unknown, over = {}) => bench.call(tools[name], args, over);

describe("read", () => {
  it("[TL1] returns a text file as it is", async () => {
    await writeFile(at("a.txt"), "ä one\r\ntwo\n");
    expect(await call("read", { path: "a.txt" })).toEqual({ text: "ä one\r\ntwo\n" });
  });

  it("[TL1] pages by lines: following the notes gives every line once", async () => {
    const lines = Array.from({ length: 25_000 }, (_, n) => `line ${n + 1} ${"x".repeat(n % 40)}`);
    await writeFile(at("long.txt"), lines.join("\n"));
    const seen: string[] = [];
    let offset: number | null = 1;
    for (let page = 0; offset !== null && page < 100; page += 1) {
      const { text }: { text: string } = await call("read", { path: "long.txt", offset, limit: 9000 });
      expect(Buffer.byteLength(text)).toBeLessThan(50 * 1024);
      const note: RegExpExecArray | null = /\n\n\[The file goes on .*offset (\d+)\.\]$/.exec(text);
      seen.push(...(note === null ? text : text.slice(0, note.index)).split("\n"));
      offset = note === null ? null : Number(note[1]);
    }
    expect(seen).toEqual(lines);
  });

  it("[TL1] cuts a line longer than a page, says so, and refuses an offset behind the end", async () => {
    await writeFile(at("one-line.txt"), `${"x".repeat(300_000)}\nlast`);
    const first = await call("read", { path: "one-line.txt" });
    expect(first.text).toContain("offset 2. Line 1 is too long and was cut");
    expect((await call("read", { path: "one-line.txt", offset: 2 })).text).toBe("last");
    expect(await call("read", { path: "one-line.txt", offset: 9 })).toMatchObject({
      isError: true,
      text: expect.stringContaining("ends at line 2"),
    });
  });

  it("[TL1] recognises binary and empty files, and folders", async () => {
    await writeFile(at("image.png"), Buffer.from([0x89, 0x50, 0x4e, 0x47, 0, 0, 0]));
    await writeFile(at("empty"), "");
    await mkdir(at("folder"));
    expect((await call("read", { path: "image.png" })).text).toContain("binary file of 7 bytes");
    expect((await call("read", { path: "empty" })).text).toContain("is empty");
    expect(await call("read", { path: "folder" })).toMatchObject({ isError: true, text: expect.stringContaining("is a folder") });
    expect(await call("read", { path: "none" })).toMatchObject({ isError: true, text: expect.stringContaining("does not exist") });
  });

  it("[TL1] accepts absolute paths inside, as the host or the sandbox spells them", async () => {
    await mkdir(at("src"));
    await writeFile(at("src/a.txt"), "A");
    expect((await call("read", { path: at("src/a.txt") })).text).toBe("A");
    expect((await call("read", { path: "/workspace/src/a.txt" })).text).toBe("A");
    expect((await call("read", { path: `${bench.workspace}-other/a.txt` })).isError).toBe(true);
  });
});

// Every spelling that means "elsewhere".
const ESCAPES = [
  ["..", "../secret.txt"],
  [".. inside", "a/../../secret.txt"],
  ["home folder", "~/.ssh/authorized_keys"],
  ["absolute path", "/etc/passwd"],
  ["/proc/self/root", "/proc/self/root/etc/passwd"],
  ["process environment", "/proc/self/environ"],
  ["device", "/dev/sda"],
  ["drive letter", "C:\\x"],
  ["backslashes", "..\\secret.txt"],
  ["URL", "file:///etc/passwd"],
  ["dots against filters", "....//....//etc"],
  ["NUL", "a\0.txt"],
  ["line break", "a\nb"],
  ["endless path", "a/".repeat(5000)],
] as const;

describe("outside the workspace", () => {
  it.each(ESCAPES)("[TL7] FS-015 refuses %s in every file tool", async (_name, path) => {
    for (const [tool, args] of [
      ["read", {}],
      ["write", { content: "x" }],
      ["edit", { oldText: "TOP", newText: "x" }],
      ["list", {}],
    ] as const) {
      const result = await call(tool, { path, ...args });
      expect(result).toMatchObject({ isError: true, text: expect.stringContaining("only paths inside the workspace are allowed") });
    }
    expect(await readdir(bench.workspace)).toEqual([]);
    expect(await readFile(secret, "utf8")).toBe("TOP SECRET");
  });

  it("[TL7] FS-013 refuses links that leave, also dangling ones and loops, and follows links that stay", async () => {
    await mkdir(at("docs"));
    await writeFile(at("docs/real.txt"), "inside");
    await symlink("docs/real.txt", at("stays"));
    await symlink(secret, at("leaves"));
    await symlink(bench.outer, at("out"));
    await symlink(join(bench.outer, "new.txt"), at("dangling"));
    await symlink("loop-b", at("loop-a"));
    await symlink("loop-a", at("loop-b"));
    expect((await call("read", { path: "stays" })).text).toBe("inside");
    for (const path of ["leaves", "out/secret.txt", "dangling", "loop-a", "out"]) {
      expect(await call("read", { path })).toMatchObject({ isError: true, text: expect.stringMatching(/link/) });
      expect((await call("write", { path, content: "x" })).isError).toBe(true);
    }
    expect((await call("write", { path: "out/new.txt", content: "x" })).isError).toBe(true);
    expect(await readFile(secret, "utf8")).toBe("TOP SECRET");
    expect(existsSync(join(bench.outer, "new.txt"))).toBe(false);
  });

  it("[TL7] refuses hard links for reading and writing", async () => {
    await link(secret, at("second-name"));
    for (const [tool, args] of [
      ["read", {}],
      ["write", { content: "x" }],
      ["edit", { oldText: "TOP", newText: "x" }],
    ] as const) {
      expect(await call(tool, { path: "second-name", ...args })).toMatchObject({
        isError: true,
        text: expect.stringContaining("hard links"),
      });
    }
    expect(await readFile(secret, "utf8")).toBe("TOP SECRET");
  });

  it("[TL7] FS-013 refuses FIFOs, sockets and devices at once", async () => {
    execFileSync("sh", ["-c", 'mkfifo "$0"', at("pipe")]);
    const server = createServer().listen(at("socket"));
    await once(server, "listening");
    await symlink("/dev/zero", at("zero"));
    for (const path of ["pipe", "socket", "zero"]) {
      expect((await call("read", { path })).isError).toBe(true);
      expect((await call("write", { path, content: "x" })).isError).toBe(true);
    }
    expect((await call("list", {})).text).toBe("pipe (FIFO)\nsocket (socket)\nzero@");
    server.close();
    await once(server, "close");
  });

  it.skipIf(process.platform !== "linux")("[TL7] a folder swapped for a link during the call never leads out", async () => {
    await mkdir(at("dir"));
    await writeFile(at("dir/file.txt"), "inside");
    const outside = join(bench.outer, "outside");
    await mkdir(outside);
    await writeFile(join(outside, "file.txt"), "OUTSIDE");
    await symlink(outside, at("link"));
    const swapper = startSwapper(bench.workspace, outside);
    const answers = new Set<string>();
    try {
      const end = Date.now() + 1500;
      while (Date.now() < end) {
        const [read, write] = await Promise.all([
          call("read", { path: "dir/file.txt" }),
          call("write", { path: "dir/written.txt", content: "inside" }),
          call("write", { path: "dir/deep/written.txt", content: "inside" }),
        ]);
        answers.add(read.isError ? "refused" : read.text);
        answers.add(write.isError ? "refused" : "written");
      }
    } finally {
      await stopSwapper(swapper);
    }
    expect(answers).toContain("refused");
    expect(answers).not.toContain("OUTSIDE");
    expect(await readdir(outside)).toEqual(["file.txt"]);
  });
});

/** Another process that exchanges `dir` and `link` as fast as it can, and sets them up again when a write came between. */
function startSwapper(cwd: string, outside: string): ChildProcess {
  const code = `const fs = require("node:fs");
    const [outside] = process.argv.slice(1);
    const end = Date.now() + 20000;
    while (Date.now() < end) try {
      fs.renameSync("dir", "parked"); fs.renameSync("link", "dir"); fs.renameSync("dir", "link"); fs.renameSync("parked", "dir");
    } catch {
      try {
        for (const name of ["dir", "link", "parked"]) fs.rmSync(name, { recursive: true, force: true });
        fs.mkdirSync("dir"); fs.writeFileSync("dir/file.txt", "inside"); fs.symlinkSync(outside, "link");
      } catch {}
    }`;
  return spawn(process.execPath, ["-e", code, outside], { cwd, stdio: "ignore" });
}

async function stopSwapper(swapper: ChildProcess): Promise<void> {
  const gone = once(swapper, "exit");
  if (swapper.exitCode !== null) throw new Error("the swapper ended early");
  swapper.kill("SIGKILL");
  await gone;
}

describe("write", () => {
  it("[TL1] creates folders, replaces in one step, keeps the mode and leaves nothing behind", async () => {
    expect((await call("write", { path: "a/b/c.sh", content: "one" })).text).toContain("Created");
    await chmod(at("a/b/c.sh"), 0o750);
    const before = await open(at("a/b/c.sh"));
    expect((await call("write", { path: "a/b/c.sh", content: "two" })).text).toContain("Replaced");
    // A reader that had it open keeps the old content whole.
    expect(await before.readFile("utf8")).toBe("one");
    await before.close();
    expect(await readFile(at("a/b/c.sh"), "utf8")).toBe("two");
    expect((await stat(at("a/b/c.sh"))).mode & 0o777).toBe(0o750);
    expect(await readdir(at("a/b"))).toEqual(["c.sh"]);
  });

  it("[RO2] write and edit do nothing in a read-only workspace", async () => {
    await writeFile(at("a.txt"), "one");
    for (const [tool, args] of [
      ["write", { content: "x" }],
      ["edit", { oldText: "one", newText: "x" }],
    ] as const) {
      expect(await call(tool, { path: "a.txt", ...args }, { readOnly: true })).toMatchObject({
        isError: true,
        text: expect.stringContaining("read-only"),
      });
    }
    expect(await readFile(at("a.txt"), "utf8")).toBe("one");
  });

  it("[ST2] a stopped run changes nothing any more", async () => {
    expect((await call("write", { path: "a.txt", content: "x" }, { signal: AbortSignal.abort() })).isError).toBe(true);
    expect(await readdir(bench.workspace)).toEqual([]);
  });

  it("[TL7] a folder or the workspace itself can't be overwritten", async () => {
    await mkdir(at("folder"));
    for (const path of ["folder", ".", "folder/../folder"]) expect((await call("write", { path, content: "x" })).isError).toBe(true);
    await writeFile(at("file"), "");
    expect(await call("write", { path: "file/below.txt", content: "x" })).toMatchObject({ isError: true });
  });
});

describe("edit", () => {
  it("[TL1] replaces a unique match and answers with a diff", async () => {
    await writeFile(at("a.txt"), "1\n2\n3\n4\nold $& value\n6\n7\n8\n9\n");
    const { text } = await call("edit", { path: "a.txt", oldText: "old $& value", newText: "new $1 value\nand more" });
    expect(text).toBe('@@ -2,7 +2,8 @@\n 2\n 3\n 4\n-old $& value\n+new $1 value\n+and more\n 6\n 7\n 8\n\nEdited "a.txt".');
    expect(await readFile(at("a.txt"), "utf8")).toBe("1\n2\n3\n4\nnew $1 value\nand more\n6\n7\n8\n9\n");
  });

  it("[TL1] refuses no match, several matches, no change and files that are not text", async () => {
    await writeFile(at("a.txt"), "x\ny\nx\n");
    await writeFile(at("latin1.txt"), Buffer.from([0x78, 0xe4, 0x0a]));
    const refused = async (args: object, words: string) =>
      expect(await call("edit", { path: "a.txt", ...args })).toMatchObject({ isError: true, text: expect.stringContaining(words) });
    await refused({ oldText: "z", newText: "y" }, "was not found");
    await refused({ oldText: "x", newText: "y" }, "occurs 2 times (lines 1, 3)");
    await refused({ oldText: "y", newText: "y" }, "nothing to change");
    await refused({ path: "latin1.txt", oldText: "x", newText: "y" }, "not UTF-8");
    expect(await readFile(at("a.txt"), "utf8")).toBe("x\ny\nx\n");
    const all = await call("edit", { path: "a.txt", oldText: "x", newText: "w", replaceAll: true });
    expect(all.text).toContain("in 2 places");
    expect(await readFile(at("a.txt"), "utf8")).toBe("w\ny\nw\n");
  });

  it("[TL1] keeps Windows line ends", async () => {
    await writeFile(at("a.txt"), "one\r\ntwo\r\nthree\r\n");
    await call("edit", { path: "a.txt", oldText: "one\ntwo", newText: "1\n2" });
    expect(await readFile(at("a.txt"), "utf8")).toBe("1\r\n2\r\nthree\r\n");
  });

  it("[IN4] what nobody can see in a file is spelled out, and can be edited and written back as it was", async () => {
    const text = "let key\u200b = '\u202e1'; // می\u200cخواهم 👩\u200d👧\nlone\rreturn ⟦U+200B⟧\n";
    await writeFile(at("a.ts"), text);
    const shown = "let key⟦U+200B⟧ = '⟦U+202E⟧1'; // می\u200cخواهم 👩\u200d👧\nlone⟦U+000D⟧return ⟦U+27E6⟧U+200B⟧\n";
    expect((await call("read", { path: "a.ts" })).text).toBe(shown);
    await call("write", { path: "b.ts", content: shown });
    expect(await readFile(at("b.ts"), "utf8")).toBe(text);
    const edited = await call("edit", { path: "a.ts", oldText: "key⟦U+200B⟧ = '⟦U+202E⟧1'", newText: "key⟦U+200B⟧ = 2" });
    expect(edited.text).toContain("\n-let key⟦U+200B⟧ = '⟦U+202E⟧1'; //");
    await call("edit", { path: "a.ts", oldText: "return ⟦U+27E6⟧U+200B⟧", newText: "return" });
    expect(await readFile(at("a.ts"), "utf8")).toBe("let key\u200b = 2; // می\u200cخواهم 👩\u200d👧\nlone\rreturn\n");
  });

  it("[TL1] of a long replacement only the lines that differ are shown, at the right numbers, also at both ends of the file", async () => {
    const lines = Array.from({ length: 40 }, (_, n) => `line ${n + 1}`);
    await writeFile(at("a.txt"), lines.join("\n"));
    const block = lines.slice(9, 30).join("\n");
    const { text } = await call("edit", { path: "a.txt", oldText: block, newText: block.replace("line 20", "line twenty") });
    expect(text).toMatch(/^@@ -17,7 \+17,7 @@\n line 17\n line 18\n line 19\n-line 20\n\+line twenty\n line 21\n line 22\n line 23\n/);
    const first = await call("edit", { path: "a.txt", oldText: "line 1\n", newText: "" });
    expect(first.text).toMatch(/^@@ -1,4 \+1,3 @@\n-line 1\n line 2\n line 3\n line 4\n/);
    const last = await call("edit", { path: "a.txt", oldText: "line 40", newText: "the end" });
    expect(last.text).toMatch(/^@@ -36,4 \+36,4 @@\n line 37\n line 38\n line 39\n-line 40\n.*\n\+the end\n/);
  });

  it("[TL1] however large the file, the answer comes at once and is short", async () => {
    const lines = Array.from({ length: 100_000 }, (_, n) => `line ${n + 1}`);
    await writeFile(at("a.txt"), lines.join("\n"));
    const startedAt = performance.now();
    const one = await call("edit", { path: "a.txt", oldText: "line 50000", newText: "here" });
    expect(one.text).toContain("@@ -49997,7 +49997,7 @@");
    const all = await call("edit", { path: "a.txt", oldText: "line", newText: "row", replaceAll: true });
    expect(all.text).toContain("more places changed the same way");
    expect(performance.now() - startedAt).toBeLessThan(2000);
    const empty = "\n".repeat(400_000);
    await writeFile(at("b.txt"), `${empty}x`);
    expect((await call("edit", { path: "b.txt", oldText: empty, newText: "" })).text).toContain("too long to show");
  });

  it("[SC4] a secret in a file, read by its name, survives being written back or edited around, and is put nowhere else", async () => {
    const secrets = createSecrets();
    secrets.add("API_KEY", "sk-very-secret");
    const [, write, edit] = createFileTools(createPromptFiles(), secrets);
    await writeFile(at(".env"), "A=1\nKEY=sk-very-secret\nB=2\n");
    await bench.call(edit, { path: ".env", oldText: "KEY=[API_KEY]\nB=2", newText: "KEY=[API_KEY]\nB=3" });
    expect(await readFile(at(".env"), "utf8")).toBe("A=1\nKEY=sk-very-secret\nB=3\n");
    await bench.call(write, { path: ".env", content: "KEY='[API_KEY]'\nA=1\n" });
    expect(await readFile(at(".env"), "utf8")).toBe("KEY='sk-very-secret'\nA=1\n");
    const edited = await bench.call(edit, { path: ".env", oldText: "A=1", newText: "A=2" });
    expect(edited.text).not.toContain("very-secret");
    for (const [tool, args] of [
      [write, { path: "copy.env", content: "KEY=[API_KEY]" }],
      [write, { path: "notes.md", content: "[API_KEY]" }],
      [edit, { path: "notes.md", oldText: "x", newText: "[API_KEY]" }],
    ] as const) {
      await writeFile(at("notes.md"), "x");
      expect(await bench.call(tool, args)).toMatchObject({ isError: true, text: expect.stringContaining("stands for a secret") });
      expect(await readFile(at("notes.md"), "utf8")).toBe("x");
    }
    expect(await readdir(bench.workspace)).not.toContain("copy.env");
    await bench.call(write, { path: ".env", content: "A=1\n" });
    expect(await readFile(at(".env"), "utf8")).toBe("A=1\n");
  });

  it("[SC4] the name a secret is shown by is changed as a whole or not at all: never is its value lost in a part of it", async () => {
    const secrets = createSecrets();
    secrets.add("providers.two.apiKey", "ghp_0123456789");
    const edit = createFileTools(createPromptFiles(), secrets)[2];
    const content = '{"apiKey": "ghp_0123456789", "is": "[apiKey] ghp_0123456789"}\n';
    const tryEdit = async (oldText: string, newText: string, replaceAll: boolean) => {
      await writeFile(at("conf.json"), content);
      const result = await bench.call(edit, { path: "conf.json", oldText, newText, replaceAll });
      return { ...result, now: await readFile(at("conf.json"), "utf8") };
    };
    const renamed = await tryEdit("apiKey", "api_key", true);
    expect(renamed).toMatchObject({ text: expect.stringContaining("in 2 places"), now: content.replaceAll("apiKey", "api_key") });
    expect(renamed.text).toContain('+{"api_key": "[providers.two.apiKey]", "is": "[api_key] [providers.two.apiKey]"}');
    for (const part of ["two", '"[providers', 'apiKey]", "is', ']"}'])
      expect(await tryEdit(part, "x", false)).toMatchObject({
        isError: true,
        text: expect.stringContaining("can't be changed in part"),
        now: content,
      });
    const dropped = await tryEdit('"[providers.two.apiKey]"', "null", false);
    expect(dropped.now).toBe(content.replace('"ghp_0123456789"', "null"));
  });

  it("[TL1] several edits of one file at once all take effect", async () => {
    const words = Array.from({ length: 20 }, (_, n) => `word${n}.`);
    await writeFile(at("a.txt"), words.join("\n"));
    const results = await Promise.all(words.map((word) => call("edit", { path: "a.txt", oldText: word, newText: word.toUpperCase() })));
    expect(results.filter((result) => result.isError)).toEqual([]);
    expect(await readFile(at("a.txt"), "utf8")).toBe(words.join("\n").toUpperCase());
  });
});

describe("list", () => {
  it("[TL1] shows sorted paths to the asked depth, folders marked, without opening node_modules", async () => {
    await mkdir(at("src/core"), { recursive: true });
    await mkdir(at("node_modules/x"), { recursive: true });
    await writeFile(at("src/core/a.ts"), "");
    await writeFile(at("b.txt"), "");
    expect((await call("list", {})).text).toBe("b.txt\nnode_modules/\nsrc/");
    expect((await call("list", { depth: 3 })).text).toBe("b.txt\nnode_modules/\nsrc/\nsrc/core/\nsrc/core/a.ts");
    expect((await call("list", { path: "src" })).text).toBe("src/core/");
  });

  it("[TL1] FS-013 shows names that try to forge lines, hide or are not UTF-8 escaped", async () => {
    await writeFile(at("a\nb\u202e.txt"), "");
    await writeFile(Buffer.concat([Buffer.from(`${bench.workspace}/bad`), Buffer.from([0xff])]), "");
    expect((await call("list", {})).text).toBe("a\\nb\\u{202e}.txt\nbad\\xff");
  });

  it("[TL1] FS-013 stays bounded in a big folder and says that there is more", async () => {
    await mkdir(at("many"));
    for (let from = 0; from < 3000; from += 500) {
      await Promise.all(Array.from({ length: 500 }, (_, n) => writeFile(at("many", `f${String(from + n).padStart(5, "0")}`), "")));
    }
    const { text } = await call("list", { path: "many" });
    expect(text.split("\n\n")[0]?.split("\n")).toHaveLength(1000);
    expect(text).toContain("\n\n[Not everything is listed");
  });
});
