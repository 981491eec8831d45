// The tools write and edit. A change is worked out first, from the file as it is, and then made: so that a person can be shown it
// before anything is written (QA4), and what was shown is what is written or nothing is.
// arguments → workspace-path (may it?) → workspace-files (open it safely) → the change → the file, or one sentence why not.
import { hash } from "node:crypto";
import type { Stats } from "node:fs";
import { join } from "node:path";
import { z } from "zod";
import { codeBlock } from "../core/code-block.ts";
import type { Secrets } from "../core/secrets.ts";
import { defineTool, type Preview, type Tool, type ToolContext, type ToolResult, toolError, toolQuote } from "../core/tool.ts";
import { readSpelled, spellUnseen } from "../core/visible-text.ts";
import { capLines, escapeName, formatBytes } from "./output.ts";
import type { PromptFiles } from "./prompt-files.ts";
import {
  answerFileErrors,
  type Folder,
  fileErrorText,
  findRegular,
  openFolder,
  openRegular,
  overwriteFile,
  replaceFile,
  splitPlace,
} from "./workspace-files.ts";
import { type Place, refuse, resolveToChange } from "./workspace-path.ts";

const MAX_FILE_BYTES = 5 * 1024 * 1024;
const READ_ONLY = "The workspace is read-only for this role, so nothing was written; report what should be changed instead.";
const CHANGED =
  "Nothing was written: the file changed since you were asked, and the yes is used up. Look again; a repeated call asks anew.";

export const PATH = z.string().min(1).describe('Path of the file inside the workspace, for example "src/app.ts"');

/** A model reads a secret's name instead of its value; what it writes back must not put the name in its place. */
export type FileSecrets = Pick<Secrets, "redact" | "namesIn" | "restore">;

interface Desk {
  readonly promptFiles: PromptFiles;
  readonly secrets: FileSecrets;
  readonly queue: FileQueue;
}

