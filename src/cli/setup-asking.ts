// The questions of `herald setup` on a terminal. Nothing is written here: whoever leaves (Ctrl-C, Esc) leaves everything as it was.
import { cancel, confirm, intro, isCancel, log, outro, password, select, text } from "@clack/prompts";
import type { SetupDraft } from "../app/setup/draft.ts";
import { visibleLine } from "../core/visible-text.ts";
import type { FieldValue, FieldView, SectionView } from "../web/setup.ts";
import { type Answers, answersOf, fieldsOf, type Given, isEmpty, missingFields, toTouched, visibleFields } from "./setup-answers.ts";
import { linesOf, type Outcome, tried } from "./setup-trial.ts";
import { type Terminal, wrapped } from "./terminal.ts";

export interface Asking {
  /** What flags have answered already. */
  readonly given: readonly Given[];
  /** Sections that flags name; with any, only those are gone through. */
  readonly named: ReadonlySet<string>;
  readonly terminal: Terminal;
  readonly isUntested: boolean;
}

/** Whoever was asked wants no more of it. */
class LeftError extends Error {}

/** What becomes of what the draft keeps. */
export async function askSetup(draft: SetupDraft, asking: Asking): Promise<Outcome> {
  intro("Herald set-up");
  try {
    const isKept = await askSections(draft, asking);
    const isWanted = isKept && (asking.named.size > 0 || (await agrees(draft)));
    outro(isWanted ? "That is all." : "Nothing was changed.");
    return isWanted ? "write" : "unchanged";
  } catch (error) {
    if (!(error instanceof LeftError)) throw error;
    cancel("Nothing was changed.");
    return "failed";
  }
}

const agrees = async ({ files }: SetupDraft): Promise<boolean> =>
  answered(await confirm({ message: `Write this to ${files.settings} and ${files.dotEnv}?` }));

async function askSections(draft: SetupDraft, asking: Asking): Promise<boolean> {
  let isKept = false;
  for (const view of draft.sections) {
    const isNamed = asking.named.has(view.id);
    if (asking.named.size > 0 ? !isNamed : !(await wants(view))) continue;
    if (await askSection(draft, view, asking)) isKept = true;
  }
  return isKept;
}

/** Nothing can answer without a model; a platform is for whoever has one. */
async function wants(view: SectionView): Promise<boolean> {
  const state = visibleLine(view.items[0]?.state ?? "", 200);
  const isNew = view.id === "model" && missingFields(view, {}).length > 0;
  return answered(await confirm({ message: `${view.title} (${state}). Set it up?`, initialValue: isNew }));
}

/** True: kept. */
async function askSection(draft: SetupDraft, view: SectionView, asking: Asking): Promise<boolean> {
  const broken = breakerFor(asking.terminal);
  log.message([view.about, ...view.notes].map(broken).join("\n"));
  if (!asking.named.has(view.id)) await offerCopy(view, asking.terminal);
  let answers = answersOf(view, asking.given);
  const isOff = answers.enabled === false;
  let blamed: string | undefined;
  for (let isFirst = true; ; isFirst = false) {
    // Flags that name the section have answered what they name; only what is missing is asked then, until it turns out to be wrong.
    const onlyMissing = isFirst && asking.named.has(view.id);
    if (!isOff) answers = withSwitch(view, await askFields(view, answers, { onlyMissing, blamed, broken }));
    const touched = toTouched(view, answers);
    log.step(`Trying ${view.title} …`);
    const tested = await tried(draft, touched);
    show(linesOf(view, tested).map(broken).join("\n"), tested.isOk);
    const next = tested.isOk || (asking.isUntested && !tested.isRefused) ? "keep" : await afterFailure(view, tested.isRefused);
    if (next === "leave") return false;
    blamed = tested.field;
    if (next === "again") continue;
    draft.keep(touched);
    return true;
  }
}

const afterFailure = async ({ title }: SectionView, isRefused: boolean): Promise<"again" | "keep" | "leave"> =>
  answered(
    await select<"again" | "keep" | "leave">({
      message: "What now?",
      options: [
        { value: "again", label: "Answer again" },
        ...(isRefused ? [] : [{ value: "keep" as const, label: "Keep it all the same" }]),
        { value: "leave", label: `Leave ${title} as it was` },
      ],
    }),
  );

