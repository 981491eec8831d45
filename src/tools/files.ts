// The tools read, write and edit: files of the agent's workspace, and nothing outside it (TL1, TL7).
// model's arguments → workspace-path (may it?) → workspace-files (open it safely) → text, or one sentence why not.
import { join } from "node:path";
import { z } from "zod";
import { createSecrets, type Secrets } from "../core/secrets.ts";
import { defineTool, type Tool, type ToolContext, type ToolResult, toolError, toolQuote } from "../core/tool.ts";
import { readSpelled, spellUnseen } from "../core/visible-text.ts";
import { createListTool } from "./list.ts";
import { capLines, escapeName, formatBytes } from "./output.ts";
import { createPromptFiles, type PromptFiles } from "./prompt-files.ts";
import { readPage } from "./read-page.ts";
import {
  answerFileErrors,
  type Folder,
  findRegular,
  openFolder,
  openRegular,
  overwriteFile,
  replaceFile,
  splitPlace,
} from "./workspace-files.ts";
import { type Place, resolveFor, resolveToChange } from "./workspace-path.ts";

const MAX_FILE_BYTES = 5 * 1024 * 1024;
const DEFAULT_LINES = 2000;
const READ_ONLY = "The workspace is read-only for this role, so nothing was written; report what should be changed instead.";

const PATH = z.string().min(1).describe('Path of the file inside the workspace, for example "src/app.ts"');

/** read, write, edit and list. Make them once: parallel edits of one file wait for each other only within one set. */
export function createFileTools(promptFiles: PromptFiles = createPromptFiles(), secrets: FileSecrets = createSecrets()): Tool[] {
  const desk: Desk = { promptFiles, secrets, queue: createFileQueue() };
  return [createReadTool(promptFiles), createWriteTool(desk), createEditTool(desk), createListTool(promptFiles)];
}

/** A model reads a secret's name instead of its value; what it writes back must not put the name in its place. */
export type FileSecrets = Pick<Secrets, "redact" | "namesIn" | "restore">;

interface Desk {
  readonly promptFiles: PromptFiles;
  readonly secrets: FileSecrets;
  readonly queue: FileQueue;
}

/** Runs `work` after all earlier work on the same file. */
type FileQueue = <T>(place: Place, work: () => Promise<T>) => Promise<T>;

// A model may ask for several edits of one file at once; without an order the last one would undo the others.
function createFileQueue(): FileQueue {
  const last = new Map<string, Promise<unknown>>();
  return async (place, work) => {
    const key = JSON.stringify([place.root, ...place.parts]);
    const before = last.get(key) ?? Promise.resolve();
    const mine = before.then(work, work);
    last.set(key, mine);
    try {
      return await mine;
    } finally {
      if (last.get(key) === mine) last.delete(key);
    }
  };
}

