// The header fields that briefs and responses share.
import { z } from "zod";

const ID = /^[A-Za-z0-9][A-Za-z0-9._:-]{0,127}$/;

/** Ids end up in file names and in traces, so nothing that means something there is let through. */
export const idField = z
  .string({ error: "is missing or not text" })
  .regex(ID, "must be 1 to 128 letters, digits or . _ : - and start with a letter or digit");

/** Half a surrogate pair is written as an escape that many readers of YAML refuse. */
export const textField = z
  .string({ error: "is missing or not text" })
  .refine((text) => text.trim() !== "", "must not be empty")
  .refine((text) => text.isWellFormed(), "must be well-formed Unicode");

/** Other readers of the format refuse what doesn't begin like a version. */
export const versionField = z
  .string({ error: "is missing or not text" })
  .regex(/^\d+\.\d+\.\d+(?![\d.])/, "must be a version such as 1.2.0");

/** Date.parse alone takes "hello 5" for a day in May. */
const TIME = /^\d{4}-\d\d-\d\d(?:[T ]\d\d:\d\d(?::\d\d(?:\.\d+)?)?(?: ?(?:Z|[+-]\d\d:?\d\d))?)?$/i;

/** Kept as it was written; other readers compare the text. */
export const timestampField = z
  .string({ error: "is missing or not text" })
  .refine((text) => TIME.test(text) && !Number.isNaN(Date.parse(text)), "must be a time such as 2026-02-06T03:55:00Z");

export const depthField = z
  .number({ error: "must be a whole number from 0" })
  .int("must be a whole number from 0")
  .min(0, "must be a whole number from 0")
  .optional();
