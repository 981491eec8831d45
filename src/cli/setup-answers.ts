// Flags of `herald setup` → answers to the questions of a section, and the flags that are missing for it.
import { didYouMean } from "../config/nearest.ts";
import { visibleLine } from "../core/visible-text.ts";
import type { FieldValue, FieldView, SectionView, Touched } from "../web/setup.ts";
import { type Call, textOf, UsageError } from "./command.ts";
import { SETUP_FLAGS, type SetupFlag } from "./setup-flags.ts";
import type { Terminal } from "./terminal.ts";

export interface Given extends SetupFlag {
  readonly value: string;
}

export type Answers = Readonly<Record<string, FieldValue>>;

const STDIN = "-";
const VARIABLE = /^[A-Za-z_][A-Za-z0-9_]*$/;
const MAX_STDIN = 64 * 1024;

export const givenFlags = (call: Call): Given[] =>
  SETUP_FLAGS.flatMap((flag) => {
    const value = textOf(call, flag.flag);
    return value === undefined ? [] : [{ ...flag, value: value.trim() }];
  });

/** The environment without what was only handed over in it: kept in .env, it would else count as set already. */
export function envWithout(env: Terminal["env"], given: readonly Given[]): Terminal["env"] {
  const handed = new Set(given.filter(({ kind }) => kind === "secret").map(({ value }) => value));
  return Object.fromEntries(Object.entries(env).filter(([name]) => !handed.has(name)));
}

/** Throws UsageError. What is wrong is not repeated: it may be the secret itself. */
export function checkSources(given: readonly Given[], { env }: Pick<Terminal, "env">): void {
  const secrets = given.filter(({ kind, value }) => kind === "secret" && value !== STDIN);
  for (const { flag, value } of secrets) {
    if (!VARIABLE.test(value)) throw new UsageError(`--${flag} takes the name of a variable, never the secret itself.`);
    if (!env[value]?.trim()) throw new UsageError(`--${flag}: the variable ${value} is not set.`);
  }
}

/** Each `-` gets the next line, in the order of the help. */
export async function readSecrets(given: readonly Given[], { env, stdin }: Pick<Terminal, "env" | "stdin">): Promise<Given[]> {
  const lines = given.some(isFromStdin) ? (await readAll(stdin)).split(/\r?\n/) : [];
  return given.map((one) => {
    if (one.kind !== "secret") return one;
    const value = (isFromStdin(one) ? lines.shift() : env[one.value])?.trim() ?? "";
    if (value === "") throw new UsageError(`--${one.flag}: stdin has no line for it.`);
    return { ...one, value };
  });
}

export const isFromStdin = ({ kind, value }: Given): boolean => kind === "secret" && value === STDIN;

async function readAll(stdin: Terminal["stdin"]): Promise<string> {
  let read = "";
  for await (const chunk of stdin.setEncoding("utf8")) {
    read += String(chunk);
    if (read.length > MAX_STDIN) throw new UsageError("That is too much on stdin for a few secrets.");
  }
  return read;
}

export const fieldsOf = ({ items: [item] }: SectionView): readonly FieldView[] => item?.fields ?? [];

/** Those that go with what is answered so far. */
export const visibleFields = (view: SectionView, answers: Answers): FieldView[] =>
  fieldsOf(view).filter(({ shownFor }) => {
    if (shownFor === undefined) return true;
    const by = answers[shownFor.field] ?? fieldsOf(view).find(({ name }) => name === shownFor.field)?.value;
    return shownFor.values.includes(String(by));
  });

export const isEmpty = ({ value }: FieldView): boolean => value === false || value === "";
const baseOf = (name: string): string => name.split(":")[0] ?? name;
export const flagOf = (section: string, field: string): string | undefined =>
  SETUP_FLAGS.find((one) => one.section === section && one.field === baseOf(field))?.flag;

/** Throws UsageError. */
export function answersOf(view: SectionView, given: readonly Given[]): Answers {
  const own = given.filter(({ section }) => section === view.id);
  const model = own.find(({ section, field }) => section === "model" && field === "model");
  const answers: Record<string, FieldValue> = model === undefined ? {} : providerOf(view, model.value);
  for (const one of own) {
    if (one === model) continue;
    const field = visibleFields(view, answers).find(({ name }) => baseOf(name) === one.field);
    if (field === undefined) throw new UsageError(`--${one.flag} is not for ${String(answers.provider ?? view.title)}.`);
    answers[field.name] = fieldValueOf(one);
  }
  return answers;
}

function providerOf(view: SectionView, text: string): Record<string, FieldValue> {
  const [provider = "", ...rest] = text.split("/");
  const known =
    fieldsOf(view)
      .find(({ name }) => name === "provider")
      ?.options?.map(({ value }) => value) ?? [];
  if (!known.includes(provider))
    throw new UsageError(
      `--model: there is no provider "${visibleLine(provider, 40)}".${didYouMean(provider, known)} There are: ${known.join(", ")}.`,
    );
  return { provider, ...(rest.length === 0 ? {} : { [`model:${provider}`]: rest.join("/") }) };
}

function fieldValueOf({ flag, kind, value }: Given): FieldValue {
  if (kind === "list") return value.split(",").map((entry) => entry.trim());
  if (kind !== "switch") return value;
  if (value !== "on" && value !== "off") throw new UsageError(`--${flag} is on or off.`);
  return value === "on";
}

/** What can't be done without and is neither answered nor known. */
export function missingFields(view: SectionView, answers: Answers): FieldView[] {
  if (answers.enabled === false) return [];
  return visibleFields(view, answers).filter((field) => field.isNeeded === true && isEmpty(field) && answers[field.name] === undefined);
}

export const toTouched = (view: SectionView, values: Answers): Touched => ({ section: view.id, item: view.items[0]?.id ?? null, values });
