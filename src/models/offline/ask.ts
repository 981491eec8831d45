// The offline model asking people: "ask me which colour I like", "ask me: red or blue?", "ask me whether to go on, then …" → one call
// of the tool `ask`; then it says what it was told, and a No to "whether to go on" ends what was to come after it.
import { capital } from "./files.ts";
import { cut, type Desk, failed, type Job, missing } from "./job.ts";

interface Wording {
  readonly question: string;
  readonly options: readonly string[];
  /** A No means: nothing of what follows. */
  readonly isGoOn: boolean;
}

const MAX_OPTIONS = 8;
const MAX_OPTION = 100;
const MODAL = "should|can|may|must|will|would|could";

/** `which colour I like: red or blue` → "Which colour do you like?", red, blue. */
function toWording(words: string): Wording {
  const plain = words.trim().replace(/[\s?!.]+$/, "");
  const [, before, after] = /^([^:]*):\s+(.+)$/s.exec(plain) ?? [];
  const listed = listOf(after ?? plain);
  if (before !== undefined && before.trim() !== "") return { ...wordingOf(before.trim()), ...(listed === null ? {} : { options: listed }) };
  return listed === null ? wordingOf(plain) : { question: `${capital(plain)}?`, options: listed, isGoOn: false };
}

/** "red, green or blue", and nothing that reads like a sentence. */
function listOf(text: string): string[] | null {
  if (/^(?:whether|if|for|about)\b/i.test(text)) return null;
  const items = text.split(/\s*,\s*(?:or\s+)?|\s+or\s+/).map((item) => item.trim());
  const isList = /\sor\s/.test(text) && items.every((item) => item !== "" && item.length <= MAX_OPTION && item.split(/\s+/).length <= 4);
  return isList && items.length <= MAX_OPTIONS && new Set(items).size === items.length ? items : null;
}

const YES_NO = ["Yes", "No"];

function wordingOf(text: string): Wording {
  const whetherTo = /^(?:whether|if)\s+to\s+(.+)$/is.exec(text)?.[1];
  if (whetherTo !== undefined) return { question: `Shall I ${toYou(whetherTo)}?`, options: YES_NO, isGoOn: true };
  const whether = /^(?:whether|if)\s+(.+)$/is.exec(text)?.[1];
  if (whether !== undefined) return { question: turned("", whether), options: YES_NO, isGoOn: false };
  const wanted = /^for\s+(.+)$/is.exec(text)?.[1];
  if (wanted !== undefined) return { question: `Please give me ${toYou(wanted)}.`, options: [], isGoOn: false };
  const [, what, rest] = /^((?:what|which|where|when|who|whom|why|how)\b.*?)\s+(I\s+.+)$/is.exec(text) ?? [];
  return {
    question: what === undefined || rest === undefined ? `${capital(toYou(text))}?` : turned(what, rest),
    options: [],
    isGoOn: false,
  };
}

/** `I like tea` → "Do you like tea?", `I should go` → "Should you go?", anything else as it is. */
function turned(what: string, said: string): string {
  const [, modal, verb] = new RegExp(`^I\\s+(?:(${MODAL})\\s+)?(.+)$`, "is").exec(said) ?? [];
  if (verb === undefined) return `${capital(`${what} ${toYou(said)}`.trim())}?`;
  const asks = /^am\s/i.test(verb) ? `are you ${toYou(verb.slice(3))}` : `${modal ?? "do"} you ${toYou(verb)}`;
  return `${capital(`${what} ${asks}`.trim())}?`;
}

const toYou = (text: string): string =>
  text.trim().replace(/\b(?:I|me|my|mine)\b/g, (word) => ({ I: "you", me: "you", my: "your", mine: "yours" })[word] ?? word);

export function* ask(desk: Desk, words: string): Job {
  if (!desk.has("ask")) return missing("ask");
  const { question, options, isGoOn } = toWording(words);
  const args = options.length === 0 ? { question } : { question, options };
  const [result] = yield { calls: [desk.call("ask", args)] };
  if (result === undefined || result.isError) return failed("ask", result);
  if (/^Nobody answered in time\b/.test(result.text))
    return { text: `I asked "${question}". Nobody answered in time, so I go on without it.` };
  const said = result.text.trim();
  const told = `I asked "${question}" and was told: ${cut(said, 1500)}`;
  return isGoOn && /^(?:no|n|stop|don'?t)\b/i.test(said) ? { text: `${told}\n\nSo I stop here.`, isEnd: true } : { text: told };
}
