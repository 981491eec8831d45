// The folders agents work in. One that Herald makes itself, in its own state folder, gets a few files to begin with
// (config/workspace): an empty folder leaves a newcomer, and the product's own examples, with nothing to look at.
import { existsSync, mkdirSync, readdirSync, readFileSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import type { Agent } from "../agents/agent.ts";
import { AppError, errorText } from "../core/errors.ts";
import type { Logger } from "../core/logger.ts";
import { ownFile } from "../core/own-files.ts";

const FIRST_FILES = fileURLToPath(ownFile("config/workspace"));

/** Throws AppError in words. */
export function makeWorkspace({ id, workspace }: Agent, stateDir: string): void {
  try {
    // A folder somebody chose is theirs, also an empty one.
    if (dirname(workspace) === stateDir && !existsSync(workspace)) furnish(workspace);
    mkdirSync(workspace, { recursive: true, mode: 0o700 });
  } catch (error) {
    const text = `The workspace ${workspace} of agent "${id}" can't be made: ${errorText(error)}. Make its folder writable, or set the agent's workspace to another one.`;
    throw new AppError("state", text, { cause: error });
  }
}

/** Filled under another name first: a start that is cut off must not leave a half-filled folder that passes for somebody's own. */
function furnish(workspace: string): void {
  const unfinished = `${workspace}.new`;
  rmSync(unfinished, { recursive: true, force: true });
  mkdirSync(unfinished, { mode: 0o700 });
  for (const name of readdirSync(FIRST_FILES))
    writeFileSync(join(unfinished, name), readFileSync(join(FIRST_FILES, name)), { mode: 0o600 });
  renameSync(unfinished, workspace);
}

/** For a reload: the gateway goes on without the folder, and the agent's file tools say what is wrong. */
export function tryWorkspace(agent: Agent, stateDir: string, log: Logger): void {
  try {
    makeWorkspace(agent, stateDir);
  } catch (error) {
    log.error({ err: error, agentId: agent.id }, errorText(error));
  }
}
