import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { writeSection } from "../../support/document-section.ts";

let folder: string;
let path: string;

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "herald-document-"));
  path = join(folder, "figures.md");
});

afterEach(() => rmSync(folder, { recursive: true, force: true }));

describe("writeSection", () => {
  const around = (text: string): string =>
    `# Title\n\n<!-- figures:bench -->\n\n${text}\n\n<!-- /figures:bench -->\n\n<!-- figures:chaos -->old<!-- /figures:chaos -->\n`;

  it("replaces the text of its own section only, and the same way again", () => {
    writeFileSync(path, around("old"));
    writeSection(path, "figures:bench", "| $& | new |\n");
    expect(readFileSync(path, "utf8")).toBe(around("| $& | new |"));
    writeSection(path, "figures:bench", "| newer |");
    expect(readFileSync(path, "utf8")).toBe(around("| newer |"));
  });

  it.each([
    ["no comments", "# Title\n"],
    ["no end", "<!-- figures:bench -->\n"],
    ["the end first", "<!-- /figures:bench --><!-- figures:bench -->"],
    ["the end on both sides", "<!-- /figures:bench --><!-- figures:bench --><!-- /figures:bench -->"],
    ["two of them", around("old").repeat(2)],
  ])("refuses %s and leaves the file as it is", (_, text) => {
    writeFileSync(path, text);
    expect(() => writeSection(path, "figures:bench", "new")).toThrow("needs <!-- figures:bench -->");
    expect(readFileSync(path, "utf8")).toBe(text);
  });
});
