// Several accounts of one platform (CH1): its block is the first one, with the keys of before there were others, and what stands under
// `accounts` are further ones by the operator's name. Each is read like a block of its own, and no two may be the same bot.
// account-record.ts → channels.ts → schema.ts → accounts.ts (all of them as one list).
import { z } from "zod";
import { isAccountName } from "../core/address.ts";

/** Who puts the settings of a first account there finds no session, pairing or message of it again: they stand under its old name. */
const accountName = () =>
  z
    .string()
    .refine(isAccountName, "must be 1 to 32 of a-z, 0-9, _ and -, starting with a letter or digit")
    .refine((name) => name !== "default", "is no name: the first account's settings stand beside accounts, and only further ones under it");

export const accountRecord = <S extends z.ZodType>(account: S) =>
  z
    .record(accountName(), account)
    .default({})
    .describe("Further accounts beside this one, by a name of your own, each with all of its settings; none is taken from here.");

/** How one account is read. */
export interface Reading {
  /** Where its settings stand. */
  readonly at: string;
  /** Only the first account takes a token from the usual variable: what is said of that, or nothing. */
  variable(name: string): (before: string, behind?: string) => string;
  refuse(path: readonly string[], message: string): void;
}

/** What no two accounts may share; undefined is shared by nobody. */
interface Own {
  readonly path: readonly string[];
  readonly value: string | number | undefined;
  readonly what: string;
}

type Switched = { readonly enabled: true } | { readonly enabled: false; readonly off: string };

interface Reader<S, R extends Switched> {
  read(settings: S, reading: Reading): R;
  own(settings: Extract<R, { enabled: true }>): readonly Own[];
}

export function readAccounts<S extends { enabled?: boolean | undefined }, R extends Switched>(
  platform: string,
  settings: S & { accounts: Record<string, S> },
  context: z.core.$RefinementCtx,
  { read, own }: Reader<S, R>,
): R & { accounts: Record<string, R> } {
  const { accounts, ...first } = settings;
  const readingOf = (name: string | null): Reading => ({
    at: pathOf(platform, name),
    variable:
      (variable) =>
      (before, behind = "") =>
        name === null ? `${before}${variable}${behind}` : "",
    refuse: (path, message) => context.addIssue({ code: "custom", path: [...(name === null ? [] : ["accounts", name]), ...path], message }),
  });
  const block = read(first as unknown as S, readingOf(null));
  // A block that is off is off with all in it.
  const isOff = settings.enabled === false && !block.enabled;
  const readOne = (name: string, one: S): R =>
    isOff ? { ...read({ ...one, enabled: false }, readingOf(name)), off: block.off } : read(one, readingOf(name));
  const named = Object.entries(accounts).map(([name, one]): [string, R] => [name, readOne(name, one)]);
  refuseTwins([[null, block], ...named], own, readingOf);
  return { ...block, accounts: Object.fromEntries(named) };
}

/** Where the settings of an account stand. */
export const pathOf = (platform: string, name: string | null): string => `channels.${platform}${name === null ? "" : `.accounts.${name}`}`;

function refuseTwins<R extends Switched>(
  all: readonly (readonly [string | null, R])[],
  own: (settings: Extract<R, { enabled: true }>) => readonly Own[],
  readingOf: (name: string | null) => Reading,
): void {
  const seen = new Map<string, string>();
  for (const [name, settings] of all) {
    if (!settings.enabled) continue;
    const { at, refuse } = readingOf(name);
    for (const { path, value, what } of own(settings as Extract<R, { enabled: true }>)) {
      if (value === undefined || value === "") continue;
      const key = `${path.join(".")} ${value}`;
      const other = seen.get(key);
      // Never the value: it may be a secret.
      if (other !== undefined) refuse(path, `${what} as that of ${other}; each account needs its own`);
      else seen.set(key, at);
    }
  }
}
