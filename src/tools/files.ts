// The tools of files: read stands here, list and those that change one beside it. Files of the agent's workspace, and nothing outside it
// (TL1, TL7).
// model's arguments → workspace-path (may it?) → workspace-files (open it safely) → text, or one sentence why not.
import { z } from "zod";
import { createSecrets } from "../core/secrets.ts";
import { defineTool, type Tool, toolError, toolQuote } from "../core/tool.ts";
import { spellUnseen } from "../core/visible-text.ts";
import { createChangeTools, type FileSecrets, PATH } from "./change-files.ts";
import { createListTool } from "./list.ts";
import { formatBytes } from "./output.ts";
import { createPromptFiles, type PromptFiles } from "./prompt-files.ts";
import { readPage } from "./read-page.ts";
import { answerFileErrors, openFolder, openRegular, splitPlace } from "./workspace-files.ts";
import { resolveFor } from "./workspace-path.ts";

const DEFAULT_LINES = 2000;

/** read, write, edit and list. Make them once: parallel edits of one file wait for each other only within one set. */
export function createFileTools(promptFiles: PromptFiles = createPromptFiles(), secrets: FileSecrets = createSecrets()): Tool[] {
  return [createReadTool(promptFiles), ...createChangeTools({ promptFiles, secrets }), createListTool(promptFiles)];
}

function createReadTool(promptFiles: PromptFiles): Tool {
  return defineTool({
    name: "read",
    description:
      "Reads a text file of the workspace and returns its lines as they are. Long files come in pages: a note at the end " +
      "says which offset continues. Binary files are recognised and not shown. A character nobody could see is spelled by its " +
      "number, such as U+200B, in brackets of its own; write and edit take it so.",
    schema: z.strictObject({
      path: PATH,
      offset: z.int().min(1).optional().describe("First line to return, counted from 1; default 1"),
      limit: z.int().min(1).max(100_000).optional().describe(`How many lines at most; default ${DEFAULT_LINES}`),
    }),
    capability: "read",
    repeatable: true,
    run: (args, context) =>
      answerFileErrors(args.path, async () => {
        const place = await resolveFor(promptFiles, context, args.path);
        const { parents, name } = splitPlace(place);
        await using folder = await openFolder(place.root, parents);
        const { file, stats } = await openRegular(folder, name, place.shown);
        await using _ = file;
        const range = { offset: args.offset ?? 1, limit: args.limit ?? DEFAULT_LINES };
        const page = await readPage(file, range, context.signal);
        if (page.kind === "stopped") return toolError("Stopped before the file was read.");
        if (page.kind === "binary")
          return { text: `"${place.shown}" is a binary file of ${formatBytes(stats.size)}; it is not shown as text.` };
        if (page.kind === "past-end") return toolError(`"${place.shown}" ends at line ${page.lines}; ask for a smaller offset.`);
        if (page.text === "") return { text: `"${place.shown}" is empty.` };
        const source = `file ${place.shown}`;
        // Nothing is dropped: what is hidden in a file must be seen, and edit must find it again.
        const heldBack = page.cutLine ? context.secrets.heldBack(page.text) : 0;
        const text = spellUnseen(page.text.slice(0, page.text.length - heldBack));
        if (page.next === null) return toolQuote(source, text);
        const cut = page.cutLine ? ` Line ${range.offset} is too long and was cut; search or exec can show the rest of it.` : "";
        const more = `[The file goes on (${formatBytes(stats.size)} in all): read with offset ${page.next}.${cut}]`;
        return toolQuote(source, text.trimEnd(), more);
      }),
  });
}
