// package.json as it is published: what the repository's says of the program, and where its parts lie. No dependencies, not even the Node
// that comes along in the repository: whoever installs it has one, and herald.js says so when it is too old.
import { readFileSync } from "node:fs";
import { join } from "node:path";

const SAME = ["name", "version", "description", "license", "type", "engines", "bin"] as const;

export function publishedManifest(root: string): string {
  const own = JSON.parse(readFileSync(join(root, "package.json"), "utf8")) as Record<string, unknown>;
  const manifest = {
    ...Object.fromEntries(SAME.map((name) => [name, own[name]])),
    exports: { "./brief": { types: "./src/brief/brief-protocol.d.ts", default: "./src/brief/brief-protocol.js" } },
    files: ["src", "config", "docs", ".env.example", "CHANGELOG.md", "THIRD-PARTY-LICENSES"],
    dependencies: {},
  };
  return `${JSON.stringify(manifest, null, 2)}\n`;
}
