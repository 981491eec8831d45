// Where the program's own files lie: first files of a workspace, the page, what runs as a thread or process of its own. Paths are those
// of the repository in the published package too: the build (build/) keeps them, makes .js of .ts, and puts everything else it
// makes into a folder as deep below the top as this file's. So nobody needs to know in which of both he runs.
import { extname, resolve } from "node:path";
import { fileURLToPath } from "node:url";

const TOP = new URL("../../", import.meta.url);
const ENDING = extname(import.meta.url);

/** Is this the published package, not the repository? */
export const isPackaged = ENDING === ".js";

/** What holds all of it. */
export const ownFolder = resolve(fileURLToPath(TOP));

/** `config/slack-manifest.yaml`; a folder to resolve against ends with a slash. */
export const ownFile = (path: string): URL => new URL(path, TOP);

/** Code to start as a thread or process: `src/tools/judge-worker`, without its ending. */
export const ownEntry = (path: string): URL => ownFile(`${path}${ENDING}`);

/** How a person types one of its commands: `npm run pair -- CODE` in the repository, `herald pair CODE` where it is installed. */
export const commandWords = (name: string, rest = ""): string =>
  [isPackaged ? "herald" : "npm run", name, ...(rest === "" ? [] : isPackaged ? [rest] : ["--", rest])].join(" ");
