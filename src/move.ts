// `npm run move`, as it was called before there was `herald move`.
import { runScript } from "./cli/cli.ts";

await runScript("move", process.argv.slice(2));
