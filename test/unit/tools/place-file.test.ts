// Copies of attached files in a workspace: laid once, and taken away only as long as they are ours.
import { createHash } from "node:crypto";
import { existsSync, linkSync, mkdirSync, mkdtempSync, readFileSync, rmSync, statSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, it } from "vitest";
import { attachmentPath, cleanFileName } from "../../../src/core/attachment.ts";
import { placeFile, removePlaced } from "../../../src/tools/place-file.ts";

const PATH = "attachments/1a2b3c4d-notes.md";
const BYTES = Buffer.from("as it was sent");
const LAID = { size: BYTES.length, sha256: createHash("sha256").update(BYTES).digest("hex") };

let workspace: string;
beforeEach(() => {
  workspace = mkdtempSync(join(tmpdir(), "herald-place-"));
});
afterEach(() => rmSync(workspace, { recursive: true, force: true }));
const at = (path = PATH): string => join(workspace, path);
const remove = () => removePlaced(workspace, PATH, LAID);

it("[CH2] is laid read-only, once: nothing is read for what stands there already, and nothing stands there of what is gone", async () => {
  expect(await placeFile(workspace, PATH, async () => null)).toBe(false);
  expect(existsSync(at())).toBe(false);
  expect(await placeFile(workspace, PATH, async () => BYTES)).toBe(true);
  expect(statSync(at()).mode & 0o777).toBe(0o400);
  expect(await placeFile(workspace, PATH, () => expect.unreachable("nobody reads it"))).toBe(true);
});

it("[CH2] under a name as long as names may be, in letters of three bytes each, with its ending", async () => {
  const name = cleanFileName(`${"報告書".repeat(100)}.pdf`);
  const path = attachmentPath({ id: "1a2b3c4d-0000-4000-8000-000000000000", name });
  expect(path).toMatch(/^attachments\/1a2b3c4d-報告書.*[報告書]-?\.pdf$/);
  expect(await placeFile(workspace, path, async () => BYTES)).toBe(true);
  expect(readFileSync(at(path), "utf8")).toBe("as it was sent");
  expect(attachmentPath({ id: "1a2b3c4d", name: `${"x".repeat(116)}.pdf` })).toBe(`attachments/1a2b3c4d-${"x".repeat(116)}.pdf`);
});

it("[CH2] is taken away as it was laid there; what lies beside it stays, and without it nothing happens", async () => {
  expect(await remove()).toBe(false);
  await placeFile(workspace, PATH, async () => BYTES);
  writeFileSync(at("attachments/notes.md"), BYTES);
  expect(await remove()).toBe(true);
  expect(existsSync(at())).toBe(false);
  expect(readFileSync(at("attachments/notes.md"), "utf8")).toBe("as it was sent");
  expect(await remove()).toBe(false);
});

it("[CH2] stays where a person changed it, put something else in its place, or gave it a second name", async () => {
  await placeFile(workspace, PATH, async () => BYTES);
  rmSync(at());
  writeFileSync(at(), "as it was SENT");
  expect(await remove()).toBe(false);
  writeFileSync(at(), "something else");
  expect(await remove()).toBe(false);
  expect(readFileSync(at(), "utf8")).toBe("something else");
  writeFileSync(at(), BYTES);
  linkSync(at(), at("kept.md"));
  await expect(remove()).rejects.toThrow("hard links");
  expect(existsSync(at())).toBe(true);
});

it("[CH2] [TL7] follows no link out of the workspace", async () => {
  const outside = mkdtempSync(join(tmpdir(), "herald-outside-"));
  try {
    writeFileSync(join(outside, "1a2b3c4d-notes.md"), BYTES);
    symlinkSync(outside, at("attachments"));
    await expect(remove()).rejects.toThrow();
    rmSync(at("attachments"));
    mkdirSync(at("attachments"));
    symlinkSync(join(outside, "1a2b3c4d-notes.md"), at());
    await expect(remove()).rejects.toThrow("not a regular file");
    expect(readFileSync(join(outside, "1a2b3c4d-notes.md"), "utf8")).toBe("as it was sent");
  } finally {
    rmSync(outside, { recursive: true, force: true });
  }
});
