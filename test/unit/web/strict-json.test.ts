import { describe, expect, it } from "vitest";
import { parseStrictJson } from "../../../src/web/strict-json.ts";
import { cpuTime } from "../../support/cpu-time.ts";

const parse = (text: string) => parseStrictJson(Buffer.from(text));

describe("strict JSON", () => {
  it("[SC3] takes ordinary bodies as they are", () => {
    expect(parse('{"id":"1","text":"a \\" : { [ \\\\","list":[{"a":1},{"a":2}]}')).toEqual({
      id: "1",
      text: 'a " : { [ \\',
      list: [{ a: 1 }, { a: 2 }],
    });
    expect(parse('{"emoji":"🧭","n":-1.5e3,"t":true,"z":null}')).toEqual({ emoji: "🧭", n: -1500, t: true, z: null });
  });

  it.each([
    ['{"a":', "cut off"],
    ["", "empty"],
    ["[".repeat(100_000), "very deep"],
    [`${"[".repeat(20)}1${"]".repeat(20)}`, "deep but closed"],
    ['{"a":1,"a":2}', "a name twice"],
    ['{"a":1,"\\u0061" : 2}', "a name twice, spelled differently"],
    ['{"a":{"b":1,"b":1}}', "a name twice inside"],
    ['{"a":1e999}', "a number beyond a double"],
    ['{"a":"\\ud800"}', "half a character"],
    ['{"__proto__":{"x":1}}', "a prototype"],
    ['{"a":"unclosed', "an open string"],
    ['{"a":"\\', "an open escape"],
    ["{a:1}", "no JSON"],
  ])("[SC3] refuses %s (%s)", (text) => {
    expect(parse(text)).toBeNull();
  });

  it("[SC3] refuses bytes that are not UTF-8", () => {
    expect(parseStrictJson(Buffer.from([0x22, 0xff, 0x22]))).toBeNull();
    expect(parseStrictJson(Buffer.from('{"a":1}', "utf16le"))).toBeNull();
  });

  it("[SC3] HTTP-009 a body of the largest size is read in no time", () => {
    const worked = cpuTime();
    parse(`{"a":"${"\\n".repeat(125_000)}"}`);
    parse(`[${'"x":'.repeat(60_000)}`);
    parse(`{${'"'.repeat(250_000)}`);
    expect(worked()).toBeLessThan(2000);
  });
});
