// The licences of the packages whose code is in the bundle: most ask that their text goes along.
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";

interface Licence {
  /** `zod 4.6.7 (MIT)` */
  readonly title: string;
  readonly text: string;
}

/** One text for all packages that have the same one. `modules`: paths of all that is in it, also of ours. */
export function licencesOf(modules: readonly string[]): string {
  const folders = new Set(modules.flatMap((path) => folderOf(path) ?? []));
  const titles = new Map<string, string[]>();
  for (const { title, text } of [...folders].map(licenceIn).sort((a, b) => a.title.localeCompare(b.title, "en")))
    titles.set(text, [...(titles.get(text) ?? []), title]);
  const parts = [...titles].map(([text, of]) => `${of.join("\n")}\n\n${text}\n`);
  return `Herald is built from its own code (LICENSE) and from that of these packages.\n\n${parts.join(`\n${"-".repeat(80)}\n\n`)}`;
}

const folderOf = (path: string): string | undefined => /^.*\/node_modules\/(?:@[^/]+\/)?[^/]+(?=\/)/.exec(path)?.[0];

/** Throws when a package says nothing: then somebody has to look. */
function licenceIn(folder: string): Licence {
  const { name, version, license, author } = JSON.parse(readFileSync(join(folder, "package.json"), "utf8")) as Record<string, unknown>;
  if (typeof license !== "string") throw new Error(`${folder} names no licence`);
  const files = readdirSync(folder).filter((file) => /^(?:licen[cs]e|copying|notice)\b/i.test(file));
  const texts = files.sort().map((file) => readFileSync(join(folder, file), "utf8").replaceAll("\r\n", "\n").trim());
  // Two or three bring none along.
  const text = texts.join("\n\n") || `${license}${author === undefined ? "" : `, by ${writtenBy(author)}`}`;
  return { title: `${name} ${version} (${license})`, text };
}

const writtenBy = (author: unknown): string => (typeof author === "string" ? author : String((author as { name: unknown }).name));
