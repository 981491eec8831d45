// Everything that is made from the code and checked in: config/herald.schema.json from the zod schema, the tables of docs/settings.md from
// the same, the lists of docs/commands.md from the commands themselves. test/documents.test.ts fails when one is stale.
import { readFileSync } from "node:fs";
import { configJsonSchema } from "../../src/config/schema.ts";
import { withSection } from "../support/document-section.ts";
import { chatCommands, terminalCommands } from "./command-lists.ts";
import { type SchemaNode, settingsTables } from "./settings-tables.ts";

const ROOT = new URL("../../", import.meta.url);

export interface Made {
  /** From the top of the project. */
  readonly path: string;
  readonly text: string;
}

export function madeDocuments(): Made[] {
  const schema = configJsonSchema();
  const sections = (path: string, made: Readonly<Record<string, string>>): Made => ({
    path,
    text: Object.entries(made).reduce(
      (text, [name, content]) => withSection(text, `generated:${name}`, content),
      readFileSync(new URL(path, ROOT), "utf8"),
    ),
  });
  return [
    { path: "config/herald.schema.json", text: `${JSON.stringify(schema, null, 2)}\n` },
    sections("docs/settings.md", { settings: settingsTables(schema as SchemaNode) }),
    sections("docs/commands.md", { terminal: terminalCommands(), chat: chatCommands() }),
  ];
}
