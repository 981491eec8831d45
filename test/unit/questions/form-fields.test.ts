// A server's form as questions, and what a person's words mean in it (QA5).
import { expect, it } from "vitest";
import { type Field, fieldsOf, readField } from "../../../src/questions/form-fields.ts";

const form = (properties: Record<string, unknown>, required: string[] = []): Field[] | null =>
  fieldsOf({ type: "object", properties, required });
const only = (property: Record<string, unknown>): Field => form({ it: property })?.[0] as Field;

it("[QA5] each field is a question with its words and, where there are few, its choices", () => {
  expect(
    form(
      {
        seat: { type: "string", title: "Seat", description: "Where?", enum: ["a", "w"], enumNames: ["Aisle", "Window"] },
        ok: { type: "boolean" },
      },
      ["seat"],
    ),
  ).toMatchObject([
    { name: "seat", isRequired: true, text: "**Seat**\nWhere?", options: ["Aisle", "Window"], values: ["a", "w"] },
    { name: "ok", isRequired: false, text: "**ok**", options: ["Yes", "No"], values: [true, false] },
  ]);
  const many = only({ type: "string", enum: ["a", "b", "c", "d", "e", "f", "g"] });
  expect([many.options, many.text]).toEqual([[], "**it**\nOne of: a, b, c, d, e, f, g"]);
  expect(form({})).toEqual([]);
});

it.each([
  [{ list: { type: "array" } }],
  [{ any: {} }],
  [Object.fromEntries(Array.from({ length: 11 }, (_, n) => [`f${n}`, { type: "string" }]))],
])("[QA5] a form that no chat can answer is none: %j", (properties) => {
  expect(form(properties)).toBeNull();
});

it.each([
  [{ type: "string" }, " as it is ", { value: " as it is " }],
  [{ type: "integer" }, " 3 ", { value: 3 }],
  [{ type: "integer" }, "3.5", { problem: "it must be a whole number" }],
  [{ type: "number" }, "3,5", { value: 3.5 }],
  [{ type: "number" }, "many", { problem: "it must be a number" }],
  [{ type: "number" }, " ", { problem: "it must be a number" }],
  [{ type: "boolean" }, "yes", { value: true }],
  [{ type: "boolean" }, "maybe", { problem: "it must be one of those offered" }],
  [{ type: "string", enum: ["a", "w"], enumNames: ["Aisle", "Window"] }, "window", { value: "w" }],
  [{ type: "string", enum: ["a", "w"], enumNames: ["Aisle", "Window"] }, "A", { value: "a" }],
  [{ type: "string", oneOf: [{ const: "x", title: "The X" }] }, "the x", { value: "x" }],
])("[QA5] %j answered with %j", (property, said, read) => {
  expect(readField(only(property), said)).toEqual(read);
});
