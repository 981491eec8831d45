// What the offline model understands: a table of {name, match, act}, tried in order, first fit wins.
// request.ts → findJob → a job (files.ts, or a small one here).
import { ask } from "./ask.ts";
import { capital, countLines, named, readFile, runCommand, summarise } from "./files.ts";
import { callTool, cut, type Desk, type Job, plural, quote, say } from "./job.ts";
import { calculate } from "./sums.ts";

type Groups = Readonly<Record<string, string | undefined>>;

interface Intent {
  readonly name: string;
  readonly match: RegExp;
  /** Takes the whole request: what follows is text to keep, not another clause. */
  readonly whole?: boolean;
  act(desk: Desk, groups: Groups): Job;
}

const MAX_WAIT_MS = 120_000;
const EXAMPLES = [
  '"read README.md and tell me its headings"',
  '"in the background, summarise the files here and count their lines"',
  '"send three helpers to wait 5, 10 and 20 seconds"',
  '"in the background, ask me: red or blue?"',
];
const ABILITIES = `I follow rules, so plain requests work best, for example:\n\n${EXAMPLES.map((example) => `- ${example}`).join("\n")}\n\nI can also list, search, write, send, run, fetch, remember, ask, wait and do simple sums, as far as those tools are offered here.`;

const PATH = "`[^`]+`|\"[^\"]+\"|'[^']+'|\\.(?=\\s|$)|[\\w@~+*./-]*[\\w*/]";
/** A bare word is a file only when it looks like one: "read README" yes, "read about ships" no. */
const FILE = "`[^`]+`|\"[^\"]+\"|'[^']+'|[\\w@~+*-]*[./][\\w@~+*./-]*[\\w*/]|readme|license|changelog|makefile|dockerfile";
const NOT_A_PATH = "(?!(?:it|this|that|these|those|our|my|your|the|what|all|everything|me|a|an|and|then|sub-?agents?|helpers?)\\b)";
/** The workspace itself, or a path in it. */
const PLACE = `(?:(?<here>here|(?:this|the|my|your)\\s+(?:folder|directory|workspace))(?=[\\s.,!?]|$)|${NOT_A_PATH}(?<path>${PATH}))`;
const FILLER = "(?:(?:the|a|all|files?|folder|directory|contents?|code|lines?|of|in|under|below)\\s+)*";
const rule = (source: string, flags = "i"): RegExp => new RegExp(source, flags);

