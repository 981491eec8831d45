// What may leave the workspace by send_file, and what a person is shown before it does (CH2, QA4).
import { execFileSync } from "node:child_process";
import { linkSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import type { Address } from "../../../src/core/address.ts";
import type { Attachment } from "../../../src/core/attachment.ts";
import { createSecrets } from "../../../src/core/secrets.ts";
import type { ToolContext } from "../../../src/core/tool.ts";
import { createPromptFiles } from "../../../src/tools/prompt-files.ts";
import { createSendFileTool, type FileOutlet } from "../../../src/tools/send-file.ts";
import { callTool, toolContext } from "../../support/tool-context.ts";

const CHAT: Address = { channel: "web", account: "local", chat: "main", kind: "dm" };

let workspace: string;
/** What left, and what the calls before this process stored. */
let posted: { name: string; text: string; caption: string; address: Address }[];
let stored: Map<string, Attachment>;
beforeEach(() => {
  workspace = mkdtempSync(join(tmpdir(), "herald-send-"));
  posted = [];
  stored = new Map();
});
afterEach(() => rmSync(workspace, { recursive: true, force: true }));

const outlet: FileOutlet = {
  maxBytes: async () => 1_000_000,
  known: async (call) => stored.get(call) ?? null,
  async post({ call, name, bytes, caption, address }) {
    posted.push({ name, text: bytes.toString(), caption, address });
    const file: Attachment = { id: call, name, type: "text/plain", size: bytes.length };
    stored.set(call, file);
    return { file };
  },
  async queue({ caption, address }, file) {
    posted.push({ name: file.name, text: "(as it was stored)", caption, address });
    return { file };
  },
};
const tool = createSendFileTool({ outlet, promptFiles: createPromptFiles({ workspaces: () => [workspace] }) });
const secrets = createSecrets();
secrets.add("API_KEY", "sk-0123456789abcdef");
const send = (args: unknown, more: Partial<ToolContext> = {}) => callTool(tool, args, { workspace, address: CHAT, secrets, ...more });

describe("send_file", () => {
  it("[CH2] FILE-003 a FIFO, a second name of a file and the memory of whoever sent it out stay here", async () => {
    execFileSync("sh", ["-c", 'mkfifo "$0"', join(workspace, "pipe")]);
    writeFileSync(join(workspace, "one.txt"), "one");
    linkSync(join(workspace, "one.txt"), join(workspace, "two.txt"));
    mkdirSync(join(workspace, "memory"));
    writeFileSync(join(workspace, "memory", "AGENT.md"), "private");
    expect((await send({ path: "pipe" })).text).toContain("is not a regular file");
    expect((await send({ path: "two.txt" })).text).toContain("has 2 hard links");
    expect((await send({ path: "memory/AGENT.md" }, { runId: "run" })).text).toContain("is the agent's memory");
    expect((await send({ path: "one.txt" }, { address: null })).text).toBe("There is no chat this could be sent to.");
    expect(posted).toEqual([]);
  });

  it("[CH2] FILE-003 a secret is found wherever it stands, also across the places where it is looked for", async () => {
    for (const before of [0, 512 * 1024 - 5, 600_000]) {
      writeFileSync(join(workspace, "a.bin"), Buffer.concat([Buffer.alloc(before, 0xfe), Buffer.from("sk-0123456789abcdef")]));
      expect((await send({ path: "a.bin" })).text).toBe("“a.bin” was not sent: it holds a secret of this gateway.");
    }
    expect(posted).toEqual([]);
  });

  it("[QA4] FILE-003 the yes is for what was shown: swapped since, nothing leaves", async () => {
    writeFileSync(join(workspace, "r.txt"), "harmless");
    const args = { path: "r.txt", caption: "Look" };
    const shown = await tool.preview?.(tool.schema.parse(args), toolContext({ workspace }));
    expect(shown?.markdown).toBe("sends this file of the workspace (8 B) into the chat, with these words:\n\n```\nr.txt\n\nLook\n```");
    writeFileSync(join(workspace, "r.txt"), "swapped!");
    const basis = shown?.basis ?? "";
    expect((await send(args, { basis })).text).toBe("Nothing was sent: the file changed since it was shown.");
    writeFileSync(join(workspace, "r.txt"), "harmless");
    expect((await send(args, { basis })).isError).toBeUndefined();
    expect(posted).toEqual([{ name: "r.txt", text: "harmless", caption: "Look", address: CHAT }]);
  });

  it("[RC1] the same call again sends what it stored, whatever stands in the workspace by now", async () => {
    writeFileSync(join(workspace, "r.txt"), "first");
    await send({ path: "r.txt" }, { callId: "c1" });
    rmSync(join(workspace, "r.txt"));
    expect((await send({ path: "r.txt" }, { callId: "c1" })).text).toContain("is on its way");
    expect(posted.map(({ text }) => text)).toEqual(["first", "(as it was stored)"]);
  });
});
