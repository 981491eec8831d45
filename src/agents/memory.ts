// What an agent knows before the conversation starts, read from plain files: the workspace's bootstrap files (AG5) and
// the memory tiers under `<workspace>/memory/` (ME1). gateway/main-prompt.ts and subagents/child-prompt.ts put both into
// the prompt, memory as untrusted hints; subagents/documents/briefing.ts reads single references for a brief (BF1).
import { lstatSync, readdirSync } from "node:fs";
import { basename, dirname } from "node:path";
import { dayOf } from "../core/clock.ts";
import { visibleText } from "../core/visible-text.ts";
import { type FileText, readInside, type SeenFiles } from "./workspace-file.ts";

/** One file as the model sees it. `cut`: longer than its cap; the text says so itself. */
export interface MemorySection {
  readonly name: string;
  readonly text: string;
  readonly cut: boolean;
}

/** tools/prompt-files.ts keeps these, and the folder below, from being changed by a sub-agent (TL9). */
export const BOOTSTRAP_FILES = ["AGENTS.md", "TOOLS.md", "SOUL.md", "IDENTITY.md", "USER.md"] as const;
const CHILD_BOOTSTRAP = 2;
const BOOTSTRAP_BYTES = 20_000;
const MEMORY_BYTES = 16_000;
const NOTE_BYTES = 4_000;
const TOTAL_BYTES = 64_000;
const MAX_NOTES = 20;
const DAY_MS = 86_400_000;
/** The tiers' home inside a workspace. */
export const MEMORY_FOLDER = "memory";

/** Reads, and again when a command of a sub-agent may have written in it by then (tools/prompt-files.ts): TL9. */
export type Confirmed = <T>(read: () => Promise<T>) => Promise<T>;

export interface BootstrapOptions {
  readonly workspace: string;
  readonly forChild: boolean;
  readonly seen?: SeenFiles;
}

/** Those of the five files that are there; a child gets only `AGENTS.md` and `TOOLS.md`. Never throws. */
export async function readBootstrap(options: BootstrapOptions): Promise<MemorySection[]> {
  const names = options.forChild ? BOOTSTRAP_FILES.slice(0, CHILD_BOOTSTRAP) : BOOTSTRAP_FILES;
  const files = await Promise.all(
    names.map((name) =>
      readInside(options.workspace, name, { maxBytes: BOOTSTRAP_BYTES, keep: "head", ...seenIn(options) }).then((file) =>
        section(name, file),
      ),
    ),
  );
  // An empty one says nothing, and while a sub-agent's command runs it stands for one that isn't there.
  return files.filter((file) => file !== null && file.text.trim() !== "") as MemorySection[];
}

export interface MemoryOptions {
  /** Whose memory: the agent's workspace, for a child its requester's. */
  readonly workspace: string;
  /** A child inherits `AGENT.md` only; anything else needs a reference in its brief (BF4). */
  readonly forChild: boolean;
  /** Absolute path of the `CREW.md` all agents share. */
  readonly crewPath?: string;
  /** The person this session talks with, as its key names them, for their file under `peers/`. */
  readonly peer?: string | undefined;
  readonly now: number;
  readonly seen?: SeenFiles;
}

const seenIn = ({ seen }: { readonly seen?: SeenFiles }) => (seen === undefined ? {} : { seen });

/** The files of the `[AGENT MEMORY]` block, newest knowledge last, within 64 KB all together. Never throws. */
export async function readMemory(options: MemoryOptions): Promise<MemorySection[]> {
  const sections: MemorySection[] = [];
  let left = TOTAL_BYTES;
  for (const { root, path, name, maxBytes } of memoryFiles(options)) {
    if (left < NOTE_BYTES) {
      sections.push({ name: "(more)", text: "[cut: this block is full; further memory files may not be shown]", cut: true });
      break;
    }
    const found = section(name, await readInside(root, path, { maxBytes: Math.min(maxBytes, left), keep: "tail", ...seenIn(options) }));
    if (found === null || found.text.trim() === "") continue;
    sections.push(found);
    left -= Buffer.byteLength(found.text);
  }
  return sections;
}

/** Sections as one text, each under its name; empty when there are none. */
export const formatMemory = (sections: readonly MemorySection[]): string =>
  sections.map((section) => `## ${section.name}\n${section.text.trim()}`).join("\n\n");

interface MemoryFile {
  readonly root: string;
  readonly path: string;
  readonly name: string;
  readonly maxBytes: number;
}

