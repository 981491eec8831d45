// A tool as a model is told of it: its name, its words, and its schema as JSON Schema.
import { z } from "zod";
import type { Tool } from "../core/tool.ts";
import type { ToolSpec } from "../models/model.ts";

export function toSpec(tool: Tool): ToolSpec {
  const { $schema: _, ...parameters } = z.toJSONSchema(tool.schema, { io: "input", override: leaveNullOut });
  return { name: tool.name, description: tool.description, parameters };
}

/** Some models send null for what they leave out, and it is taken so; telling all of them costs tokens in every request. */
function leaveNullOut({ zodSchema, jsonSchema }: Parameters<NonNullable<z.core.ToJSONSchemaParams["override"]>>[0]): void {
  if (zodSchema._zod.def.type !== "nullable") return;
  const { anyOf, ...words } = jsonSchema;
  delete jsonSchema.anyOf;
  Object.assign(jsonSchema, anyOf?.[0], words);
}

export function acceptedOf(tool: Tool): string {
  const { properties, required } = toSpec(tool).parameters as { properties?: Record<string, unknown>; required?: string[] };
  return Object.keys(properties ?? {})
    .map((name) => (required?.includes(name) === true ? `${name} (required)` : name))
    .join(", ");
}
