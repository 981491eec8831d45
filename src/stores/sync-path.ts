// A file's bytes, or a folder's names: a new or renamed one survives a power cut only once its folder is synced.
import { closeSync, fsyncSync, openSync } from "node:fs";

export function syncPath(path: string): void {
  const fd = openSync(path, "r");
  try {
    fsyncSync(fd);
  } finally {
    closeSync(fd);
  }
}
