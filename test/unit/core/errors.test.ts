import { expect, it } from "vitest";
import { AppError, errorText, publicErrorText } from "../../../src/core/errors.ts";

it("[SC4] where things lie on the machine is for the log, not for a chat; addresses and commands stay", () => {
  const error = new AppError(
    "storage",
    "The transcript /home/ann/.herald/agents/main/sessions/1a.jsonl can't be opened: ENOENT, open '/home/ann/.herald/x.jsonl'",
  );
  expect(errorText(error)).toContain("/home/ann");
  expect(publicErrorText(error)).toBe("The transcript …/1a.jsonl can't be opened: ENOENT, open '…/x.jsonl'");
  for (const text of ["see https://a.example/b/c", "use /new or /subagents list", "and/or 1/2", "at src/a/b.ts"])
    expect(publicErrorText(new Error(text))).toBe(text);
  expect(publicErrorText(new Error("in (/srv/a/b/) or file:///srv/a/b.ts:3"))).not.toContain("srv");
});
