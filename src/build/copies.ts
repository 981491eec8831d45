// What is not the gateway's code: the page, with what of packages it loads into the browser, first files and documents. As they are.
import { cpSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { PACKAGE_FILES, packageFile } from "../web/page-files.ts";
import type { Places } from "./bundle.ts";

export const AS_THEY_ARE = ["src/web/page", "config", "docs", ".env.example", "CHANGELOG.md", "LICENSE", "README.md"];

/** Paths of what came from packages. */
export function copyFiles({ root, folder }: Places): string[] {
  for (const path of AS_THEY_ARE) cpSync(join(root, path), join(folder, path), { recursive: true });
  return PACKAGE_FILES.map((name) => {
    const from = fileURLToPath(packageFile(name));
    cpSync(from, join(folder, "src/web/page/lib", name));
    return from;
  });
}
