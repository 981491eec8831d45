// `npm run token`, as it was called before there was `herald token`.
import { runScript } from "./cli/cli.ts";
import { EXIT } from "./cli/command.ts";

await runScript("token", process.argv.slice(2), EXIT.misused);