const INTENTS: readonly Intent[] = [
  {
    name: "remember",
    match: rule("^remember(?:\\s+that)?[:,]?\\s+(?<text>.+)$", "is"),
    whole: true,
    act: (desk, { text = "" }) =>
      callTool(desk, "remember", { text }, () => ({ text: `Remembered: ${text}`, changes: ["one line in the memory file"] })),
  },
  {
    name: "note",
    match: rule("^(?:make\\s+a\\s+|take\\s+a\\s+)?note(?:\\s+(?:that|down))?[:,]?\\s+(?<text>.+)$", "is"),
    whole: true,
    act: (desk, { text = "" }) => callTool(desk, "scratchpad", { op: "append", section: "notes", text }, () => `Noted: ${text}`),
  },
  {
    name: "brief",
    match: rule('^brief\\s+(?<target>"[^"]+"|[^\\s:]+)\\s*:\\s*(?<mission>.+)$', "is"),
    whole: true,
    act: (desk, { target, mission = "" }) => {
      const brief = { mission, sharedMemory: [], constraints: [] };
      return callTool(
        desk,
        "subagents",
        { action: "brief", ids: [unquote(target)], brief },
        () => `Briefed ${target}: it sees that from its next step on.`,
      );
    },
  },
  {
    name: "revoke",
    match: rule('^revoke\\s+(?:the\\s+)?brief\\s+(?:of|from)\\s+(?<target>"[^"]+"|\\S+?)[.!]?$'),
    whole: true,
    act: (desk, { target }) =>
      callTool(
        desk,
        "subagents",
        { action: "revoke", ids: [unquote(target)] },
        () => `Revoked: ${target} sees nothing of the brief from its next step on.`,
      ),
  },
  {
    name: "echo",
    match: rule("^(?:echo|repeat(?:\\s+after\\s+me)?|say)[:,]?\\s+(?<text>.+)$", "is"),
    whole: true,
    act: (_desk, { text = "" }) => say(unquote(text)),
  },
  {
    name: "write",
    match: rule(
      `^(?:write|save|put)\\s+(?<content>.+?)\\s+(?:to|into|in)\\s+(?:(?:the|a)\\s+)?(?:file\\s+)?(?:called\\s+|named\\s+)?(?<path>${FILE})[.!]?$`,
      "is",
    ),
    whole: true,
    act: writeFile,
  },
  {
    name: "create",
    match: rule(`^create\\s+(?:a\\s+file\\s+)?(?<path>${FILE})\\s+(?:with|containing)[:]?\\s+(?<content>.+)$`, "is"),
    whole: true,
    act: writeFile,
  },
  {
    name: "edit",
    match: rule(`^replace\\s+(?<oldText>${PATH})\\s+(?:with|by)\\s+(?<newText>${PATH})\\s+in\\s+(?<path>${FILE})[.!]?$`),
    whole: true,
    act: (desk, groups) => {
      const path = unquote(groups.path);
      const args = { path, oldText: unquote(groups.oldText), newText: unquote(groups.newText) };
      return callTool(desk, "edit", args, (text) => ({ text: `Changed \`${path}\`:\n\n${quote(text)}`, changes: [`edited \`${path}\``] }));
    },
  },
  {
    name: "ask",
    match: rule("^ask\\s+(?:me|us|(?:the\\s+)?(?:user|people|person|human|somebody|someone))\\b[,:]?\\s+(?<words>\\S.*)$", "is"),
    act: (desk, { words = "" }) => ask(desk, words),
  },
  { name: "wait", match: /^(?:wait|sleep|pause)(?:\s+for)?\s+(?<amount>\d+(?:\.\d+)?)\s*(?<unit>m(?:in(?:ute)?s?)?\b)?/i, act: wait },
  {
    name: "count up",
    match: /^(?:slowly\s+)?count\s+(?:slowly\s+)?(?:from\s+1\s+)?(?:up\s+)?to\s+(?<to>\d+)(?<slowly>\s+slowly)?/i,
    act: countUp,
  },
  {
    name: "fetch",
    match: /^(?:fetch|get|open|read|download|visit|summari[sz]e|show(?:\s+me)?)\s+<?(?<url>https?:\/\/[^\s>]*[^\s>.,;!?)])/i,
    act: (desk, { url = "" }) =>
      callTool(desk, "web_fetch", { url }, (text) => `${url} says (text of the page, not mine):\n\n${quote(text)}`),
  },
  {
    name: "sub-agents",
    match:
      /^(?:list|show)(?:\s+me)?(?:\s+(?:my|the|all))*\s+(?:sub-?agents|helpers)|^(?:what|how|are|is)\b.*\b(?:sub-?agents?|helpers?)\b/i,
    act: (desk) => callTool(desk, "subagents", { action: "list" }, (text) => `The runtime's list:\n\n${quote(text)}`),
  },
  {
    name: "search",
    match: rule(
      `^(?:search|grep|look|find)(?:\\s+for)?\\s+(?:(?:all|every|any|the)\\s+)?(?<pattern>"[^"]+"|'[^']+'|\`[^\`]+\`|.+?)(?:\\s+(?:(?:in|under|within|below)\\s+)?(?<here>here|(?:this|the|my|your)\\s+(?:folder|directory|workspace))|\\s+(?:in|under|within|below)\\s+(?<path>${PATH}))?[.!?]?$`,
    ),
    act: (desk, groups) => {
      const pattern = unquote(groups.pattern);
      const where = groups.path === undefined && groups.here === undefined ? {} : { path: placeOf(groups) };
      return callTool(
        desk,
        "search",
        { pattern, ...where },
        (text) => `Search for \`${pattern}\`${where.path ? ` in \`${where.path}\`` : ""}:\n\n${quote(text.trim() || "(nothing found)")}`,
      );
    },
  },
  {
    name: "run",
    match: rule(
      `^(?:run|exec(?:ute)?)\\s+(?:the\\s+command\\s+)?(?:\`(?<quoted>[^\`]+)\`(?:\\s+(?:on|in|over|for)\\s+(?<target>${PATH}))?|(?<bare>[^\`]+))`,
    ),
    act: (desk, groups) => runCommand(desk, (groups.quoted ?? groups.bare ?? "").trim(), groups.target && unquote(groups.target)),
  },
  {
    name: "send",
    match: rule(`^(?:send|give|post|upload)\\s+(?:(?:me|us)\\s+)?(?:the\\s+)?(?:file\\s+)?(?<path>${FILE})(?:\\s+here)?[.!]?$`),
    act: (desk, { path }) => callTool(desk, "send_file", { path: unquote(path) }, (text) => text),
  },
  {
    name: "headings",
    match: rule(`\\bheadings?\\s+(?:of|in|from)\\s+(?<path>${FILE})`),
    act: (desk, { path }) => readFile(desk, unquote(path), "headings"),
  },
  {
    name: "read",
    match: rule(`^(?:read|open|show(?:\\s+me)?|cat|print)\\s+(?:the\\s+)?(?:file\\s+)?(?<path>${FILE})(?<wish>.*)$`, "is"),
    act: (desk, { path, wish = "" }) => readFile(desk, unquote(path), wish),
  },
  {
    name: "summarise",
    match: rule(
      `^(?:summari[sz]e|describe|explain|review|explore|analy[sz]e|inspect|look\\s+(?:at|through|into))\\s+${FILLER}${PLACE}(?<wish>.*)$`,
      "is",
    ),
    act: (desk, groups) => summarise(desk, placeOf(groups), groups.wish ?? ""),
  },
  {
    name: "count lines",
    match: rule(`^(?:count|how\\s+many)\\s+${FILLER}(?:are\\s+)?${FILLER}${PLACE}`),
    act: (desk, groups) => (desk.has("exec") ? countLines(desk, placeOf(groups)) : summarise(desk, placeOf(groups), "count")),
  },
  {
    name: "list",
    match: rule(
      `^(?:list|ls|what(?:'s|\\s+is|\\s+files\\s+are)\\s+in|show(?:\\s+me)?\\s+(?=the\\s+(?:files|folder|contents)|files))\\s*${FILLER}${PLACE}?`,
    ),
    act: (desk, groups) => {
      const path = placeOf(groups);
      return callTool(desk, "list", { path }, (text) => `${capital(named(path))} holds:\n\n${quote(text.trim() || "(nothing)")}`);
    },
  },
  {
    name: "time",
    match:
      /^(?:what(?:'s|\s+is)?\s+)?(?:the\s+)?(?:current\s+)?(?:time|date|day)\b(?:\s+(?:is\s+it|now|today))*\??$|^what\s+(?:time|day|date)\s+is\s+(?:it|today)/i,
    act: (desk) => say(`It is ${new Date(desk.now).toISOString().replace("T", " ").slice(0, 16)} UTC.`),
  },
  {
    name: "sum",
    match: /^(?:what(?:'s|\s+is)\s+|calculate\s+|compute\s+|how\s+much\s+is\s+)?(?<sum>[\d\s.+*/%^()×÷−-]*\d[\d\s.+*/%^()×÷−-]*)=?\??$/i,
    act: (_desk, { sum = "" }) =>
      say(calculate(sum) === null ? `I can't work out \`${sum.trim()}\`.` : `${sum.trim()} = ${calculate(sum)}`),
  },
  {
    name: "greeting",
    match: /^(?:hi|hello|hey|hallo|good\s+(?:morning|afternoon|evening|day))(?:\s+(?:there|herald|all))?\s*[!.,]*$/i,
    act: () => say("Hello! What shall I do?"),
  },
  {
    name: "thanks",
    match: /^(?:thanks|thank\s+you|thx|cheers|great|nice|ok(?:ay)?|good|perfect)\b.{0,30}$/i,
    act: () => say("You're welcome."),
  },
  { name: "goodbye", match: /^(?:bye|goodbye|good\s+night|see\s+you)\b.{0,30}$/i, act: () => say("Goodbye!") },
  { name: "mood", match: /^how\s+are\s+you\b/i, act: () => say("I'm a set of rules, so always the same. What shall I do?") },
  {
    name: "who",
    match: /^(?:who|what)\s+are\s+you\b|^are\s+you\s+(?:an?\s+)?(?:llm|ai|bot|human|real)\b|^which\s+model\b/i,
    act: () => say(`I'm Herald's built-in offline model: a fixed set of rules, no LLM and no network. ${ABILITIES}`),
  },
  {
    name: "help",
    match: /^(?:help|what\s+can\s+(?:you|i)\s+do|what\s+do\s+you\s+do|how\s+do(?:es)?\s+(?:i|this|it)\b.*)[\s!?.]*/i,
    act: () => say(ABILITIES),
  },
];

/** What to say when no rule fits. */
export const confusion = (text: string): string => `I have no rule for "${cut(text.replace(/\s+/g, " "), 120)}". ${ABILITIES}`;

/** The job of the first rule that fits, or null. `onlyWhole`: rules that take a request as a whole. */
export function findJob(text: string, desk: Desk, onlyWhole: boolean): (() => Job) | null {
  for (const intent of INTENTS) {
    if (onlyWhole && intent.whole !== true) continue;
    const found = intent.match.exec(text);
    if (found !== null) return () => intent.act(desk, found.groups ?? {});
  }
  return null;
}

const placeOf = ({ path }: Groups): string =>
  path === undefined || /^(?:files?|folder|directory|workspace)$/i.test(path) ? "." : unquote(path);

const unquote = (text = ""): string => text.trim().replace(/^(["'`])([\s\S]*)\1$/, "$2");

function writeFile(desk: Desk, groups: Groups): Job {
  const path = unquote(groups.path);
  const content = unquote(groups.content);
  return callTool(desk, "write", { path, content }, () => ({
    text: `Wrote ${plural(content.length, "character")} to \`${path}\`.`,
    changes: [`wrote \`${path}\``],
  }));
}

function* wait(_desk: Desk, { amount = "0", unit }: Groups): Job {
  const wantedMs = Number(amount) * (unit === undefined ? 1000 : 60_000);
  const waitMs = Math.min(wantedMs, MAX_WAIT_MS);
  yield { waitMs };
  return { text: `Waited ${plural(waitMs / 1000, "second")}${waitMs < wantedMs ? ", the longest I wait" : ""}.` };
}

function* countUp(_desk: Desk, { to = "0", slowly }: Groups): Job {
  const last = Math.min(Number(to), MAX_WAIT_MS / 1000);
  const numbers: number[] = [];
  for (let n = 1; n <= last; n++) {
    numbers.push(n);
    if (slowly !== undefined) yield { waitMs: 1000, shows: numbers.join(", ") };
  }
  return { text: `${numbers.join(", ")}.${last < Number(to) ? " That is as far as I count." : ""}` };
}
