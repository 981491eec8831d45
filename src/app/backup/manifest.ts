// The first file of a backup: what the rest is, with size and SHA-256 of each. A reader holds everything against it.
import { z } from "zod";
import { AppError } from "../../core/errors.ts";
import { safeParse } from "../../core/safe-parse.ts";
import { MIGRATIONS } from "../../stores/schema.ts";

export const MANIFEST = "manifest.json";
/** Where settings lie below the new state folder. */
export const SETTINGS_FOLDER = "settings-from-backup";
export const MAX_MANIFEST_BYTES = 64 * 1024 * 1024;
/** Of this form. A reader of today refuses what a later one writes under a higher number. */
export const FORM = 1;

const schema = z.object({
  format: z.literal("herald-backup"),
  form: z.number().int().min(1),
  herald: z.string().max(40),
  schema: z.number().int().min(1),
  at: z.string().max(40),
  withSecrets: z.boolean(),
  files: z.array(z.object({ path: z.string().max(4096), size: z.number().int().min(0), sha256: z.string().regex(/^[0-9a-f]{64}$/) })),
});

export type Manifest = z.output<typeof schema>;

/** Throws AppError("state") when no reader would take a list of this length: better known now than when the backup is needed. */
export function manifestBytes(manifest: Manifest): Buffer {
  const bytes = Buffer.from(JSON.stringify(manifest));
  if (bytes.length <= MAX_MANIFEST_BYTES) return bytes;
  throw new AppError(
    "state",
    `The state folder holds ${manifest.files.length} files, more than the list of a backup can name. Nothing was written: move some out of the workspaces first.`,
  );
}

/** Where a file of the backup lies below the new state folder. */
export const placeOf = (path: string): string =>
  path.startsWith("state/") ? path.slice("state/".length) : `${SETTINGS_FOLDER}/${path.slice("settings/".length)}`;

/** Throws AppError("invalid") that names what is wrong. */
export function readManifest(text: string): Manifest {
  const parsed = safeParse(schema, parseJson(text));
  if (!parsed.success) throw new AppError("invalid", "The file is no backup of Herald: it does not begin with the list of what it holds.");
  const { form, herald, schema: found, files } = parsed.data;
  if (form > FORM || found > MIGRATIONS.length)
    throw new AppError("invalid", `The backup was made by a newer Herald (${herald}). Restore it with that one, or a later one.`);
  const seen = new Set<string>();
  for (const { path } of files) {
    if (!isInside(path))
      throw new AppError("invalid", `The backup names ${JSON.stringify(path)}, which leads outside. Nothing was written.`);
    const place = placeOf(path);
    if (seen.has(place)) throw new AppError("invalid", `The backup names ${JSON.stringify(place)} twice. Nothing was written.`);
    seen.add(place);
  }
  return parsed.data;
}

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return null;
  }
}

/** Below one of our two folders, by plain names. */
const isInside = (path: string): boolean => {
  const [first, ...rest] = path.split("/");
  const isPlain = (name: string): boolean =>
    name !== "" && name !== "." && name !== ".." && !name.includes("\0") && Buffer.byteLength(name) < 256;
  return (first === "state" || first === "settings") && rest.length > 0 && rest.every(isPlain);
};
