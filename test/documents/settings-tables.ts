// docs/settings.md, the part that is generated: a table for each block at the top of the settings, a row for each key, from the
// JSON schema that zod makes of src/config/.

export interface SchemaNode {
  readonly type?: string;
  readonly description?: string;
  readonly default?: unknown;
  readonly enum?: readonly unknown[];
  readonly const?: unknown;
  readonly minimum?: number;
  readonly maximum?: number;
  readonly minLength?: number;
  readonly maxLength?: number;
  readonly maxItems?: number;
  readonly properties?: Readonly<Record<string, SchemaNode>>;
  readonly required?: readonly string[];
  readonly additionalProperties?: SchemaNode | boolean;
  readonly items?: SchemaNode;
  readonly anyOf?: readonly SchemaNode[];
}

interface Setting {
  readonly path: string;
  readonly node: SchemaNode;
  readonly isRequired: boolean;
}

/** Every key with its path: of a list `list[].id`, of a map `servers.<name>.url`. */
export function* settingsOf(node: SchemaNode, path = ""): Generator<Setting> {
  for (const [key, inner] of Object.entries(node.properties ?? {})) {
    const own = path === "" ? key : `${path}.${key}`;
    yield { path: own, node: inner, isRequired: node.required?.includes(key) === true };
    yield* settingsOf(inner, own);
  }
  if (node.items !== undefined) yield* settingsOf(node.items, `${path}[]`);
  if (typeof node.additionalProperties === "object") yield* settingsOf(node.additionalProperties, `${path}.<name>`);
  for (const one of node.anyOf ?? []) yield* settingsOf(one, path);
}

export function settingsTables(schema: SchemaNode): string {
  const blocks = Object.entries(schema.properties ?? {}).filter(([name]) => name !== "$schema");
  return blocks
    .map(([name, block]) =>
      [
        `## ${name}`,
        "",
        block.description ?? "",
        "",
        "| setting | accepts | default | |",
        "|---|---|---|---|",
        ...settingsOf(block, name).map(rowOf),
      ].join("\n"),
    )
    .join("\n\n");
}

const rowOf = ({ path, node, isRequired }: Setting): string =>
  `| \`${path}\` | ${cell(kindOf(node))} | ${isRequired ? "required" : defaultOf(node)} | ${cell(node.description ?? "")} |`;

/** A bar ends a cell, and a bracket could begin HTML. */
const cell = (text: string): string => text.replaceAll("|", "\\|").replaceAll("<", "&lt;");

const isBlock = (node: SchemaNode): boolean => node.type === "object" && node.properties !== undefined;

/** A block's own default is what its keys say. */
function defaultOf(node: SchemaNode): string {
  if (node.default === undefined || isBlock(node)) return "";
  const text = JSON.stringify(node.default);
  return text === "{}" && node.anyOf !== undefined ? "" : `\`${text}\``;
}

const NAMES: Readonly<Record<string, string>> = { boolean: "true or false", number: "number", integer: "whole number", string: "text" };

function kindOf(node: SchemaNode): string {
  if (node.enum !== undefined) return node.enum.map((value) => `\`${String(value)}\``).join(", ");
  if (node.const !== undefined) return `\`${String(node.const)}\``;
  if (node.anyOf !== undefined) return [...new Set(node.anyOf.map(kindOf))].join(" or ");
  if (node.type === "array") return `list of ${entriesOf(node.items)}${atMost(node.maxItems)}`;
  if (isBlock(node)) return "block";
  if (node.type === "object") return "map by name";
  return `${NAMES[node.type ?? ""] ?? "value"}${rangeOf(node)}`;
}

function entriesOf(items: SchemaNode = {}): string {
  const kind = kindOf(items);
  return kind === "block" ? "blocks" : kind;
}

const atMost = (count: number | undefined): string => (count === undefined ? "" : `, at most ${grouped(count)}`);

function rangeOf({ type, minimum, maximum, minLength, maxLength }: SchemaNode): string {
  if (type === "string")
    return maxLength === undefined ? "" : `, ${minLength === undefined ? "at most" : `${minLength} to`} ${grouped(maxLength)} characters`;
  return minimum === undefined || maximum === undefined ? "" : `, ${grouped(minimum)} to ${grouped(maximum)}`;
}

/** 604 800 rather than 604800. */
const grouped = (count: number): string => (count < 10_000 ? String(count) : count.toLocaleString("en-US").replaceAll(",", " "));