function memoryFiles(options: MemoryOptions): MemoryFile[] {
  const file = (name: string, maxBytes = MEMORY_BYTES): MemoryFile => tierFile(options.workspace, name, maxBytes);
  if (options.forChild) return [file("AGENT.md")];
  const notes = (tier: "pins" | "lessons") => listNotes(options.workspace, tier).map((name) => file(`${tier}/${name}`, NOTE_BYTES));
  const files = [file("PERSONA.md"), file("AGENT.md")];
  if (options.crewPath !== undefined) files.push(crewFile(options.crewPath));
  files.push(...notes("pins"), ...notes("lessons"));
  if (options.peer !== undefined && isKey(options.peer)) files.push(file(`peers/${options.peer}.md`, NOTE_BYTES));
  for (const at of [options.now - DAY_MS, options.now]) files.push(file(`daily/${dayOf(at)}.md`));
  return files;
}

const tierFile = (workspace: string, name: string, maxBytes: number): MemoryFile => ({
  root: workspace,
  path: `${MEMORY_FOLDER}/${name}`,
  name,
  maxBytes,
});

const crewFile = (path: string): MemoryFile => ({ root: dirname(path), path: basename(path), name: "CREW.md", maxBytes: MEMORY_BYTES });

/** The last notes of a tier by name; a folder that isn't there has none. Reading them checks them again. */
function listNotes(workspace: string, tier: "pins" | "lessons"): string[] {
  try {
    const folder = `${workspace}/${MEMORY_FOLDER}/${tier}`;
    if (lstatSync(folder, { throwIfNoEntry: false }) === undefined) return [];
    const entries = readdirSync(folder, { withFileTypes: true });
    const names = entries.filter((entry) => entry.isFile() && entry.name.endsWith(".md") && isKey(entry.name)).map((entry) => entry.name);
    return names.sort().slice(-MAX_NOTES);
  } catch {
    // ENOENT and its like: no such tier here.
    return [];
  }
}

function section(name: string, file: FileText): MemorySection | null {
  if (file.ok) return { name, text: visibleText(file.text), cut: file.cut };
  return file.missing ? null : { name, text: `[${name} was not read: ${file.reason}]`, cut: false };
}

export const MEMORY_TIERS = ["AGENT", "CREW", "daily", "pins", "peers", "lessons"] as const;
export type MemoryTier = (typeof MEMORY_TIERS)[number];

export interface MemoryReference {
  readonly tier: MemoryTier;
  readonly key?: string | undefined;
}

export type ReferenceText = { readonly ok: true; readonly sections: MemorySection[] } | { readonly ok: false; readonly error: string };

/** A file name without folder or trick: what platforms use as ids, dates and plain words. */
const KEY = /^(?:-\d|[\p{L}\p{N}_])[\p{L}\p{M}\p{N}._:@+%-]{0,119}$/u;
const isKey = (text: string): boolean => KEY.test(text) && !text.includes("..");

/** Null when the reference is well formed, else what is wrong with it. Says nothing about whether the file exists. */
export function checkMemoryReference({ tier, key }: MemoryReference): string | null {
  if (tier === "AGENT" || tier === "CREW") return key === undefined ? null : `tier ${tier} takes no key`;
  if (key === undefined) return tier === "daily" || tier === "peers" ? `tier ${tier} needs a key` : null;
  if (tier === "daily" && !isDay(key)) return "the key of tier daily is a date such as 2026-01-31";
  return isKey(key) ? null : "a key is a plain name of at most 120 letters, digits or . _ : @ + % -";
}

const isDay = (key: string): boolean => /^\d{4}-\d{2}-\d{2}$/.test(key) && !Number.isNaN(Date.parse(key));

/** The text behind a brief's reference. Without a key, `pins` and `lessons` mean all of their notes. Never throws. */
export async function readMemoryReference(options: MemoryReference & { workspace: string; crewPath?: string }): Promise<ReferenceText> {
  const { tier, key, workspace, crewPath } = options;
  const malformed = checkMemoryReference(options);
  if (malformed !== null) return { ok: false, error: malformed };
  if (tier === "CREW") return crewPath === undefined ? missing("CREW.md") : readReference([crewFile(crewPath)]);
  const names = referenceNames(tier, key, workspace);
  return readReference(names.map((name) => tierFile(workspace, name, MEMORY_BYTES)));
}

function referenceNames(tier: Exclude<MemoryTier, "CREW">, key: string | undefined, workspace: string): string[] {
  if (tier === "AGENT") return ["AGENT.md"];
  if (key !== undefined) return [`${tier}/${key}.md`];
  return tier === "pins" || tier === "lessons" ? listNotes(workspace, tier).map((name) => `${tier}/${name}`) : [];
}

async function readReference(files: readonly MemoryFile[]): Promise<ReferenceText> {
  const found = await Promise.all(
    files.map(async ({ root, path, name, maxBytes }) => section(name, await readInside(root, path, { maxBytes, keep: "tail" }))),
  );
  const sections = found.filter((entry) => entry !== null);
  return sections.length > 0 ? { ok: true, sections } : missing(files[0]?.name ?? "that tier");
}

const missing = (name: string): ReferenceText => ({ ok: false, error: `There is nothing in ${name}.` });
