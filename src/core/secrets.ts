// Known secret values and their names. Whatever leaves the process as text (log, transcript, outbox, page)
// passes through redact(), so a token that ends up in an error URL or a tool's output shows as its name (SC4).

export interface Secrets {
  /** Registers a value; short ones and plain numbers are ignored, they would shred ordinary text and ids. */
  add(name: string, value: string | undefined): void;
  redact(text: string): string;
}

const MIN_LENGTH = 8;

export function createSecrets(): Secrets {
  const names = new Map<string, string>();
  let pattern: RegExp | null = null;
  return {
    add(name, value) {
      if (value === undefined || value.length < MIN_LENGTH || /^\d{1,15}$/.test(value) || names.has(value)) return;
      // It will stand inside JSON texts: `headers["x-key"]` must not end a string there.
      const shown = name.replace(/["\\\p{Cc}]/gu, "'");
      // URL-encoded and JSON-escaped spellings leak just as well.
      for (const spelling of [value, encodeURIComponent(value), JSON.stringify(value).slice(1, -1)]) {
        if (!names.has(spelling)) names.set(spelling, shown);
      }
      const longestFirst = [...names.keys()].sort((a, b) => b.length - a.length);
      pattern = new RegExp(longestFirst.map((v) => v.replace(/[.*+?^${}()|[\]\\]/g, "\\$&")).join("|"), "g");
    },
    redact: (text) => (pattern === null ? text : text.replace(pattern, (value) => `[${names.get(value)}]`)),
  };
}
