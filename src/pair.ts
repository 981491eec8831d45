// `npm run pair`, as it was called before there was `herald pair`.
import { runScript } from "./cli/cli.ts";

await runScript("pair", process.argv.slice(2));
