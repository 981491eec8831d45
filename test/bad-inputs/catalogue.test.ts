// The catalogue of bad inputs against the tests: every id stands in the title of a test that proves what becomes of it.
// Rows marked `later` belong to parts that are not built yet.
import { readFileSync } from "node:fs";
import { glob } from "node:fs/promises";
import { join } from "node:path";
import { expect, it } from "vitest";
import catalogue from "./catalogue.json" with { type: "json" };

interface BadInput {
  readonly id: string;
  readonly group: string;
  readonly what: string;
  readonly later?: boolean;
}

const ROOT = new URL("../../", import.meta.url).pathname;
const inputs: readonly BadInput[] = catalogue;

/** `it("…"`, `test.skipIf(…)("…"`, `it.each([…])("…"`: a quoted text that begins with a rule is a title. */
const TITLE = /(["'`])\s*(\[[A-Z]{2}\d+\](?:(?!\1)[^\\\n]|\\.)*)\1/g;

async function titles(): Promise<string[]> {
  const found: string[] = [];
  for await (const file of glob("test/**/*.{test,contract}.ts", { cwd: ROOT })) {
    for (const [, , title = ""] of readFileSync(join(ROOT, file), "utf8").matchAll(TITLE)) found.push(title);
  }
  return found;
}

it("[RC4] every bad input of the catalogue is named in the title of a test", async () => {
  const named = new Set((await titles()).flatMap((title) => title.match(/\b[A-Z]{2,5}-\d{3}\b/g) ?? []));
  const missing = inputs.filter(({ id, later }) => later !== true && !named.has(id)).map(({ id, what }) => `${id} ${what}`);
  expect(missing).toEqual([]);
  const unknown = [...named].filter((id) => !inputs.some((input) => input.id === id));
  expect(unknown, "ids in titles that the catalogue does not have").toEqual([]);
});

it("[RC4] the catalogue has each id once, in words of one line", () => {
  expect(new Set(inputs.map(({ id }) => id)).size).toBe(inputs.length);
  for (const { id, group, what } of inputs)
    expect(
      [id, group, what].every((text) => /^\S.*\S$/.test(text)),
      id,
    ).toBe(true);
});
