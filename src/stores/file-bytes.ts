// Bytes of attachments as files below the state folder, named by their ids. Written under another name, synced and renamed: what bears
// an id is whole.
import { constants } from "node:fs";
import { mkdir, open, readdir, readFile, rename, rm, stat } from "node:fs/promises";
import { join } from "node:path";
import { isUuid } from "../core/ids.ts";
import type { AttachmentBytes } from "./attachment-bytes.ts";

const PART = ".part";

export const attachmentFolder = (stateDir: string): string => join(stateDir, "attachments");

export function createFileBytes(stateDir: string): AttachmentBytes {
  const folder = attachmentFolder(stateDir);
  const pathOf = (id: string): string => {
    if (!isUuid(id)) throw new RangeError("an attachment's id is a uuid");
    return join(folder, id);
  };
  const remove = async (id: string): Promise<void> => {
    await rm(pathOf(id), { force: true });
    await rm(`${pathOf(id)}${PART}`, { force: true });
  };
  return {
    async write(id, pieces) {
      await mkdir(folder, { recursive: true, mode: 0o700 });
      const path = pathOf(id);
      const part = `${path}${PART}`;
      try {
        const { O_WRONLY, O_CREAT, O_TRUNC, O_NOFOLLOW } = constants;
        await using file = await open(part, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW, 0o600);
        for await (const piece of pieces) await file.writeFile(piece);
        await file.sync();
        await rename(part, path);
      } catch (error) {
        await rm(part, { force: true });
        throw error;
      }
      await using parent = await open(folder);
      await parent.sync();
    },
    async read(id) {
      try {
        return await readFile(pathOf(id));
      } catch (error) {
        if ((error as NodeJS.ErrnoException).code === "ENOENT") return null;
        throw error;
      }
    },
    async remove(ids) {
      for (const id of ids) await remove(id);
    },
    async listBefore(at) {
      const found = new Set<string>();
      for (const name of await readdir(folder).catch(() => [])) {
        const id = name.replace(PART, "");
        const { mtimeMs } = isUuid(id)
          ? await stat(join(folder, name)).catch(() => ({ mtimeMs: Number.POSITIVE_INFINITY }))
          : { mtimeMs: at };
        if (mtimeMs < at) found.add(id);
      }
      return [...found];
    },
  };
}
