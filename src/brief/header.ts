// The header of a brief or a response held against its schema. By itself, because what `herald/brief` tells of its types must not name zod:
// whoever imports it has none (document.ts, brief.ts and response.ts, whose types go along, are free of it).
import { isUint8Array } from "node:util/types";
import type { z } from "zod";
import {
  DocumentError,
  decodeDocument,
  type ParsedDocument,
  parseDocument,
  reasonOf,
  type ValidationResult,
  withoutUndefined,
} from "./document.ts";

interface CheckedDocument<M extends object> extends ParsedDocument<M> {
  /** The text as it came. */
  readonly content: string;
}

/** parseDocument plus a check of the header. Throws `Invalid <kind> document: …` that names every field at fault. */
export function readDocument<M extends object>(kind: string, schema: z.ZodType<M>, source: string | Uint8Array): CheckedDocument<M> {
  let document: ParsedDocument;
  try {
    document = parseDocument(source);
  } catch (cause) {
    if (!(cause instanceof DocumentError)) throw cause;
    const required = schema.safeParse({}).error?.issues.map((issue) => issue.path.join(".")) ?? [];
    throw new DocumentError(`Invalid ${kind} document: ${cause.message} (required fields: ${required.join(", ")})`, { cause });
  }
  const content = typeof source === "string" ? source : decodeDocument(source);
  return { meta: checkMeta(kind, schema, document.meta), body: document.body, content };
}

/** What is wrong with a document (text or bytes) or with a header alone (an object). Never throws. */
export function validate(schema: z.ZodType<object>, document: unknown): ValidationResult {
  const isText = typeof document === "string" || isUint8Array(document);
  try {
    const meta = isText ? parseDocument(document).meta : document;
    if (typeof meta !== "object" || meta === null) return { valid: false, errors: ["must be a mapping"] };
    const { error } = schema.safeParse(withoutUndefined(meta));
    return { valid: error === undefined, errors: error === undefined ? [] : faultsOf(error) };
  } catch (error) {
    // What an object's getter or proxy throws is as much a stranger's as the object: it is not even looked at.
    return { valid: false, errors: [isText ? reasonOf(error) : "can't be read: one of its properties throws"] };
  }
}

const faultsOf = (error: z.ZodError): string[] => error.issues.map((issue) => `${issue.path.join(".")} ${issue.message}`);

/** The header as `schema` understands it, or a DocumentError `Invalid <kind> document: …` that names every field at fault. */
export function checkMeta<M extends object>(kind: string, schema: z.ZodType<M>, meta: object): M {
  const checked = schema.safeParse(withoutUndefined(meta));
  if (checked.success) return checked.data;
  throw new DocumentError(`Invalid ${kind} document: ${faultsOf(checked.error).join("; ")}`, { cause: checked.error });
}
