// A section of `herald setup` tried, and what came of it in lines.
import type { SetupDraft } from "../app/setup/draft.ts";
import { AppError } from "../core/errors.ts";
import { visibleLine } from "../core/visible-text.ts";
import type { SectionView, Tested, Touched } from "../web/setup.ts";
import { fieldsOf, flagOf } from "./setup-answers.ts";

/** Of all questions together: `unchanged` was wanted so, `failed` was not. */
export type Outcome = "write" | "unchanged" | "failed";

const LONGEST = 500;

export interface Tried extends Tested {
  /** The settings would not be taken: it can't be kept either. */
  readonly isRefused: boolean;
}

export async function tried(draft: SetupDraft, touched: Touched): Promise<Tried> {
  try {
    return { ...(await draft.test(touched)), isRefused: false };
  } catch (error) {
    if (error instanceof AppError) return { isOk: false, lines: [error.message], isRefused: true };
    throw error;
  }
}

/** What a platform says is others' words. */
export function linesOf(view: SectionView, { lines, link, field, isOk }: Tested): string[] {
  const { id, title } = view;
  const flag = field === undefined || isOk ? undefined : flagOf(id, field);
  const label = fieldsOf(view).find(({ name }) => name === field)?.label;
  const blamed = flag === undefined ? "" : ` (${label ?? field}: --${flag})`;
  const texts = lines.map((line, n) => `${title}: ${visibleLine(line, LONGEST)}${n === 0 ? blamed : ""}`);
  return link === undefined ? texts : [...texts, `${title}: ${visibleLine(link.text, LONGEST)}: ${link.url}`];
}
