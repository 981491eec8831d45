// The types of `herald/brief`, as the compiler tells them: those that the library's door leads to, and no others, because the others name
// packages that whoever imports it does not have.
import { execFile } from "node:child_process";
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { promisify } from "node:util";
import type { Places } from "./bundle.ts";

const DOOR = "brief/brief-protocol.ts";
const OPTIONS = "--ignoreConfig --declaration --emitDeclarationOnly --strict --skipLibCheck --allowImportingTsExtensions";
const TARGET = "--target esnext --module nodenext --types node --rootDir src";

export async function writeDeclarations({ root, folder }: Places): Promise<void> {
  const made = mkdtempSync(join(tmpdir(), "herald-types-"));
  try {
    const args = [`src/${DOOR}`, ...OPTIONS.split(" "), ...TARGET.split(" "), "--outDir", made];
    await promisify(execFile)(process.execPath, [join(root, "node_modules/typescript/bin/tsc"), ...args], { cwd: root });
    copyFrom(made, DOOR, join(folder, "src"));
  } finally {
    rmSync(made, { recursive: true });
  }
}

function copyFrom(made: string, path: string, target: string, seen = new Set<string>()): void {
  if (seen.has(path)) return;
  seen.add(path);
  const types = path.replace(/\.ts$/, ".d.ts");
  const text = readFileSync(join(made, types), "utf8");
  const imported = /(?<= from ")(\.\/[\w-]+)\.ts(?=";)/g;
  mkdirSync(join(target, dirname(types)), { recursive: true });
  writeFileSync(join(target, types), text.replace(imported, "$1.js"));
  for (const [, name = ""] of text.matchAll(imported)) copyFrom(made, join(dirname(path), `${name}.ts`), target, seen);
}
