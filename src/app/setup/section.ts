// What a section of set-up is made of, and the few lines all of them share: reading a value as it is written, and turning a touched field
// into a change of the settings or of .env.

import type { LoadedConfig } from "../../config/config.ts";
import type { SettingsChange, SettingsNow } from "../../config/edit.ts";
import type { Config } from "../../config/schema.ts";
import { AppError } from "../../core/errors.ts";
import type { FieldValue, FieldView, SectionView, Tested, Touched } from "../../web/setup.ts";

export type Path = readonly (string | number)[];
export type Edit = Omit<SettingsChange, "version">;

export interface SetupNow {
  /** As they stand in the files. */
  readonly files: SettingsNow;
  /** As they are in force. */
  readonly config: Config;
}

export interface Section {
  readonly id: string;
  view(now: SetupNow): Promise<SectionView> | SectionView;
  /** What would be written. Throws AppError("invalid") in words. */
  edit(touched: Touched, now: SetupNow): Edit;
  /** Tries what would be in force after the change. */
  test?(candidate: LoadedConfig, touched: Touched, signal: AbortSignal): Promise<Tested>;
  remove?(item: string, now: SetupNow): Edit;
}

export const NO_EDIT: Edit = { set: [], remove: [], secrets: {} };

export const joined = (edits: readonly Edit[]): Edit => ({
  set: edits.flatMap(({ set }) => set),
  remove: edits.flatMap(({ remove }) => remove),
  secrets: Object.assign({}, ...edits.map(({ secrets }) => secrets)) as Edit["secrets"],
});

/** As it is written in the file; undefined: not at all. */
export function rawAt(tree: unknown, path: Path): unknown {
  return path.reduce<unknown>(
    (value, part) => (typeof value === "object" && value !== null && Object.hasOwn(value, part) ? Reflect.get(value, part) : undefined),
    tree,
  );
}

export const textOf = (value: FieldValue | undefined): string => (typeof value === "string" ? value.trim() : "");

/** Sets it, or removes it with the block that would be left empty. */
export function put(now: SetupNow, path: Path, value: unknown): Edit {
  if (value !== undefined) return { ...NO_EDIT, set: [{ path, value }] };
  const { tree } = now.files;
  if (rawAt(tree, path) === undefined) return NO_EDIT;
  const parent = rawAt(tree, path.slice(0, -1));
  const isLast = path.length > 1 && !Array.isArray(parent) && Object.keys((parent ?? {}) as object).length === 1;
  return { ...NO_EDIT, remove: [isLast ? path.slice(0, -1) : path] };
}

export interface SecretPlace {
  /** The variable it is kept in, unless the settings name another. */
  readonly variable: string;
  /** Where the settings may name one, or hold it themselves. */
  readonly path?: Path;
}

interface SecretState {
  readonly variable: string;
  readonly isSet: boolean;
  /** Written out in the settings file. */
  readonly isLiteral: boolean;
  readonly isNamed: boolean;
  readonly fixed?: string;
}

function secretState(now: SetupNow, { variable: usual, path }: SecretPlace): SecretState {
  const raw = path === undefined ? undefined : rawAt(now.files.tree, path);
  const named = typeof raw === "string" ? /^\$\{([A-Za-z_]\w*)\}$/.exec(raw)?.[1] : undefined;
  const variable = named ?? usual;
  const isLiteral = typeof raw === "string" && named === undefined;
  const source = isLiteral ? null : now.files.sourceOf(variable);
  const fixed =
    source === "environment" ? { fixed: `Set by the environment variable ${variable}: change it where Herald is started.` } : {};
  return { variable, isSet: isLiteral || source !== null, isLiteral, isNamed: named !== undefined, ...fixed };
}

export function secretField(
  now: SetupNow,
  place: SecretPlace,
  field: Pick<FieldView, "name" | "label" | "help"> & Partial<FieldView>,
): FieldView {
  const { isSet, fixed } = secretState(now, place);
  return { ...field, kind: "secret", value: isSet, ...(fixed === undefined ? {} : { fixed }) };
}

/** To .env and nowhere else; what stood in the settings themselves goes from there. Undefined: it was not touched. */
export function secretEdit(now: SetupNow, place: SecretPlace, value: FieldValue | undefined): Edit {
  // What stands in for a secret on the screen is none.
  if (value === undefined || (typeof value === "string" && /^•+$/.test(value))) return NO_EDIT;
  const { variable, isLiteral, isNamed, fixed } = secretState(now, place);
  if (fixed !== undefined) throw new AppError("invalid", fixed);
  const isGone = typeof value !== "string" || value === "";
  const remove = place.path !== undefined && (isLiteral || (isGone && isNamed)) ? [place.path] : [];
  return { set: [], remove, secrets: { [variable]: isGone ? null : value } };
}

/** A field that is one setting. */
export interface PlainField extends Pick<FieldView, "name" | "label" | "help"> {
  readonly path: Path;
  readonly kind: "text" | "choice" | "number" | "list";
  readonly options?: FieldView["options"];
  readonly placeholder?: string;
  readonly isRare?: boolean;
  readonly isNeeded?: boolean;
}

export function plainView(now: SetupNow, { path, ...field }: PlainField): FieldView {
  const raw = rawAt(now.files.tree, path);
  const isList = field.kind === "list";
  const value = isList ? (Array.isArray(raw) ? raw.map(String) : []) : raw === undefined || typeof raw === "object" ? "" : String(raw);
  const [first] = field.options ?? [];
  return { ...field, value: field.kind === "choice" && value === "" ? (first?.value ?? "") : value };
}

function plainEdit(now: SetupNow, { path, kind, label }: PlainField, value: FieldValue | undefined): Edit {
  if (value === undefined) return NO_EDIT;
  if (kind === "list") {
    const entries = (Array.isArray(value) ? value : []).map((entry: string) => entry.trim()).filter((entry) => entry !== "");
    return put(now, path, entries.length === 0 ? undefined : entries);
  }
  const text = textOf(value);
  if (text === "") return put(now, path, undefined);
  if (kind !== "number") return put(now, path, text);
  const number = Number(text.replace(",", "."));
  if (!Number.isFinite(number)) throw new AppError("invalid", `${label}: ${JSON.stringify(text.slice(0, 40))} is not a number.`);
  return put(now, path, number);
}

export const plainEdits = (now: SetupNow, fields: readonly PlainField[], values: Touched["values"]): Edit =>
  joined(fields.map((field) => plainEdit(now, field, values[field.name])));
