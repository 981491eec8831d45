// `npm run schema`: writes what is made from the code.
import { writeFileSync } from "node:fs";
import { madeDocuments } from "./made.ts";

for (const { path, text } of madeDocuments()) writeFileSync(new URL(`../../${path}`, import.meta.url), text);
