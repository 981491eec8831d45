// Strict JSON for request bodies: valid UTF-8, shallow, no name twice, no number beyond a double, no half character.
// JSON.parse alone would take all of these and leave the surprise to later code.

const MAX_DEPTH = 16;
const UTF8 = new TextDecoder("utf-8", { fatal: true });

/** Bytes → value, or null when it is not JSON as strict as above. Linear in size; never throws. */
export function parseStrictJson(bytes: Uint8Array): unknown {
  try {
    const text = UTF8.decode(bytes);
    if (!hasPlainShape(text)) return null;
    let isPlain = true;
    const value: unknown = JSON.parse(text, (key, part: unknown) => {
      if (key === "__proto__" || !key.isWellFormed()) isPlain = false;
      if (typeof part === "number" && !Number.isFinite(part)) isPlain = false;
      if (typeof part === "string" && !part.isWellFormed()) isPlain = false;
      return part;
    });
    return isPlain ? value : null;
  } catch {
    // Not UTF-8 or not JSON: both are the caller's mistake and get the same answer.
    return null;
  }
}

/** Depth and repeated names, before JSON.parse builds anything. */
function hasPlainShape(text: string): boolean {
  const names: (Set<string> | null)[] = [];
  for (let at = 0; at < text.length; at++) {
    const char = text[at];
    if (char === "{" || char === "[") {
      names.push(char === "{" ? new Set() : null);
      if (names.length > MAX_DEPTH) return false;
    } else if (char === "}" || char === "]") {
      names.pop();
    } else if (char === '"') {
      const end = stringEnd(text, at);
      const here = names.at(-1);
      if (here != null && /^\s*:/.test(text.slice(end + 1, end + 20))) {
        const name = JSON.parse(text.slice(at, end + 1)) as string;
        if (here.has(name)) return false;
        here.add(name);
      }
      at = end;
    }
  }
  return true;
}

function stringEnd(text: string, start: number): number {
  let at = start + 1;
  while (at < text.length && text[at] !== '"') at += text[at] === "\\" ? 2 : 1;
  return at;
}
