import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { writeSection } from "../../support/readme-section.ts";

let folder: string;
let readme: string;

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "herald-readme-"));
  readme = join(folder, "README.md");
});

afterEach(() => rmSync(folder, { recursive: true, force: true }));

describe("writeSection", () => {
  const around = (text: string): string =>
    `# Title\n\n<!-- figures:bench -->\n\n${text}\n\n<!-- /figures:bench -->\n\n<!-- figures:chaos -->old<!-- /figures:chaos -->\n`;

  it("replaces the text of its own section only, and the same way again", () => {
    writeFileSync(readme, around("old"));
    writeSection(readme, "bench", "| $& | new |\n");
    expect(readFileSync(readme, "utf8")).toBe(around("| $& | new |"));
    writeSection(readme, "bench", "| newer |");
    expect(readFileSync(readme, "utf8")).toBe(around("| newer |"));
  });

  it.each([
    ["no comments", "# Title\n"],
    ["no end", "<!-- figures:bench -->\n"],
    ["the end first", "<!-- /figures:bench --><!-- figures:bench -->"],
    ["the end on both sides", "<!-- /figures:bench --><!-- figures:bench --><!-- /figures:bench -->"],
    ["two of them", around("old").repeat(2)],
  ])("refuses %s and leaves the file as it is", (_, text) => {
    writeFileSync(readme, text);
    expect(() => writeSection(readme, "bench", "new")).toThrow("needs <!-- figures:bench -->");
    expect(readFileSync(readme, "utf8")).toBe(text);
  });
});
