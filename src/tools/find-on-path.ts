// Which program a name stands for: looked up once by the factories, so that a later change of PATH changes nothing.
import { accessSync, constants, statSync } from "node:fs";
import { delimiter, isAbsolute, join } from "node:path";

/** Absolute path of an executable file, or null. Relative entries of PATH are skipped: they would depend on the folder. */
export function findOnPath(name: string, path: string): string | null {
  const candidates = path.split(delimiter).filter(isAbsolute);
  return candidates.map((folder) => join(folder, name)).find(isExecutable) ?? null;
}

function isExecutable(file: string): boolean {
  try {
    accessSync(file, constants.X_OK);
    return statSync(file).isFile();
  } catch {
    return false; // Not there, or not for us: the next folder may have it.
  }
}
