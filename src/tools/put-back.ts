// What is done about a cover that was lost (TL9). The race: somebody outside replaces a covered file, the kernel takes the
// cover away with the old one, and until the next look ends the command it can write what stands there now. No look is
// quick enough and nobody can tell whose the bytes are, so the new file is set aside for a person and the old text, read
// before the command began, is put back. Meanwhile no prompt is made of it (prompt-files.ts, `confirmed`).
import { constants, fstatSync } from "node:fs";
import { lstat, open, readlink, rename } from "node:fs/promises";
import { fileStamp } from "../core/clock.ts";
import { errorText } from "../core/errors.ts";
import type { Covered } from "./mount-points.ts";
import { type Folder, openFolder, replaceFile } from "./workspace-files.ts";

const { O_NOFOLLOW, O_NONBLOCK, O_RDONLY } = constants;

/** Once the command's last process is gone. Never throws. Gives a clause for each name at which something else stood. */
export async function putBack(root: string, uncovered: readonly Covered[]): Promise<string[]> {
  const clauses: string[] = [];
  for (const covered of uncovered) {
    const name = covered.names.join("/");
    try {
      const aside = await putOneBack(root, covered);
      if (aside !== null) clauses.push(`what replaced ${name} meanwhile was set aside as ${aside}, for a person to judge`);
    } catch (error) {
      const { code } = error as NodeJS.ErrnoException;
      // A folder on the way is gone, or a link: nothing is read from there.
      if (code !== "ENOENT" && code !== "ENOTDIR" && code !== "ELOOP")
        clauses.push(`${name} was replaced meanwhile and could not be put back (${code ?? errorText(error)})`);
    }
  }
  return clauses;
}

/** The name under which the other one is kept now; null when it is no different. Throws ENOENT when there is none. */
async function putOneBack(root: string, { names, stats, handle, text }: Covered): Promise<string | null> {
  const name = names.at(-1) ?? "";
  await using folder = await openFolder(root, names.slice(0, -1));
  await lstat(folder.at(name));
  // Another command that lost the same cover was faster.
  if (text !== null && (await holds(folder, name, text))) return null;
  const aside = `${name}.unsafe-${fileStamp(Date.now())}`;
  await rename(folder.at(name), folder.at(aside));
  if (stats.isDirectory()) await moveBack(root, handle, folder.at(name));
  else if (text !== null && text.length > 0) await replaceFile(folder, name, text, stats.mode);
  return aside;
}

async function holds(folder: Folder, name: string, text: Buffer): Promise<boolean> {
  try {
    await using file = await open(folder.at(name), O_RDONLY | O_NOFOLLOW | O_NONBLOCK);
    const stats = await file.stat();
    return stats.isFile() && stats.size === text.length && (await file.readFile()).equals(text);
  } catch {
    return false; // A link, a folder, or one that can't be read.
  }
}

/** A folder that was renamed is found by its handle. One that was removed, or taken out of the workspace, stays away. */
async function moveBack(root: string, handle: number, to: string): Promise<void> {
  const path = await readlink(`/proc/self/fd/${handle}`);
  if (fstatSync(handle).nlink > 0 && path.startsWith(`${root}/`)) await rename(path, to);
}
