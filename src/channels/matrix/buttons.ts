// Buttons, which Matrix has not: a message lists its choices with a number each, carries the same signs as reactions, and a person's
// reaction with one of them, or a reply of the number alone, is a press. What a number stands for is written into the message itself
// (event.ts, OWN_FIELD), so that a press is understood by whoever reads it, also after a restart.
//
// A message is edited while a press on what it showed before is on its way. If numbers were given out anew at each edit, a press on
// "1 Stop A" could stop B. So a number keeps its command for as long as the message stands: what is no longer offered is over, and
// whoever presses it late is told so by the command itself (LV4).
import type { Button } from "../../core/message.ts";
import { shortText } from "../../core/visible-text.ts";
import type { Numbered } from "./event.ts";

const MAX_NUMBER = 99;
const MAX_LABEL = 75;
const MAX_COMMAND = 2_000;
const TEN = "🔟";
/** Variation selectors: the same sign to everybody who looks at it. */
const VARIANTS = /[\ufe0e\ufe0f]/g;

export const signOf = (n: number): string => (n === 10 ? TEN : n < 10 ? `${n}\ufe0f\u20e3` : `${n}.`);

/** The number a reaction or a reply names; null: something else, which is nobody's button. */
export function numberOf(text: string): number | null {
  const bare = text.trim().replace(VARIANTS, "");
  if (bare === TEN) return 10;
  const [, digits] = /^(\d)\u20e3$/.exec(bare) ?? /^(\d{1,2})[.)]?$/.exec(bare) ?? [];
  const n = Number(digits);
  return Number.isInteger(n) && n >= 1 ? n : null;
}

export const commandAt = (buttons: readonly Numbered[], n: number): Numbered | null => buttons.find((one) => one.n === n) ?? null;

export interface Choice {
  readonly n: number;
  readonly label: string;
}

export interface Choices {
  /** In the order in which they are listed. */
  readonly shown: readonly Choice[];
  /** All that the message ever offered. */
  readonly numbered: readonly Numbered[];
}

/** `before`: what the message has given numbers to already. */
export function giveNumbers(buttons: readonly Button[], before: readonly Numbered[] = []): Choices {
  const offered = buttons.filter(({ command }) => command.length <= MAX_COMMAND);
  const numbered = before.map(({ n, command }) => ({ n, command, isOver: !offered.some((button) => button.command === command) }));
  const shown: Choice[] = [];
  for (const { label, command } of offered) {
    const known = numbered.find((one) => one.command === command)?.n;
    const n = known ?? Math.max(0, ...numbered.map((one) => one.n)) + 1;
    if (n > MAX_NUMBER) continue;
    if (known === undefined) numbered.push({ n, command, isOver: false });
    shown.push({ n, label: shortText(label, MAX_LABEL) || "…" });
  }
  return { shown, numbered };
}
