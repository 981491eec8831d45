// The form of an MCP server (a JSON schema of one flat object) as questions with buttons, and what a person's words mean in it. Pure.
import { shortText, visibleLine } from "../core/visible-text.ts";

export interface Field {
  readonly name: string;
  readonly type: "string" | "number" | "integer" | "boolean";
  readonly isRequired: boolean;
  /** In words, as far as the server has some. */
  readonly text: string;
  readonly options: readonly string[];
  /** Behind each option; empty: anything of its type. */
  readonly values: readonly unknown[];
}

const MAX_FIELDS = 10;
const MAX_OPTIONS = 6;
const MAX_TEXT = 500;
const TYPES = ["string", "number", "integer", "boolean"] as const;

/** Null: it is of no shape that can be asked for in a chat. */
export function fieldsOf(schema: unknown): Field[] | null {
  const { properties = {}, required = [] } = asRecord(schema);
  const entries = Object.entries(asRecord(properties));
  if (entries.length > MAX_FIELDS) return null;
  const fields = entries.map(([name, property]) => fieldOf(name, asRecord(property), Array.isArray(required) && required.includes(name)));
  return fields.every((field) => field !== null) ? fields : null;
}

const asRecord = (value: unknown): Record<string, unknown> =>
  typeof value === "object" && value !== null && !Array.isArray(value) ? (value as Record<string, unknown>) : {};

function fieldOf(name: string, property: Record<string, unknown>, isRequired: boolean): Field | null {
  const type = TYPES.find((one) => one === property.type);
  if (type === undefined) return null;
  const choices = choicesOf(type, property);
  const words = [property.title ?? name, property.description]
    .filter((one) => typeof one === "string")
    .map((one) => shortText(visibleLine(one, MAX_TEXT), MAX_TEXT));
  const listed = choices.length > MAX_OPTIONS ? `One of: ${choices.map(({ label }) => label).join(", ")}` : "";
  return {
    ...{ name, type, isRequired, values: choices.map(({ value }) => value) },
    text: [`**${words[0] ?? ""}**`, ...words.slice(1), listed].filter((line) => line !== "").join("\n"),
    options: choices.length > MAX_OPTIONS ? [] : choices.map(({ label }) => label),
  };
}

interface Choice {
  readonly label: string;
  readonly value: unknown;
}

function choicesOf(type: Field["type"], property: Record<string, unknown>): Choice[] {
  if (type === "boolean")
    return [
      { label: "Yes", value: true },
      { label: "No", value: false },
    ];
  const titled = Array.isArray(property.oneOf)
    ? property.oneOf.map((one) => ({ value: asRecord(one).const, label: asRecord(one).title }))
    : [];
  const names: unknown[] = Array.isArray(property.enumNames) ? property.enumNames : [];
  const plain = Array.isArray(property.enum) ? property.enum.map((value, n) => ({ value, label: names[n] ?? value })) : [];
  return [...titled, ...plain].map(({ value, label }) => ({ value, label: visibleLine(String(label ?? value), 60) }));
}

export function readField({ type, options, values }: Field, said: string): { value: unknown } | { problem: string } {
  const chosen = options.findIndex((label) => label.toLowerCase() === said.trim().toLowerCase());
  if (chosen >= 0) return { value: values[chosen] };
  const named = values.find((value) => String(value).toLowerCase() === said.trim().toLowerCase());
  if (values.length > 0) return named === undefined ? { problem: "it must be one of those offered" } : { value: named };
  if (type === "string") return { value: said };
  const number = Number(said.trim().replace(",", "."));
  const fits = said.trim() !== "" && (type === "integer" ? Number.isSafeInteger(number) : Number.isFinite(number));
  return fits ? { value: number } : { problem: type === "integer" ? "it must be a whole number" : "it must be a number" };
}
