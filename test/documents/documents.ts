// README, docs/ and the other documents for people, taken apart: code, commands, links, headings.
import { globSync, readFileSync } from "node:fs";
import { fromMarkdown } from "mdast-util-from-markdown";
import { gfmFromMarkdown } from "mdast-util-gfm";
import { gfm } from "micromark-extension-gfm";

export const ROOT = new URL("../../", import.meta.url).pathname;

interface Node {
  readonly type: string;
  readonly value?: string;
  readonly url?: string;
  readonly lang?: string | null;
  readonly children?: readonly Node[];
  readonly position?: { readonly start: { readonly line: number } };
}

/** Something in a document, and where: `docs/install.md:12`. */
export interface Found {
  readonly at: string;
  readonly text: string;
}

export interface Document {
  /** From the top of the project. */
  readonly path: string;
  readonly text: string;
  /** Blocks of code by language. */
  fences(language: string): Found[];
  /** What stands between back-ticks. */
  spans(): Found[];
  /** Where links, pictures and their sources lead. */
  targets(): Found[];
  /** What a link behind `#` can lead to, as GitHub makes it of headings. */
  anchors(): ReadonlySet<string>;
}

const PATHS = ["README.md", "CONTRIBUTING.md", "CHANGELOG.md", ...globSync("docs/*.md", { cwd: ROOT }).sort()];

export const readDocuments = (): Document[] => PATHS.map((path) => parse(path, readFileSync(`${ROOT}${path}`, "utf8")));

export function parse(path: string, text: string): Document {
  const nodes = [...walk(fromMarkdown(text, { extensions: [gfm()], mdastExtensions: [gfmFromMarkdown()] }) as Node)];
  const found = (node: Node, value: string): Found => ({ at: `${path}:${node.position?.start.line ?? 0}`, text: value });
  return {
    path,
    text,
    fences: (language) =>
      nodes.filter(({ type, lang }) => type === "code" && lang === language).map((node) => found(node, node.value ?? "")),
    spans: () => nodes.filter(({ type }) => type === "inlineCode").map((node) => found(node, node.value ?? "")),
    targets: () => nodes.flatMap((node) => targetsOf(node).map((target) => found(node, target))),
    anchors: () => anchorsOf(nodes),
  };
}

function* walk(node: Node): Generator<Node> {
  yield node;
  for (const child of node.children ?? []) yield* walk(child);
}

function targetsOf({ type, url, value = "" }: Node): string[] {
  if (url !== undefined) return [url];
  return type === "html" ? [...value.matchAll(/(?:src|srcset|href)="([^"]+)"/g)].map((match) => match[1] ?? "") : [];
}

const wordsOf = (node: Node): string => [...walk(node)].map(({ value = "" }) => value).join("");

function anchorsOf(nodes: readonly Node[]): Set<string> {
  const anchors = new Set<string>();
  for (const heading of nodes.filter(({ type }) => type === "heading")) {
    const plain = wordsOf(heading)
      .toLowerCase()
      .replace(/[^\p{L}\p{N}\s_-]/gu, "")
      .replace(/\s/g, "-");
    let anchor = plain;
    for (let n = 1; anchors.has(anchor); n++) anchor = `${plain}-${n}`;
    anchors.add(anchor);
  }
  return anchors;
}

/** The commands of a block of shell, a line each, without what is said about them. */
export const commandsIn = ({ at, text }: Found): Found[] =>
  text
    .replaceAll("\\\n", " ")
    .split("\n")
    .map((line) => line.replace(/(?:^|\s+)# .*$/, "").trim())
    .filter((line) => line !== "")
    .map((line) => ({ at, text: line }));
