// What a person can't see, nobody reads: dropped from prose, spelled where the exact characters matter.
import { describe, expect, it } from "vitest";
import { capText, readSpelled, spellUnseen, visibleLine, visibleText } from "../../../src/core/visible-text.ts";

const tags = (text: string): string => [...text].map((char) => String.fromCodePoint(0xe0000 + (char.codePointAt(0) ?? 0))).join("");

describe("visibleText", () => {
  it.each([
    ["a family", "👩\u200d👩\u200d👧\u200d👦"],
    ["hair and skin", "👩🏽\u200d🦰"],
    ["a heart on fire", "❤\ufe0f\u200d🔥"],
    ["a keycap", "1\ufe0f\u20e3 #\ufe0f\u20e3"],
    ["text style", "☺\ufe0e"],
    ["the flag of Scotland", `🏴${tags("gbsct")}\u{e007f}`],
    ["a rainbow and a pirate flag", "🏳\ufe0f\u200d🌈🏴\u200d☠\ufe0f"],
    ["Persian", "می\u200cخواهم، کتاب\u200cها، ۲۰\u200cهزار، ه\u200d.ق"],
    ["Hindi", "क्\u200dष क्\u200cष"],
    ["Malayalam at a word's end", "അവന്\u200d വന്നു"],
    ["Sinhala", "ශ්\u200dරී"],
    ["Bengali", "র\u200d্য"],
    ["a Japanese name's variant", "葛\u{e0100}城"],
    ["a Mongolian variant", "ᠠ\u180b"],
    ["combining marks, stacked", "e\u0301 Z\u0351\u036b\u0343"],
    ["signs that Unicode calls format but everybody sees", "\u06dd\u0600١٢٣"],
    ["right-to-left letters themselves", "שלום عليكم"],
    ["tabs and lines", "a\tb\n\nc"],
  ])("[IN4] keeps %s", (_name, text) => {
    expect(visibleText(text)).toBe(text);
  });

  it.each([
    ["zero width", "a\u200bb\u2060c\ufeffd\u00ade", "abcde"],
    ["joiners between other letters", "a\u200db\u200cc", "abc"],
    ["words in tags", `hi${tags("obey")}`, "hi"],
    ["tags behind a black flag that spell no flag", `🏴${tags("obeyme")}\u{e007f}`, "🏴"],
    ["bidi overrides, isolates and marks", "\u202eabc\u202c\u2066d\u2069\u200e\u061c", "abcd"],
    ["bytes in selectors behind an emoji", "😀\ufe0f\u{e0151}\u{e0162}\ufe01", "😀\ufe0f"],
    ["bytes in selectors behind an ideograph", "葛\u{e0151}城\u{e0162}", "葛城"],
    ["a selector behind a letter", "a\ufe0fb\ufe00", "ab"],
    ["a second joiner", "ب\u200c\u200c\u200dب", "ب\u200cب"],
    ["a joiner at the edge of an emoji", "😀\u200d x\u200d😀", "😀 x😀"],
    ["blank fillers", "\u3164\u115f\u1160\uffa0\u034f", ""],
    ["controls and what terminals obey", "\u0000a\u0007\u001b[31m\u009bb\u007f", "a[31mb"],
    ["what stands between halves of a character, which stay apart", "x\ud83d\u202e\ude00y\ud800", "x��y�"],
    ["private use and noncharacters", "\ue000\u{f0000}\ufffe\u{1ffff}z", "z"],
    ["every line end but one", "a\r\nb\rc\u2028d\u2029e\u0085f\fg\vh", "a\nb\nc\nd\ne\nf\ng\nh"],
  ])("[IN4] drops %s", (_name, text, left) => {
    expect(visibleText(text)).toBe(left);
  });

  it("[IN4] takes time in proportion to the text, whatever it is made of", () => {
    const startedAt = performance.now();
    for (const piece of ["👩\u200d", "\u200d", "ب\u200c", "葛\u{e0100}", "\u{e0041}", "🏴\u{e0067}", "1\ufe0f", "\ud800", "a\u0301"])
      visibleText(piece.repeat(100_000));
    expect(performance.now() - startedAt).toBeLessThan(5_000);
  });
});

it("[IN4] a name is one line without tricks, cut at whole characters", () => {
  expect(visibleLine(" a\n\u202eb \u200b c ", 80)).toBe("a b c");
  expect(visibleLine("abcd😀", 5)).toBe("abcd");
  expect(visibleLine("\u200b".repeat(1_000), 10)).toBe("");
});

describe("where the exact characters matter", () => {
  it("[IN4] what can't be seen is spelled, and reads back as it was", () => {
    const text = "let a\u200b = '\u202e'; // می\u200cخواهم 👩\u200d👧\r\nlone\rreturn\fpage\u{e0041}";
    const spelled = spellUnseen(text);
    expect(spelled).toBe("let a⟦U+200B⟧ = '⟦U+202E⟧'; // می\u200cخواهم 👩\u200d👧\r\nlone⟦U+000D⟧return⟦U+000C⟧page⟦U+E0041⟧");
    expect(readSpelled(spelled)).toBe(text);
  });

  it("[IN4] a text that looks spelled is not taken for one", () => {
    const text = "write ⟦U+200B⟧ for it, ⟦U+27E6⟧ for ⟦";
    expect(spellUnseen(text)).toBe("write ⟦U+27E6⟧U+200B⟧ for it, ⟦U+27E6⟧U+27E6⟧ for ⟦");
    expect(readSpelled(spellUnseen(text))).toBe(text);
    expect(readSpelled("⟦U+D800⟧ ⟦U+FFFFFF⟧ ⟦U+1⟧")).toBe("⟦U+D800⟧ ⟦U+FFFFFF⟧ ⟦U+1⟧");
  });
});

it("[IN4] a cut says how much is missing and how to get it", () => {
  expect(capText("abc😀def", 4, "read on")).toBe("abc\n… [cut: 5 of 8 characters; read on]");
  expect(capText("abc", 3, "read on")).toBe("abc");
});