/** Make them once: parallel edits of one file wait for each other only within one set. */
export function createChangeTools(parts: Omit<Desk, "queue">): Tool[] {
  const desk: Desk = { ...parts, queue: createFileQueue() };
  return [createWriteTool(desk), createEditTool(desk)];
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

/** The file that is to be changed; null: there is none yet. */
interface Target {
  readonly place: Place;
  readonly old: OldFile | null;
}

interface OldFile {
  readonly stats: Stats;
  /** Null when it is too long or no text: then no value can have been read from it. */
  readonly text: string | null;
}

/** Worked out, and not made yet. */
interface Change {
  readonly text: string;
  readonly said: ToolResult;
}

type WorkOut = (target: Target) => Promise<Change | { readonly problem: string }>;

function createWriteTool(desk: Desk): Tool {
  const schema = z.strictObject({ path: PATH, content: z.string().describe("The whole new content of the file") });
  const workOut =
    (content: string): WorkOut =>
    async ({ place, old }) => {
      const bytes = Buffer.byteLength(content);
      if (bytes > MAX_FILE_BYTES)
        return { problem: `The content is ${formatBytes(bytes)}; at most ${formatBytes(MAX_FILE_BYTES)} can be written.` };
      const { text, unknown } = desk.secrets.restore(readSpelled(content), old?.text ?? "");
      if (unknown.length > 0) return { problem: placeholders(place.shown, unknown) };
      return { text, said: { text: `${old === null ? "Created" : "Replaced"} "${place.shown}" (${formatBytes(bytes)}).` } };
    };
  return defineTool({
    name: "write",
    description:
      "Writes a text file of the workspace: creates it, with its folders, or replaces its whole content in one step. " +
      "To change a part of an existing file use edit.",
    schema,
    capability: "write",
    repeatable: true,
    preview: ({ path, content }, context) => previewChange(desk, path, context, workOut(content)),
    run: ({ path, content }, context) => makeChange(desk, path, context, workOut(content)),
  });
}

function createEditTool(desk: Desk): Tool {
  const schema = z.strictObject({
    path: PATH,
    oldText: z.string().min(1).describe("The text to replace, copied exactly from the file; enough lines to be unique"),
    newText: z.string().describe("What to put in its place; empty removes it"),
    replaceAll: z.boolean().optional().describe("Replace every occurrence; default false"),
  });
  const workOut =
    ({ path, oldText, newText, replaceAll = false }: z.output<typeof schema>): WorkOut =>
    async ({ place, old }) => {
      if (old === null) return { problem: fileErrorText(path, { code: "ENOENT" }) ?? "There is no such file." };
      if (old.stats.size > MAX_FILE_BYTES)
        return { problem: `"${place.shown}" is ${formatBytes(old.stats.size)}; edit takes at most ${formatBytes(MAX_FILE_BYTES)}.` };
      if (old.text === null) return { problem: `"${place.shown}" is not UTF-8 text, so an edit would damage it.` };
      // Loaded at the first edit: the diff comes from a package.
      const { editText } = await import("./edit.ts");
      // In the text as the model knows it: where a value stands it copied a name.
      const request = { oldText: readSpelled(oldText), newText: readSpelled(newText), replaceAll };
      const edited = editText(desk.secrets.redact(old.text), request, desk.secrets.namesIn(old.text));
      if ("error" in edited) return { problem: `"${place.shown}": ${edited.error}` };
      const restored = desk.secrets.restore(edited.text, old.text);
      if (restored.unknown.length > 0) return { problem: placeholders(place.shown, restored.unknown) };
      const places = edited.count === 1 ? "" : ` in ${edited.count} places`;
      const diff = capLines(spellUnseen(edited.diff).split("\n"), "read the file");
      const said = [diff.note, `Edited "${place.shown}"${places}.`].filter(Boolean).join("\n");
      return { text: restored.text, said: toolQuote(`file ${place.shown}`, diff.text, said) };
    };
  return defineTool({
    name: "edit",
    description:
      "Changes a part of a text file of the workspace: replaces oldText, which must occur exactly once and match to the " +
      "character, by newText, and answers with a diff. With replaceAll every occurrence is replaced.",
    schema,
    capability: "write",
    preview: (args, context) => previewChange(desk, args.path, context, workOut(args)),
    run: (args, context) => makeChange(desk, args.path, context, workOut(args)),
  });
}

/** Not for readers, not after a stop, one at a time per file. */
function makeChange({ promptFiles, queue }: Desk, path: string, context: ToolContext, workOut: WorkOut): Promise<ToolResult> {
  return answerFileErrors(path, async () => {
    if (context.readOnly) return toolError(READ_ONLY);
    const place = await resolveToChange(promptFiles, context, path);
    return await queue(place, async () => {
      if (context.signal.aborted) return toolError(`Stopped before "${escapeName(path)}" was changed.`);
      const { parents, name } = splitPlace(place);
      const target = { place, old: await readOld(place) };
      const change = await workOut(target);
      if ("problem" in change) return toolError(change.problem);
      if (context.basis !== undefined && context.basis !== basisOf(target)) return toolError(CHANGED);
      // Replaced, the file would lose the cover that keeps a running command of a sub-agent from writing it.
      const replace = promptFiles.isHeld(join(place.root, ...place.parts)) ? overwriteFile : replaceFile;
      await using folder = await openFolder(place.root, parents, target.old === null);
      await replace(folder, name, change.text, target.old?.stats.mode ?? null);
      return change.said;
    });
  });
}

/** The same without the last step. Throws in words what would be refused. */
async function previewChange({ promptFiles, secrets }: Desk, path: string, context: ToolContext, workOut: WorkOut): Promise<Preview> {
  try {
    if (context.readOnly) throw refuse(READ_ONLY);
    const place = await resolveToChange(promptFiles, context, path);
    const target = { place, old: await readOld(place) };
    const change = await workOut(target);
    if ("problem" in change) throw refuse(change.problem);
    const { changeText } = await import("./change-text.ts");
    // As everybody reads it: secrets by their names, on both sides.
    const before = target.old === null ? "" : target.old.text === null ? null : secrets.redact(target.old.text);
    const shown = changeText(before, secrets.redact(change.text));
    return { markdown: `${headOf(target)}\n\n${codeBlock(shown, before === null ? "" : "diff")}`, basis: basisOf(target) };
  } catch (error) {
    throw refuse(fileErrorText(path, error) ?? "It can't be worked out what this would change.", error);
  }
}

function headOf({ place, old }: Target): string {
  const name = `\`${place.shown.replaceAll("`", "'")}\``;
  if (old === null) return `makes the file ${name}:`;
  return old.text === null ? `replaces the file ${name} (${formatBytes(old.stats.size)}, not shown) by this:` : `changes the file ${name}:`;
}

/** The file as it is now, and where the path leads to. */
function basisOf({ place, old }: Target): string {
  const content = old === null ? null : (old.text ?? [old.stats.size, old.stats.mtimeMs, old.stats.ino]);
  return hash("sha256", JSON.stringify([place.root, place.parts, content]), "base64url");
}

const placeholders = (shown: string, marks: readonly string[]): string =>
  `"${shown}" was not changed: ${marks.join(", ")} stands for a secret that is not shown to you, and which value is meant here can't be told. ` +
  "Leave such places as they are, copy a whole file with a command, or write the name without its brackets.";

/** Null: there is no such file, perhaps not even its folder. */
async function readOld(place: Place): Promise<OldFile | null> {
  const { parents, name } = splitPlace(place);
  let folder: Folder;
  try {
    folder = await openFolder(place.root, parents);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "ENOENT") return null;
    throw error;
  }
  await using within = folder;
  if ((await findRegular(within, name, place.shown)) === null) return null;
  const { file, stats } = await openRegular(within, name, place.shown);
  await using _ = file;
  return { stats, text: stats.size > MAX_FILE_BYTES ? null : decodeText(await file.readFile()) };
}

function decodeText(bytes: Buffer): string | null {
  if (bytes.includes(0)) return null;
  try {
    return new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(bytes);
  } catch {
    return null; // The decoder's only way to say "not UTF-8".
  }
}
