// The text of a Slack message as a person reads it: `<…>` links become words, then the three escapes are undone. In
// that order: what somebody typed as `<@U1>` arrives escaped and must not turn into a mention.

const LINK = /<([^<>|]{1,3000})(?:\|([^<>]{0,3000}))?>/g;
const ESCAPE = /&(?:lt|gt|amp);/g;
const ESCAPED: Readonly<Record<string, string>> = { "&lt;": "<", "&gt;": ">", "&amp;": "&" };

/** `<@U1|ann>` → `@ann`, `<#C1|general>` → `#general`, `<!here>` → `@here`, `<https://x|y>` → `y (https://x)`. */
export function toReadable(text: string): string {
  return unescapeSlackText(text.replace(LINK, (_all, target: string, label: string | undefined) => readLink(target, label ?? "")));
}

/** Undoes the three escapes, once; for `text` fields that hold no links. */
export const unescapeSlackText = (text: string): string => text.replace(ESCAPE, (name) => ESCAPED[name] ?? name);

function readLink(target: string, label: string): string {
  const sign = target.charAt(0);
  if (sign === "@" || sign === "#") return label === "" ? target : `${sign}${label.replace(/^[@#]/, "")}`;
  if (sign === "!") return label !== "" ? label : `@${target.slice(1).split("^")[0]}`;
  const address = target.replace(/^(?:mailto|tel):/, "");
  return label === "" || label === address || label === target ? address : `${label} (${target})`;
}
