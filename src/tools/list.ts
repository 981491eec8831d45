// The tool list: what a folder of the workspace holds, bounded however big it is (FS-013).
// folder handles are opened without following links, so a listing can't wander out either.
import type { Dirent } from "node:fs";
import { opendir } from "node:fs/promises";
import { z } from "zod";
import { defineTool, type Tool, toolError, toolQuote } from "../core/tool.ts";
import { capLines, escapeName } from "./output.ts";
import type { PromptFiles } from "./prompt-files.ts";
import { answerFileErrors, type Folder, openFolder } from "./workspace-files.ts";
import { isBelow, type Place, resolveFor } from "./workspace-path.ts";

const MAX_DEPTH = 6;
const MAX_ENTRIES = 1000;
/** Sorting needs the names in memory; a folder with a million files must not. */
const MAX_SCANNED = 20_000;
/** Big and rarely what is meant; listed, but opened only when asked for by name. */
const NOT_OPENED = new Set([".git", "node_modules"]);

interface Listing {
  readonly lines: string[];
  /** Folders still to open, breadth first, so that one big folder can't hide its neighbours. */
  readonly waiting: { parts: readonly string[]; depth: number }[];
  more: boolean;
}

export function createListTool(promptFiles: PromptFiles): Tool {
  return defineTool({
    name: "list",
    description:
      "Lists a folder of the workspace, sorted, one path per line relative to the workspace; folders end with a slash, links " +
      "show @, special files their kind. depth 2 or more also lists the folders inside.",
    schema: z.strictObject({
      path: z.string().min(1).optional().describe('Folder inside the workspace; default ".", the workspace itself'),
      depth: z.int().min(1).max(MAX_DEPTH).optional().describe("How many levels of folders; default 1"),
    }),
    capability: "read",
    repeatable: true,
    run: (args, context) =>
      answerFileErrors(args.path ?? ".", async () => {
        const place = await resolveFor(promptFiles, context, args.path ?? ".");
        const listing: Listing = { lines: [], waiting: [{ parts: place.parts, depth: args.depth ?? 1 }], more: false };
        for (let next = listing.waiting.shift(); next !== undefined; next = listing.waiting.shift()) {
          if (context.signal.aborted) return toolError("Stopped before the folder was listed.");
          const inner = next.parts.length > place.parts.length;
          await listFolder(place, next, listing).catch((error: unknown) => {
            // A folder inside may vanish, be swapped or be closed to us; the rest of the listing still stands.
            if (!inner) throw error;
            listing.more = true;
          });
        }
        if (listing.lines.length === 0) return { text: `"${place.shown}" is an empty folder.` };
        const shown = capLines(listing.lines.sort(), "list one of the folders inside");
        const more = listing.more ? "[Not everything is listed: ask for a folder inside, or use search with a glob.]" : "";
        return toolQuote(`names in ${place.shown}`, shown.text, [shown.note, more].filter(Boolean).join("\n"));
      }),
  });
}

async function listFolder(place: Place, at: { parts: readonly string[]; depth: number }, listing: Listing): Promise<void> {
  await using folder = await openFolder(place.root, at.parts);
  const { entries, more } = await readEntries(folder);
  if (more) listing.more = true;
  for (const entry of entries) {
    if (listing.lines.length >= MAX_ENTRIES) {
      listing.more = true;
      return;
    }
    listing.lines.push([...at.parts.map(escapeName), escapeName(entry.name)].join("/") + kindMark(entry));
    const name = entry.name.toString("utf8");
    if (entry.isDirectory() && at.depth > 1 && !NOT_OPENED.has(name) && !isBelow([...at.parts, name], place.closed))
      listing.waiting.push({ parts: [...at.parts, name], depth: at.depth - 1 });
  }
}

async function readEntries(folder: Folder): Promise<{ entries: Dirent<Buffer>[]; more: boolean }> {
  const entries: Dirent<Buffer>[] = [];
  // Names come as bytes: one that is no UTF-8 must be shown escaped, not silently repaired into another name.
  const directory = await opendir(folder.path, { encoding: "buffer" as BufferEncoding, bufferSize: 256 });
  for await (const entry of directory as AsyncIterable<unknown>) {
    if (entries.length >= MAX_SCANNED) return { entries: sorted(entries), more: true };
    entries.push(entry as Dirent<Buffer>);
  }
  return { entries: sorted(entries), more: false };
}

const sorted = (entries: Dirent<Buffer>[]): Dirent<Buffer>[] => entries.sort((a, b) => Buffer.compare(a.name, b.name));

function kindMark(entry: Dirent<Buffer>): string {
  if (entry.isDirectory()) return "/";
  if (entry.isSymbolicLink()) return "@";
  if (entry.isFIFO()) return " (FIFO)";
  if (entry.isSocket()) return " (socket)";
  return entry.isFile() ? "" : " (device)";
}
