// Traces: any text is read without an error, and no value can pose as a further entry.
import fc from "fast-check";
import { expect, it } from "vitest";
import { DocumentError } from "../../src/brief/document.ts";
import { type NewTraceEntry, Trace } from "../../src/brief/trace.ts";
import { cases, damagedBytes, damagedText, hostileText } from "./cases.ts";

const VALID = Trace.create()
  .append({ agent: "main", action: "Delegated **it** to `helper`.", briefId: "brief-c9d2e7", timestamp: "2026-02-06T03:55:00Z" })
  .append({ agent: "helper", action: "Read a file.", timestamp: "2026-02-06T03:55:00Z" })
  .append({ agent: "helper", action: "", briefId: "x", timestamp: "1970-01-01" })
  .toString();
/** A value on its one line: nothing in it ends the line or the code span. */
const ONE_LINE = /^[^\r\n\p{Cc}\u2028\u2029\u202e]*$/u;

const check = (trace: Trace): void => {
  for (const { agent, action, briefId = "x", timestamp } of trace.getEntries()) {
    for (const value of [agent, briefId, timestamp]) if (value === "" || value.includes("`")) throw new Error(`bad code span ${value}`);
    for (const value of [agent, action, briefId, timestamp]) expect(value).toMatch(ONE_LINE);
    expect(Number.isNaN(Date.parse(timestamp))).toBe(false);
  }
  expect(Trace.parse(trace.toString()).getEntries()).toStrictEqual(trace.getEntries());
};

it("[BP3] any text is a trace whose entries read back the same, merged with itself as well", () => {
  let entries = 0;
  fc.assert(
    fc.property(fc.oneof({ arbitrary: damagedText(fc.constant(VALID)), weight: 4 }, { arbitrary: hostileText, weight: 1 }), (text) => {
      const trace = Trace.parse(text);
      check(trace);
      entries += trace.length;
      const merged = trace.clone().merge(trace).getEntries();
      expect(trace.clone().merge(Trace.parse(text)).merge(trace).getEntries()).toStrictEqual(merged);
      expect(merged.length).toBeLessThanOrEqual(trace.length);
    }),
    cases(),
  );
  expect(entries).toBeGreaterThan(0);
});

it("[BP3] any bytes are a trace, or refused as no UTF-8", () => {
  fc.assert(
    fc.property(damagedBytes(fc.constant(VALID)), (bytes) => {
      try {
        expect(Trace.parse(bytes).getEntries()).toStrictEqual(Trace.parse(new TextDecoder().decode(bytes)).getEntries());
      } catch (error) {
        if (!(error instanceof DocumentError)) throw error;
        expect(bytes.equals(Buffer.from(bytes.toString()))).toBe(false);
      }
    }),
    cases(2), // each is read twice
  );
});

const entry: fc.Arbitrary<NewTraceEntry> = fc
  .record({
    agent: hostileText,
    action: fc.oneof(hostileText, fc.constant(VALID)),
    briefId: fc.option(hostileText, { nil: undefined }),
    timestamp: fc.oneof(
      fc.date({ noInvalidDate: true }).map((date) => date.toISOString()),
      hostileText,
    ),
  })
  .map(({ briefId, ...rest }) => (briefId === undefined ? rest : { ...rest, briefId }));

it("[BP3] what is appended is one entry, or refused; parse(toString(x)) = x", () => {
  fc.assert(
    fc.property(fc.array(entry, { maxLength: 3 }), (entries) => {
      const trace = Trace.create();
      for (const each of entries) {
        const before = trace.length;
        try {
          expect(trace.append(each).length).toBe(before + 1);
        } catch (error) {
          if (!(error instanceof DocumentError)) throw error;
          expect(trace.length).toBe(before);
        }
      }
      check(trace);
    }),
    cases(2), // up to three entries each
  );
});
