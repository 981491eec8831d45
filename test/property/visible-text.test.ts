// The visible-text gate over texts built to pass it: nothing hidden gets through, nothing seen is lost.
import fc from "fast-check";
import { expect, it } from "vitest";
import { readSpelled, spellUnseen, visibleText } from "../../src/core/visible-text.ts";
import { cases, hostileText } from "./cases.ts";

const HIDDEN = [
  ..."\u200b\u200c\u200d\u200e\u200f\u202a\u202d\u202e\u2060\u2063\u2066\u2069\u00ad\u034f\u061c\u115f\u17b4\u180e\u3164\ufe00\ufe0f\ufeff\ufff9",
  ..."\u{e0001}\u{e0020}\u{e0041}\u{e0061}\u{e007f}\u{e0100}\u{e01ef}\u{1d173}\u{f0000}\u0000\u001b\u007f\u009b",
];
const EMOJI = [..."👩👨👧👦🏳🏴❤🔥☠🌈⚧♂♀⚕🦰🏽🏿👍👋🧑🤝💻🚀1#"];
const LETTERS = [..."abzéßЖ中葛한あשع؟مीकक्षமைไा्്\u0301\u0651۲7 .,-\n\t"];
const JOINED = [..."میخواهکتبسعफकषमরযশරീനണख"];

const hidden = fc.constantFrom(...HIDDEN);
const mixed = fc.oneof(
  fc
    .array(fc.oneof(hidden, fc.constantFrom(...EMOJI), fc.constantFrom(...LETTERS), fc.constantFrom(...JOINED)), { maxLength: 24 })
    .map((parts) => parts.join("")),
  hostileText,
);

/** Never right, wherever it stands. */
const NEVER =
  /[^\P{Cc}\n\t]|\u034f|[\p{Cs}\p{Co}\u00ad\u061c\u115f\u1160\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\u3164\ufeff\uffa0\ufff0-\ufffb]/u;
const FLAGS =
  /\u{1f3f4}\u{e0067}\u{e0062}(?:\u{e0065}\u{e006e}\u{e0067}|\u{e0073}\u{e0063}\u{e0074}|\u{e0077}\u{e006c}\u{e0073})\u{e007f}/gu;

it("[IN4] nothing hidden is left, a second look changes nothing, and no two unseen characters stand together", () => {
  fc.assert(
    fc.property(mixed, (text) => {
      const left = visibleText(text);
      expect(left).not.toMatch(NEVER);
      expect(left.replace(FLAGS, "")).not.toMatch(/[\u{e0000}-\u{e00ff}]|[\u{e0110}-\u{e01ef}]/u);
      expect(left).not.toMatch(/[\u200c\u200d]{2}|[\ufe00-\ufe0f]{2}/);
      expect(visibleText(left)).toBe(left);
    }),
    cases(),
  );
});

it("[IN4] a text hidden between the letters of another leaves that other text alone", () => {
  const words = fc.array(fc.constantFrom(..."The quick brown fox, 中文。Жук"), { minLength: 1, maxLength: 30 });
  // Not the joiners' and selectors' own places: that is the next test's.
  const carrier = hidden.filter((char) => !/[\ufe00\ufe0f\u{e0100}]/u.test(char));
  fc.assert(
    fc.property(words, fc.array(fc.array(carrier, { maxLength: 4 }), { maxLength: 30 }), (letters, payload) => {
      const carried = letters.map((letter, n) => letter + (payload[n] ?? []).join("")).join("");
      expect(visibleText(carried)).toBe(letters.join(""));
    }),
    cases(2),
  );
});

it("[IN4] every emoji that platforms draw as one, and every joiner between joining letters, survives", () => {
  const parts = fc.array(fc.oneof(fc.constantFrom(...EMOJI), fc.constantFrom("\u200d", "\ufe0f", "\u20e3")), {
    minLength: 2,
    maxLength: 7,
  });
  let emoji = 0;
  fc.assert(
    fc.property(parts, fc.array(fc.constantFrom(...JOINED), { minLength: 2, maxLength: 6 }), (drawn, letters) => {
      const sequence = drawn.join("");
      if (/^\p{RGI_Emoji}$/v.test(sequence)) {
        emoji++;
        expect(visibleText(`x${sequence}x`)).toBe(`x${sequence}x`);
      }
      expect(visibleText(letters.join("\u200c"))).toBe(letters.join("\u200c"));
    }),
    cases(),
  );
  expect(emoji).toBeGreaterThan(cases().numRuns / 500);
});

it("[IN4] what was spelled reads back as the very same text, and nothing in it is hidden", () => {
  fc.assert(
    fc.property(
      fc.oneof(
        mixed,
        mixed.map((text) => `⟦U+${text}⟧U+200B⟧`),
      ),
      (text) => {
        const whole = text.toWellFormed();
        const spelled = spellUnseen(whole);
        expect(readSpelled(spelled)).toBe(whole);
        expect(visibleText(spelled)).toBe(spelled.replaceAll("\r\n", "\n"));
      },
    ),
    cases(),
  );
});
