// Figures in README.md are put there by the command that measured them, between two comments nobody sees:
// <!-- figures:NAME --> … <!-- /figures:NAME -->
import { readFileSync, writeFileSync } from "node:fs";

/** Replaces what stands between the two comments of `name`; throws when they are not there exactly once and in order. */
export function writeSection(readmePath: string, name: string, text: string): void {
  const opening = `<!-- figures:${name} -->`;
  const closing = `<!-- /figures:${name} -->`;
  const [before, inside, ...more] = readFileSync(readmePath, "utf8").split(opening);
  const [, after, ...evenMore] = inside?.split(closing) ?? [];
  if (before === undefined || after === undefined || before.includes(closing) || more.length + evenMore.length > 0) {
    throw new Error(`${readmePath} needs ${opening} and ${closing} once each, in this order`);
  }
  writeFileSync(readmePath, `${before}${opening}\n\n${text.trim()}\n\n${closing}${after}`);
}
