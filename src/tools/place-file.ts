// A copy of what a person attached, laid into an agent's workspace where its tools can read it: opened name by name as every file there,
// so that no link leads it elsewhere, and not to be written to.
import { createHash } from "node:crypto";
import { realpath, unlink } from "node:fs/promises";
import { findRegular, openFolder, openRegular, replaceFile } from "./workspace-files.ts";

const READ_ONLY = 0o400;

/** `path`: names below the workspace, parted by slashes. What stands there already stays, and nothing is read for it. False: there is nothing to lay there. */
export async function placeFile(workspace: string, path: string, read: () => Promise<Buffer | null>): Promise<boolean> {
  const { parents, name } = split(path);
  await using folder = await openFolder(await realpath(workspace), parents, true);
  if ((await findRegular(folder, name, path)) !== null) return true;
  const bytes = await read();
  if (bytes !== null) await replaceFile(folder, name, bytes, READ_ONLY);
  return bytes !== null;
}

/**
 * Takes such a copy away again. Only what is still the same, byte for byte: what a person changed or put there in its place is theirs, and so is
 * everything under any other name. False: nothing of ours stands there.
 */
export async function removePlaced(
  workspace: string,
  path: string,
  laid: { readonly size: number; readonly sha256: string },
): Promise<boolean> {
  const { parents, name } = split(path);
  try {
    await using folder = await openFolder(await realpath(workspace), parents);
    if ((await findRegular(folder, name, path))?.size !== laid.size) return false;
    const { file } = await openRegular(folder, name, path);
    await using open = file;
    const digest = createHash("sha256").update(await open.readFile());
    if (digest.digest("hex") !== laid.sha256) return false;
    await unlink(folder.at(name));
    return true;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "ENOENT") return false;
    throw error;
  }
}

function split(path: string): { readonly parents: readonly string[]; readonly name: string } {
  const parents = path.split("/");
  return { name: parents.pop() ?? "", parents };
}
