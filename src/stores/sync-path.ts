// A file's bytes, or a folder's names: a new or renamed one survives a power cut only once its folder is synced.
import { closeSync, fsync, fsyncSync, openSync } from "node:fs";

export function syncPath(path: string): void {
  const fd = openSync(path, "r");
  try {
    fsyncSync(fd);
  } finally {
    closeSync(fd);
  }
}

/** The disk is waited for on another thread. */
export async function syncPathLater(path: string): Promise<void> {
  const fd = openSync(path, "r");
  try {
    await new Promise<void>((resolve, reject) => fsync(fd, (error) => (error === null ? resolve() : reject(error))));
  } finally {
    closeSync(fd);
  }
}
