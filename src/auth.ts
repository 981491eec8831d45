// `npm run auth`, as it was called before there was `herald auth`.
import { runScript } from "./cli/cli.ts";

await runScript("auth", process.argv.slice(2));
