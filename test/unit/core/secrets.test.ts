// Known secret values are replaced by their names in whatever leaves the process (SC4).
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { createSecrets, type Secrets } from "../../../src/core/secrets.ts";

it("[SC4] every spelling of a secret shows as its name", () => {
  const secrets = createSecrets();
  secrets.add("TOKEN", 'a/b+c="quoted"\\x');
  const value = 'a/b+c="quoted"\\x';
  for (const text of [value, encodeURIComponent(value), JSON.stringify(value), `https://x/?t=${encodeURIComponent(value)}&y=${value}`]) {
    expect(secrets.redact(text)).toContain("[TOKEN]");
    expect(secrets.redact(text)).not.toContain("quoted");
  }
});

it("[SC4] escaped as Markdown, in part or in whole, it shows as its name before it is rendered", () => {
  const secrets = createSecrets();
  secrets.add("TOKEN", "ghp_lab-key_0001");
  for (const text of ["ghp\\_lab-key\\_0001", "ghp\\_lab\\-key\\_0001"]) {
    expect(secrets.redact(`it is ${text}.`)).toBe("it is [TOKEN].");
    expect(secrets.heldBack(`it is ${text.slice(0, 9)}`)).toBe(9);
  }
});

it("[SC4] the longest secret wins where one holds another, and the first name of a value stays", () => {
  const secrets = createSecrets();
  secrets.add("SHORT", "abcdefgh");
  secrets.add("LONG", "abcdefghijkl");
  secrets.add("AGAIN", "abcdefgh");
  expect(secrets.redact("abcdefghijkl abcdefgh")).toBe("[LONG] [SHORT]");
});

describe("[SC4] heldBack", () => {
  const secrets = createSecrets();
  secrets.add("KEY", "ghp_lab_key");
  secrets.add("LONG", "ghp_lab_key_and_more");
  secrets.add("NEXT", "keyring-77");
  secrets.add("VAULT", "vault-key");

  it.each([
    ["no secret begins at its end", "plain text", 0],
    ["nothing at all", "", 0],
    ["a secret has begun", "it is ghp_la", 6],
    ["its first character", "so g", 1],
    ["a whole one that may be a longer one", "it is ghp_lab_key", 11],
    ["a whole one that can't be longer", "it is ghp_lab_key_and_more", 0],
    ["a whole one, whose end may begin another, goes with it", "a vault-key", 9],
    ["something else followed", "ghp_la, he said", 0],
  ])("%s", (_, text, length) => {
    expect(secrets.heldBack(text)).toBe(length);
  });

  it("knows the spellings too, and nothing without secrets", () => {
    expect(createSecrets().heldBack("ghp_la")).toBe(0);
    const quoted = createSecrets();
    quoted.add("QUOTED", 'ab"cdefgh');
    expect(quoted.heldBack('{"x":"ab\\"cd')).toBe(6);
    expect(quoted.heldBack("?x=ab%22")).toBe(5);
  });

  it("a text given out piece by piece, less what is held back, shows no part of a secret", () => {
    const piece = fc.constantFrom("vault-", "ghp_lab_key", "ghp_", "lab_key", "keyring-77", "ring-77", "_and_more", " ", "x");
    fc.assert(
      fc.property(fc.array(piece), fc.array(fc.nat(12)), (pieces, cuts) => {
        const text = pieces.join("");
        let given = "";
        let rest = "";
        let at = 0;
        for (const step of [...cuts, text.length]) {
          rest += text.slice(at, at + step);
          at = Math.min(text.length, at + step);
          const safe = rest.slice(0, rest.length - secrets.heldBack(rest));
          given += secrets.redact(safe);
          rest = rest.slice(safe.length);
        }
        expect(given + secrets.redact(rest)).toBe(secrets.redact(text));
      }),
    );
  });
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

describe("written back", () => {
  it("[SC4] each value has a name of its own, so that two that moved don't take each other's place", () => {
    const secrets = createSecrets();
    for (const value of ["sk-of-ann-1234", "sk-of-bob-1234", "sk-of-eve-1234"]) secrets.add("KEY", value);
    secrets.add("KEY", "sk-of-bob-1234");
    const file = "a=sk-of-ann-1234\nb=sk-of-bob-1234\ne=sk-of-eve-1234\n";
    expect(secrets.redact(file)).toBe("a=[KEY]\nb=[KEY 2]\ne=[KEY 3]\n");
    const [a, b, e] = secrets.redact(file).trim().split("\n");
    expect(secrets.restore(`${e}\n${b}\n${a}\n`, file)).toEqual({
      text: "e=sk-of-eve-1234\nb=sk-of-bob-1234\na=sk-of-ann-1234\n",
      unknown: [],
    });
  });

  const known = (): Secrets => {
    const secrets = createSecrets();
    secrets.add("API_KEY", "sk-one-0123/456");
    secrets.add("TOKEN", "tok-abcdefgh");
    return secrets;
  };

  it("[SC4] where a value stood its name becomes the value again, also when lines moved or came twice", () => {
    const file = "KEY=sk-one-0123/456\nOTHER=1\nT=tok-abcdefgh\n";
    const shown = known().redact(file);
    expect(shown).toBe("KEY=[API_KEY]\nOTHER=1\nT=[TOKEN]\n");
    expect(known().restore(shown, file)).toEqual({ text: file, unknown: [] });
    expect(known().restore("T=[TOKEN]\nKEY='[API_KEY]' # [API_KEY]", file).text).toBe(
      "T=tok-abcdefgh\nKEY='sk-one-0123/456' # sk-one-0123/456",
    );
  });

  it("[SC4] a value is put nowhere it did not stand before", () => {
    for (const original of ["", "nothing", "T=tok-abcdefgh"])
      expect(known().restore("leak: [API_KEY]", original)).toEqual({ text: "leak: [API_KEY]", unknown: ["[API_KEY]"] });
    expect(known().restore("see [docs] and [API_KEYS]", "")).toEqual({ text: "see [docs] and [API_KEYS]", unknown: [] });
  });

  it("[SC4] of several spellings, or the bare name beside the value, each returns to its place, or none is guessed", () => {
    const file = "a=sk-one-0123/456 b=sk-one-0123%2F456 c=[API_KEY]";
    const shown = known().redact(file);
    expect(known().restore(shown.replace("b=", "B="), file).text).toBe(file.replace("b=", "B="));
    expect(known().restore("a=[API_KEY]", file).unknown).toEqual(["[API_KEY]"]);
    expect(known().restore("c=[API_KEY]!", "c=[API_KEY]")).toEqual({ text: "c=[API_KEY]!", unknown: [] });
  });

  it("[SC4] whatever stands around the values, what was read and is written back unchanged is the same file", () => {
    const part = fc.constantFrom(
      "sk-one-0123/456",
      "sk-one-0123%2F456",
      "tok-abcdefgh",
      "[API_KEY]",
      "[TOKEN]",
      "[",
      "]",
      "x",
      "\n",
      "sk-one",
      '"',
    );
    fc.assert(
      fc.property(fc.array(part, { maxLength: 12 }), (parts) => {
        const file = parts.join("");
        expect(known().restore(known().redact(file), file)).toEqual({ text: file, unknown: [] });
      }),
    );
  });
});
