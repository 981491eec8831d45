// The library as others import it: one entry, and validators that say everything that is wrong at once.
import * as library from "herald/brief";
import { expect, it } from "vitest";

const { Brief, BriefResponse, validateBrief, validateResponse } = library;

it("[BP2] herald/brief exports all of it", () => {
  expect(Object.keys(library).sort()).toEqual(
    [
      ...["Brief", "BriefResponse", "DocumentError", "Trace", "parseDocument", "serializeDocument"],
      ...["validateBrief", "validateBriefMeta", "validateResponse", "validateResponseMeta"],
    ].sort(),
  );
  expect(library.Trace.create().append({ agent: "a", action: "looked" }).length).toBe(1);
});

it("[BP2] validateBrief names every fault of a header or of a whole document, and never throws", () => {
  const brief = Brief.create({ delegator: "a", delegatee: "b", body: "x", maxDepth: 2 });
  for (const good of [brief.content, Buffer.from(brief.content), brief.meta])
    expect(validateBrief(good)).toEqual({ valid: true, errors: [] });
  expect(validateBrief({ ...brief.meta, delegator: " ", currentDepth: 3 })).toEqual({
    valid: false,
    errors: ["delegator must not be empty", "currentDepth must not be above maxDepth (2)"],
  });
  expect(validateBrief({ ...brief.meta, currentDepth: 3 })).toEqual({
    valid: false,
    errors: ["currentDepth must not be above maxDepth (2)"],
  });
  expect(validateBrief({}).errors.map((error) => error.split(" ")[0])).toEqual([
    ...["id", "protocolVersion", "delegator", "delegatee", "timestamp"],
  ]);
  expect(validateBrief("text")).toEqual({ valid: false, errors: [expect.stringContaining("missing YAML frontmatter delimiters")] });
  for (const nothing of [null, undefined, 7, [], () => 1]) expect(validateBrief(nothing)).toMatchObject({ valid: false });
});

it("[BP2] validateResponse does the same", () => {
  const response = BriefResponse.create({ id: "brief-abc123", status: "partial", body: "x" });
  for (const good of [response.content, response.meta]) expect(validateResponse(good)).toEqual({ valid: true, errors: [] });
  expect(validateResponse({ ...response.meta, status: "great", timestamp: "soon" })).toEqual({
    valid: false,
    errors: ["status must be one of success, failure, partial, rejected", "timestamp must be a time such as 2026-02-06T03:55:00Z"],
  });
  expect(validateResponse("---\nid: x\n")).toMatchObject({ valid: false });
});

const revoked = (): object => {
  const { proxy, revoke } = Proxy.revocable({}, {});
  revoke();
  return proxy;
};
const throwing = (error: unknown): never => {
  throw error;
};

it.each<[string, () => object]>([
  ["a getter that throws", () => Object.defineProperty({}, "id", { enumerable: true, get: () => throwing(new Error("boo")) })],
  [
    "a getter that throws what can't be looked at",
    () => Object.defineProperty({}, "id", { enumerable: true, get: () => throwing(revoked()) }),
  ],
  ["a proxy that throws", () => new Proxy({}, { ownKeys: () => throwing(new Error("boo")) })],
  ["a proxy over bytes that throws", () => new Proxy(new Uint8Array(3), { get: () => throwing(new Error("boo")) })],
  ["a proxy taken back", revoked],
])("[BP3] an object with %s is refused by the validators, which never throw", (_name, make) => {
  for (const check of [validateBrief, validateResponse]) expect(check(make())).toEqual({ valid: false, errors: [expect.any(String)] });
});

it("[BP3] a time is a time in its written form, not whatever a lenient parser makes of it", () => {
  const { meta } = Brief.create({ delegator: "a", delegatee: "b", body: "x" });
  const isTaken = (timestamp: string): boolean => validateBrief({ ...meta, timestamp }).valid;
  const good = ["2026-02-06T03:55:00Z", "2026-02-06T03:55:00.123+02:00", "2026-02-06 03:55:00Z", "2026-02-06T03:55Z", "2026-02-06"];
  expect(good.filter((text) => !isTaken(text))).toEqual([]);
  expect(["hello 5", "5", "may", "2026-02-06T99:00:00Z", "2026-13-01", "2026-02-06 (x)", ""].filter(isTaken)).toEqual([]);
});

it("[BP3] half a surrogate pair in a name is never written: replaced where a brief is made, refused where one is checked", () => {
  const brief = Brief.create({ delegator: "a\uD800", delegatee: "\uDC00b", body: "x" });
  expect([brief.delegator, brief.delegatee]).toEqual(["a\uFFFD", "\uFFFDb"]);
  expect(brief.content).not.toMatch(/\\u/i);
  expect(validateBrief({ ...brief.meta, delegator: "a\uD800" }).errors).toEqual(["delegator must be well-formed Unicode"]);
});
