// `npm run schema`: writes config/herald.schema.json from the zod schema, for editors. A test fails when it is stale.
import { writeFileSync } from "node:fs";
import { configJsonSchema } from "./schema.ts";

writeFileSync(new URL("../../config/herald.schema.json", import.meta.url), `${JSON.stringify(configJsonSchema(), null, 2)}\n`);
