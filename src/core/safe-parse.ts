// A stranger's JSON against a schema. zod's own safeParse throws on `{"length": {"toString": 1}}` where a text or list with
// a limit belongs: it compares the length before it looks at the type. Here such a value is no match like any other.
// channels, web, agents, subagents, config → safeParse
import { z } from "zod";
import { errorText } from "./errors.ts";

/** Never throws. */
export function safeParse<S extends z.ZodType>(schema: S, value: unknown): z.ZodSafeParseResult<z.output<S>> {
  try {
    return schema.safeParse(value);
  } catch (error) {
    const issue = { code: "custom" as const, path: [], message: `holds a value that can't be read (${errorText(error)})`, input: value };
    return { success: false, error: new z.ZodError([issue]) as z.ZodError<z.output<S>> };
  }
}
