// What a program writes into a document stands between two comments nobody sees: <!-- figures:bench --> … <!-- /figures:bench -->.
// figures:… come from the commands that measure (docs/figures.md), generated:… from `npm run schema`. The words around them are people's.
import { readFileSync, writeFileSync } from "node:fs";

/** Where bench and chaos put what they found. */
export const FIGURES = new URL("../../docs/figures.md", import.meta.url).pathname;

/** `text` with something else between the two comments of `name`; throws when they are not there exactly once and in order. */
export function withSection(text: string, name: string, content: string): string {
  const opening = `<!-- ${name} -->`;
  const closing = `<!-- /${name} -->`;
  const [before, inside, ...more] = text.split(opening);
  const [, after, ...evenMore] = inside?.split(closing) ?? [];
  if (before === undefined || after === undefined || before.includes(closing) || more.length + evenMore.length > 0) {
    throw new Error(`needs ${opening} and ${closing} once each, in this order`);
  }
  return `${before}${opening}\n\n${content.trim()}\n\n${closing}${after}`;
}

/** The same in a file, which stays as it is when it can't be done. */
export function writeSection(path: string, name: string, content: string): void {
  const text = readFileSync(path, "utf8");
  try {
    writeFileSync(path, withSection(text, name, content));
  } catch (error) {
    throw new Error(`${path}: ${(error as Error).message}`, { cause: error });
  }
}