function createReadTool(promptFiles: PromptFiles): Tool {
  return defineTool({
    name: "read",
    description:
      "Reads a text file of the workspace and returns its lines as they are. Long files come in pages: a note at the end " +
      "says which offset continues. Binary files are recognised and not shown. A character nobody could see is spelled, for " +
      "example ⟦U+200B⟧; write and edit take it so.",
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

function createWriteTool(desk: Desk): Tool {
  return defineTool({
    name: "write",
    description:
      "Writes a text file of the workspace: creates it, with its folders, or replaces its whole content in one step. " +
      "To change a part of an existing file use edit.",
    schema: z.strictObject({ path: PATH, content: z.string().describe("The whole new content of the file") }),
    capability: "write",
    repeatable: true,
    run: (args, context) =>
      changeFile(desk, args.path, context, async (place, replace) => {
        const bytes = Buffer.byteLength(args.content);
        if (bytes > MAX_FILE_BYTES)
          return toolError(`The content is ${formatBytes(bytes)}; at most ${formatBytes(MAX_FILE_BYTES)} can be written.`);
        const { parents, name } = splitPlace(place);
        await using folder = await openFolder(place.root, parents, true);
        const old = await findRegular(folder, name, place.shown);
        const before = old === null ? "" : await readText(folder, name, place.shown);
        const { text, unknown } = desk.secrets.restore(readSpelled(args.content), before ?? "");
        if (unknown.length > 0) return toolError(placeholders(place.shown, unknown));
        await replace(folder, name, text, old?.mode ?? null);
        return { text: `${old === null ? "Created" : "Replaced"} "${place.shown}" (${formatBytes(bytes)}).` };
      }),
  });
}

function createEditTool(desk: Desk): Tool {
  return defineTool({
    name: "edit",
    description:
      "Changes a part of a text file of the workspace: replaces oldText, which must occur exactly once and match to the " +
      "character, by newText, and answers with a diff. With replaceAll every occurrence is replaced.",
    schema: z.strictObject({
      path: PATH,
      oldText: z.string().min(1).describe("The text to replace, copied exactly from the file; enough lines to be unique"),
      newText: z.string().describe("What to put in its place; empty removes it"),
      replaceAll: z.boolean().optional().describe("Replace every occurrence; default false"),
    }),
    capability: "write",
    run: (args, context) =>
      changeFile(desk, args.path, context, async (place, replace) => {
        const { parents, name } = splitPlace(place);
        await using folder = await openFolder(place.root, parents);
        const { file, stats } = await openRegular(folder, name, place.shown);
        await using _ = file;
        if (stats.size > MAX_FILE_BYTES)
          return toolError(`"${place.shown}" is ${formatBytes(stats.size)}; edit takes at most ${formatBytes(MAX_FILE_BYTES)}.`);
        const text = decodeText(await file.readFile());
        if (text === null) return toolError(`"${place.shown}" is not UTF-8 text, so an edit would damage it.`);
        const { oldText, newText, replaceAll = false } = args;
        // Loaded at the first edit: the diff comes from a package.
        const { editText } = await import("./edit.ts");
        // In the text as the model knows it: where a value stands it copied a name.
        const shown = desk.secrets.redact(text);
        const request = { oldText: readSpelled(oldText), newText: readSpelled(newText), replaceAll };
        const edited = editText(shown, request, desk.secrets.namesIn(text));
        if ("error" in edited) return toolError(`"${place.shown}": ${edited.error}`);
        const restored = desk.secrets.restore(edited.text, text);
        if (restored.unknown.length > 0) return toolError(placeholders(place.shown, restored.unknown));
        await replace(folder, name, restored.text, stats.mode);
        const places = edited.count === 1 ? "" : ` in ${edited.count} places`;
        const diff = capLines(spellUnseen(edited.diff).split("\n"), "read the file");
        return toolQuote(`file ${place.shown}`, diff.text, [diff.note, `Edited "${place.shown}"${places}.`].filter(Boolean).join("\n"));
      }),
  });
}

/** What write and edit share: not for readers, not after a stop, one at a time per file. */
function changeFile(
  { promptFiles, queue }: Desk,
  path: string,
  context: ToolContext,
  work: (place: Place, replace: typeof replaceFile) => Promise<ToolResult>,
): Promise<ToolResult> {
  return answerFileErrors(path, async () => {
    if (context.readOnly) return toolError(READ_ONLY);
    const place = await resolveToChange(promptFiles, context, path);
    return await queue(place, async () => {
      if (context.signal.aborted) return toolError(`Stopped before "${escapeName(path)}" was changed.`);
      // Replaced, the file would lose the cover that keeps a running command of a sub-agent from writing it.
      return await work(place, promptFiles.isHeld(join(place.root, ...place.parts)) ? overwriteFile : replaceFile);
    });
  });
}

const placeholders = (shown: string, marks: readonly string[]): string =>
  `"${shown}" was not changed: ${marks.join(", ")} stands for a secret that is not shown to you, and which value is meant here can't be told. ` +
  "Leave such places as they are, copy a whole file with a command, or write the name without its brackets.";

/** Null when it is too long or no text: then no value can have been read from it. */
async function readText(folder: Folder, name: string, shown: string): Promise<string | null> {
  const { file, stats } = await openRegular(folder, name, shown);
  await using _ = file;
  return stats.size > MAX_FILE_BYTES ? null : decodeText(await file.readFile());
}

function decodeText(bytes: Buffer): string | null {
  if (bytes.includes(0)) return null;
  try {
    return new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(bytes);
  } catch {
    return null; // The decoder's only way to say "not UTF-8".
  }
}
