// The tool search: lines that match a pattern in the files of the workspace (TL1, TL7).
// model's arguments → workspace-path (may it?) → a place among those that search → ripgrep.ts → lines, quoted.
import { lstat } from "node:fs/promises";
import { join } from "node:path";
import { z } from "zod";
import type { CutSecrets } from "../core/secrets.ts";
import { defineTool, type Tool, type ToolResult, toolError, toolQuote } from "../core/tool.ts";
import { cutText, spellUnseen } from "../core/visible-text.ts";
import { createAtMost } from "./at-most.ts";
import { capLines, escapeName } from "./output.ts";
import { createPromptFiles, type PromptFiles } from "./prompt-files.ts";
import { findRipgrep, runRipgrep, type SearchOutcome } from "./ripgrep.ts";
import type { Sandbox } from "./sandbox.ts";
import { answerFileErrors } from "./workspace-files.ts";
import { resolveFor } from "./workspace-path.ts";

const TIMEOUT_MS = 20_000;
const DEFAULT_LIMIT = 100;
const LINE_CHARS = 300;
/** ripgrep uses all cores for one search; a model may ask for a hundred at once. */
const MAX_CONCURRENT = 4;
const NO_RIPGREP = "Nothing can be searched: ripgrep is missing. Install it on this machine (apt-get install ripgrep).";

export interface SearchOptions {
  readonly sandbox: Sandbox;
  /** What sub-agents are kept from; default that of the session's own workspace. */
  readonly promptFiles?: PromptFiles;
  /** Path of ripgrep; default the one that comes with Herald. */
  readonly ripgrep?: string | null;
  /** Deadline of one search. */
  readonly timeoutMs?: number;
}

export function createSearchTool(options: SearchOptions): Tool {
  const promptFiles = options.promptFiles ?? createPromptFiles();
  const { sandbox, timeoutMs = TIMEOUT_MS } = options;
  const atMost = createAtMost(MAX_CONCURRENT);
  return defineTool({
    name: "search",
    description:
      "Searches the text files of the workspace for a regular expression and returns matching lines as path:line: text. Files " +
      "that .gitignore excludes are left out, as are binary files and links. A glob such as *.ts narrows it to some files.",
    schema: z.strictObject({
      pattern: z
        .string()
        .min(1)
        .max(1000)
        .describe("Regular expression, matched line by line; escape special characters to search for plain text"),
      path: z.string().min(1).optional().describe('Folder or file inside the workspace; default ".", all of it'),
      glob: z.string().min(1).max(200).optional().describe('Only files that match, for example "*.ts" or "src/**/*.md"'),
      ignoreCase: z.boolean().optional().describe("Upper and lower case are the same; default false"),
      limit: z.int().min(1).max(1000).optional().describe(`How many matching lines at most; default ${DEFAULT_LIMIT}`),
    }),
    capability: "read",
    repeatable: true,
    run: (args, context) =>
      answerFileErrors(args.path ?? ".", async () => {
        const place = await resolveFor(promptFiles, context, args.path ?? ".");
        await lstat(join(place.root, ...place.parts)); // A missing path is an error, not "no match".
        const limit = args.limit ?? DEFAULT_LIMIT;
        const { pattern, glob, ignoreCase = false } = args;
        const { root, parts, closed } = place;
        const task = { root, parts, closed, pattern, glob, ignoreCase, limit: limit + 1, lineChars: LINE_CHARS + 1 };
        const ripgrep = options.ripgrep === undefined ? await findRipgrep() : options.ripgrep;
        if (ripgrep === null) return toolError(NO_RIPGREP);
        const found = await atMost(context, () => runRipgrep({ sandbox, promptFiles, ripgrep, timeoutMs }, task, context.signal));
        if (context.signal.aborted) return toolError("Stopped before the search was finished.");
        if (found.matches.length === 0 && found.problem !== null) return toolError(`Nothing found: ${found.problem}.`);
        if (found.matches.length === 0) return { text: `No line in "${place.shown}" matches.` };
        return showMatches(found, limit, context.secrets);
      }),
  });
}

/** Only here, where the secrets are known; ripgrep cuts a longer line a little later, and says so in words that go with the rest. */
function cutLine(line: string, { heldBack }: CutSecrets): string {
  if (line.length <= LINE_CHARS) return line;
  const head = cutText(line, LINE_CHARS);
  return `${head.slice(0, head.length - heldBack(head))} [… the line goes on]`;
}

function showMatches(found: SearchOutcome, limit: number, secrets: CutSecrets): ToolResult {
  const matches = found.matches.slice(0, limit);
  const lines = matches.map((match) => `${escapeName(match.path)}:${match.line}: ${spellUnseen(cutLine(match.text.trimEnd(), secrets))}`);
  const more = found.matches.length > limit ? `There are more than ${limit} matches: narrow the pattern, the path or the glob.` : null;
  const shown = capLines(lines, "narrow the pattern, the path or the glob");
  const notes = [found.problem, more].flatMap((note) => (note === null ? [] : [`[${note}]`]));
  return toolQuote("lines of files", shown.text, [shown.note, ...notes].filter(Boolean).join("\n"));
}
