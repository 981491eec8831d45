// Known secret values are replaced by their names in whatever leaves the process (SC4).
import fc from "fast-check";
import { expect, it } from "vitest";
import { createSecrets } from "../../../src/core/secrets.ts";

it("[SC4] every spelling of a secret shows as its name", () => {
  const secrets = createSecrets();
  secrets.add("TOKEN", 'a/b+c="quoted"\\x');
  const value = 'a/b+c="quoted"\\x';
  for (const text of [value, encodeURIComponent(value), JSON.stringify(value), `https://x/?t=${encodeURIComponent(value)}&y=${value}`]) {
    expect(secrets.redact(text)).toContain("[TOKEN]");
    expect(secrets.redact(text)).not.toContain("quoted");
  }
});

it("[SC4] the longest secret wins where one holds another, and the first name of a value stays", () => {
  const secrets = createSecrets();
  secrets.add("SHORT", "abcdefgh");
  secrets.add("LONG", "abcdefghijkl");
  secrets.add("AGAIN", "abcdefgh");
  expect(secrets.redact("abcdefghijkl abcdefgh")).toBe("[LONG] [SHORT]");
});

it("[SC4] short and missing values are ignored: they would shred ordinary text", () => {
  const secrets = createSecrets();
  secrets.add("EMPTY", "");
  secrets.add("MISSING", undefined);
  secrets.add("WORD", "the");
  expect(secrets.redact("the end")).toBe("the end");
});

it("[SC4] plain numbers are ignored: they are parts of ids and times", () => {
  const secrets = createSecrets();
  secrets.add("DB_PASSWORD", "12345678");
  expect(secrets.redact('{"update_id":912345678}')).toBe('{"update_id":912345678}');
});

it("[SC4] whatever it is called, its name leaves a JSON text whole", () => {
  const secrets = createSecrets();
  secrets.add('headers["X-Api-Key"]\\\n', "abcdefgh12");
  expect(JSON.parse(secrets.redact(JSON.stringify({ text: "it is abcdefgh12" })))).toEqual({ text: "it is [headers['X-Api-Key']'']" });
});

it("[SC4] characters that mean something in a pattern are taken as they are", () => {
  const secrets = createSecrets();
  secrets.add("ODD", "a.*(b)[c]$^|");
  expect(secrets.redact("xxa.*(b)[c]$^|yy axx(b)")).toBe("xx[ODD]yy axx(b)");
});

it("[SC4] no known value survives, wherever it stands", () => {
  const value = fc.string({ minLength: 8, maxLength: 40 });
  fc.assert(
    fc.property(fc.array(value, { minLength: 1, maxLength: 4 }), fc.string(), fc.string(), (values, before, after) => {
      const secrets = createSecrets();
      values.forEach((one, n) => {
        secrets.add(`S${n}`, one);
      });
      for (const one of values) {
        const clean = secrets.redact(`${before}${one}${after}`);
        // What stands around it may form the value anew only out of a name, which no 8-character value does by chance.
        expect(clean === `${before}${one}${after}`).toBe(false);
      }
    }),
  );
});
