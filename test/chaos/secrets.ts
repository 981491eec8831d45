// Fifty planted secrets: given to the program in the ways people give them, said by everybody on the way (people, the
// model, children, platforms' errors), and searched for at the end wherever text ends up.
import { readdirSync, readFileSync } from "node:fs";
import { join, relative } from "node:path";
import { createRandom, hash } from "../support/random.ts";

export interface Planted {
  readonly name: string;
  readonly value: string;
  /** How the program gets it: by a variable the settings refer to, by the settings themselves, or by `.env` alone. */
  readonly by: "variable" | "settings" | "env-file";
}

export interface Secrets {
  readonly planted: readonly Planted[];
  /** One of them, always the same for the same words. */
  pick(words: string): string;
  /** How often somebody said one. */
  said(): number;
  /** Variables for the process and the text of its `.env`. */
  readonly variables: Readonly<Record<string, string>>;
  readonly envFile: string;
  /** For `models.providers`: one provider per key, none of them called. */
  readonly providers: Readonly<Record<string, unknown>>;
}

const COUNT = 50;
const ALPHABET = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789";
/** Escaped in JSON and in URLs. */
const AWKWARD = ['"', "\\", "/", "+", "=", "&", "<", "%"];

export function plantSecrets(seed: number): Secrets {
  const random = createRandom(seed);
  const letters = (count: number): string => Array.from({ length: count }, () => ALPHABET[random.between(0, ALPHABET.length - 1)]).join("");
  const planted = Array.from({ length: COUNT }, (_, n): Planted => {
    const by = n < 20 ? "variable" : n < 35 ? "settings" : "env-file";
    const mark = by === "env-file" ? "" : (AWKWARD[n % AWKWARD.length] ?? "");
    return { name: `PLANTED_${n + 1}_TOKEN`, value: `pl${letters(14)}${mark}${letters(14)}`, by };
  });
  let said = 0;
  const apiKey = (one: Planted): string => (one.by === "variable" ? `\${${one.name}}` : one.value);
  return {
    planted,
    pick(words) {
      said++;
      return planted[hash(words) % COUNT]?.value ?? "";
    },
    said: () => said,
    variables: Object.fromEntries(planted.filter((one) => one.by === "variable").map(({ name, value }) => [name, value])),
    envFile: planted
      .filter((one) => one.by === "env-file")
      .map(({ name, value }) => `${name}=${value}\n`)
      .join(""),
    providers: Object.fromEntries(
      planted
        .filter((one) => one.by !== "env-file")
        .map((one, n) => [`planted${n}`, { api: "openai-compatible", baseUrl: "http://127.0.0.1:9/v1", apiKey: apiKey(one) }]),
    ),
  };
}

/** The ways a value can stand in a text. */
const spellings = ({ value }: Planted): string[] => [...new Set([value, encodeURIComponent(value), JSON.stringify(value).slice(1, -1)])];

/** Names of the secrets found in a text. */
export const findSecrets = (planted: readonly Planted[], text: string): string[] =>
  planted.filter((one) => spellings(one).some((spelling) => text.includes(spelling))).map((one) => one.name);

/** Looks at a text that comes in pieces: a secret may lie across two of them. */
export function createSecretWatch(planted: readonly Planted[]): { look(piece: string): void; found(): ReadonlySet<string> } {
  const longest = Math.max(...planted.flatMap(spellings).map((spelling) => spelling.length));
  const found = new Set<string>();
  let rest = "";
  return {
    look(piece) {
      const text = rest + piece;
      for (const name of findSecrets(planted, text)) found.add(name);
      rest = text.slice(-longest);
    },
    found: () => found,
  };
}

/** `file: names` for each file below the folder in which one stands; the database's bytes too, free pages included. */
export function searchFolder(planted: readonly Planted[], folder: string): string[] {
  return readdirSync(folder, { withFileTypes: true, recursive: true })
    .filter((entry) => entry.isFile())
    .flatMap((entry) => {
      const path = join(entry.parentPath, entry.name);
      const names = findSecrets(planted, readFileSync(path, "latin1"));
      return names.length === 0 ? [] : [`${relative(folder, path)}: ${names.join(", ")}`];
    });
}