const show = (lines: string, isOk: boolean): void => (isOk ? log.success(lines) : log.error(lines));

type Breaker = (text: string) => string;
/** Prompts break no lines themselves, and draw a line at the side. */
const breakerFor =
  ({ size }: Terminal): Breaker =>
  (text) =>
    wrapped(text, size().columns - 4).join("\n");

/** To be copied, so without the line that prompts draw at the side. */
async function offerCopy({ copy }: SectionView, terminal: Terminal): Promise<void> {
  if (copy === undefined) return;
  if (answered(await confirm({ message: `${copy.label}: print it, to copy?`, initialValue: true })))
    terminal.say(`\n${copy.text.trim()}\n`);
}

/** Whoever answers for a connection that is off wants it on. */
function withSwitch(view: SectionView, answers: Answers): Answers {
  const isOff = fieldsOf(view).some(({ name, value }) => name === "enabled" && value === false);
  return isOff && answers.enabled === undefined ? { ...answers, enabled: true } : answers;
}

interface How {
  readonly onlyMissing: boolean;
  /** What a test found wrong is asked for, however few need it. */
  readonly blamed: string | undefined;
  readonly broken: Breaker;
}

async function askFields(view: SectionView, before: Answers, { onlyMissing, blamed, broken }: How): Promise<Answers> {
  let answers = before;
  const asked = new Set<string>();
  for (;;) {
    const open = onlyMissing
      ? missingFields(view, answers)
      : visibleFields(view, answers).filter((one) => isAsked(one) || one.name === blamed);
    const field = open.find(({ name }) => !asked.has(name));
    if (field === undefined) return answers;
    asked.add(field.name);
    const value = field.fixed === undefined ? await askField(field, answers[field.name], broken) : tellFixed(field, broken);
    if (value !== undefined) answers = { ...answers, [field.name]: value };
  }
}

const isAsked = ({ kind, isRare }: FieldView): boolean => kind !== "switch" && isRare !== true;

function tellFixed({ label, fixed }: FieldView, broken: Breaker): undefined {
  log.info(broken(`${label}: ${fixed}`));
}

/** Undefined: it stays as it is. */
async function askField(field: FieldView, before: FieldValue | undefined, broken: Breaker): Promise<FieldValue | undefined> {
  const { label, help, link, kind, options = [], isNeeded = false } = field;
  const now = before ?? field.value;
  if (kind === "choice")
    return answered(await select({ message: label, options: options.map((one) => ({ ...one })), initialValue: String(now) }));
  const isKnown = !isEmpty(field) || (before !== undefined && before !== "");
  const validate = (typed: string | undefined): string | undefined =>
    isNeeded && !isKnown && !typed?.trim() ? "It is needed." : undefined;
  const about = [help, link?.url ?? ""].filter((part) => part !== "").join(" ");
  log.message(broken(kind === "list" ? about.replace("one a line", "with commas between") : about));
  if (kind !== "secret") return askText(field, now, validate);
  const message = `${label}${isKnown ? " (Enter keeps the one there is)" : ""}`;
  return answered(await password({ message, validate, clearOnError: true })).trim() || undefined;
}

async function askText(
  { label, kind, placeholder, isNeeded = false }: FieldView,
  now: FieldValue,
  validate: (typed: string | undefined) => string | undefined,
): Promise<FieldValue> {
  // Of a field that is needed it is only an example.
  const usual = placeholder === undefined || isNeeded ? {} : { defaultValue: placeholder };
  const shown = placeholder === undefined ? {} : { placeholder };
  const initialValue = Array.isArray(now) ? now.join(", ") : String(now ?? "");
  const typed = answered(await text({ message: label, initialValue, validate, ...shown, ...usual })).trim();
  if (kind === "list") return typed.split(",").map((entry) => entry.trim());
  return typed === usual.defaultValue ? "" : typed;
}

function answered<T>(answer: T): Exclude<T, symbol> {
  if (isCancel(answer)) throw new LeftError();
  return answer as Exclude<T, symbol>;
}
