// What `npm ci` runs at its end. The Node that runs Herald comes as a package for each platform, pinned with its hash in the
// lock file, and npm links the one that fits as node_modules/.bin/node, where npm's scripts find it before the system's.
// npm 10 removes that link again together with the packages of the other platforms, whose link has the same name: put it back.
// Plain JavaScript that old Nodes read, because none but the system's can run it.
import { existsSync, mkdirSync, readFileSync, symlinkSync } from "node:fs";

const root = new URL("../", import.meta.url);
const { optionalDependencies } = JSON.parse(readFileSync(new URL("package.json", root), "utf8"));
const link = new URL("node_modules/.bin/node", root);
const name = Object.keys(optionalDependencies).find((each) => existsSync(new URL(`node_modules/${each}/bin/node`, root)));
if (name !== undefined && !existsSync(link)) {
  mkdirSync(new URL(".", link), { recursive: true });
  symlinkSync(`../${name}/bin/node`, link);
}
