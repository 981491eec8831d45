// What is wrong with the settings, in words: zod's issues → one line each with the file, the path inside it, and what
// would be accepted there. Values are never shown: the wrong one may be a secret in the wrong place.
import type { z } from "zod";
import { AppError } from "../core/errors.ts";
import { didYouMean } from "./nearest.ts";
import { configJsonSchema } from "./schema.ts";
import type { Path, Problem } from "./text.ts";

type Issue = z.core.$ZodIssue;

/** The parts of JSON Schema our own schema uses. */
interface Node {
  type?: string;
  const?: unknown;
  enum?: unknown[];
  anyOf?: Node[];
  properties?: Record<string, Node>;
  additionalProperties?: Node | false;
  items?: Node;
  minimum?: number;
  maximum?: number;
  maxLength?: number;
  maxItems?: number;
}

const MAX_LINES = 50;

/** One error for the whole file, at most 50 lines. */
export function configError(file: string, problems: readonly Problem[]): AppError {
  const all = new Set(problems.map(({ path, text }) => `${file}: ${path.length === 0 ? "" : `${showPath(path)}: `}${text}`));
  const lines = [...all].slice(0, MAX_LINES);
  if (all.size > MAX_LINES) lines.push(`${file}: and ${all.size - MAX_LINES} more problems`);
  return new AppError("config", lines.join("\n"));
}

/** zod's issues as problems, in the order zod found them. */
export function toProblems(issues: readonly Issue[], tree: unknown): Problem[] {
  const schema = configJsonSchema() as Node;
  return issues.flatMap((issue) => describeIssue(issue, schema, tree));
}

function describeIssue(issue: Issue, schema: Node, tree: unknown): Problem[] {
  const path = issue.path.map((part) => (typeof part === "number" ? part : String(part)));
  const node = nodeAt(schema, path);
  switch (issue.code) {
    case "unrecognized_keys":
      // Beyond the lines that are shown the nearest key isn't worth looking for.
      return issue.keys.map((key, i) => ({ path: [...path, key], text: i < MAX_LINES ? unknownKey(key, keysOf(node)) : "unknown key" }));
    case "invalid_union": {
      // The branch that fits the value's type knows what is wrong inside it.
      const branch = issue.errors.find((errors) => !errors.some((inner) => inner.path.length === 0 && inner.code === "invalid_type"));
      if (branch === undefined) break;
      return branch.flatMap((inner) => describeIssue({ ...inner, path: [...issue.path, ...inner.path] }, schema, tree));
    }
    case "invalid_key":
      return issue.issues.map((inner) => ({ path, text: inner.message }));
    case "custom":
    case "invalid_format":
      return [{ path, text: issue.message }];
  }
  const missing = valueAt(tree, path) === undefined;
  return [
    { path, text: `${missing ? "is missing" : "has a wrong value"}; accepted: ${node === undefined ? issue.message : accepted(node)}` },
  ];
}

const unknownKey = (key: string, known: readonly string[]): string =>
  `unknown key.${didYouMean(key, known)} Accepted here: ${known.join(", ")}`;

const branches = (node: Node | undefined): Node[] => (node === undefined ? [] : (node.anyOf ?? [node]));
const keysOf = (node: Node | undefined): string[] => branches(node).flatMap(({ properties = {} }) => Object.keys(properties));

function nodeAt(schema: Node, path: Path): Node | undefined {
  return path.reduce<Node | undefined>((node, part) => {
    for (const branch of branches(node)) {
      if (typeof part === "number" && branch.items !== undefined) return branch.items;
      if (branch.properties !== undefined && Object.hasOwn(branch.properties, part)) return branch.properties[part];
      if (typeof part === "string" && branch.additionalProperties) return branch.additionalProperties;
    }
    return undefined;
  }, schema);
}

function valueAt(tree: unknown, path: Path): unknown {
  return path.reduce<unknown>(
    (value, part) => (typeof value === "object" && value !== null && Object.hasOwn(value, part) ? Reflect.get(value, part) : undefined),
    tree,
  );
}

function accepted(node: Node): string {
  if (node.enum !== undefined) return node.enum.map((value) => JSON.stringify(value)).join(" | ");
  if (node.const !== undefined) return JSON.stringify(node.const);
  if (node.anyOf !== undefined) return node.anyOf.map(accepted).join(" | ");
  const range = node.minimum === undefined || node.maximum === undefined ? "" : ` from ${node.minimum} to ${node.maximum}`;
  switch (node.type) {
    case "integer":
      return `a whole number${range}`;
    case "number":
      return `a number${range}`;
    case "boolean":
      return "true | false";
    case "array":
      return `a list${node.maxItems === undefined ? "" : ` (at most ${node.maxItems})`} of: ${node.items === undefined ? "anything" : accepted(node.items)}`;
    case "object":
      return node.properties === undefined ? "a block {name: …}" : `a block {${Object.keys(node.properties).join(", ")}}`;
    default:
      return `text${node.maxLength === undefined ? "" : ` of at most ${node.maxLength} characters`}`;
  }
}

/** `agents.list[0].id`, `groups["-100"]`; odd names are quoted and cut, so that a line stays a line. */
export function showPath(path: Path): string {
  return path.reduce<string>((shown, part) => {
    if (typeof part === "number") return `${shown}[${part}]`;
    if (!/^[A-Za-z_$][\w$]{0,63}$/.test(part)) return `${shown}[${JSON.stringify(part.slice(0, 64))}]`;
    return shown === "" ? part : `${shown}.${part}`;
  }, "");
}
