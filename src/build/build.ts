// `npm run build [-- folder]`: the package as it is published, into dist/. Whoever runs from the repository needs nothing of it.
// sources → bundle.ts → code; brief-declarations.ts → types of herald/brief; copies.ts → what is not code; then package.json and licences.
import { chmodSync, mkdirSync, rmSync, writeFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { ownFolder } from "../core/own-files.ts";
import { writeDeclarations } from "./brief-declarations.ts";
import { bundle } from "./bundle.ts";
import { copyFiles } from "./copies.ts";
import { licencesOf } from "./licences.ts";
import { publishedManifest } from "./manifest.ts";

async function build(folder: string): Promise<void> {
  // Whole or not there: what an earlier build left would be published along.
  rmSync(folder, { recursive: true, force: true });
  mkdirSync(folder, { recursive: true });
  const places = { root: ownFolder, folder };
  const [modules] = await Promise.all([bundle(places), writeDeclarations(places)]);
  const copied = copyFiles(places);
  chmodSync(join(folder, "src/herald.js"), 0o755);
  writeFileSync(join(folder, "package.json"), publishedManifest(ownFolder));
  writeFileSync(join(folder, "THIRD-PARTY-LICENSES"), licencesOf([...modules, ...copied]));
}

const folder = resolve(process.argv[2] ?? join(ownFolder, "dist"));
await build(folder);
process.stdout.write(`${folder} is what is published: npm pack ${folder}\n`);
