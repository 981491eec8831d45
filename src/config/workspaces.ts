// Where agents may keep their files: not where a file tool or a command could rewrite the settings, the state or Herald's
// own program, for an agent that can edit its own rules has none. Judged by real path, name by name. config.ts → here.
import { realpathSync } from "node:fs";
import { dirname, isAbsolute, join, relative, resolve, sep } from "node:path";
import { ownFolder } from "../core/own-files.ts";
import { configError } from "./problems.ts";
import type { Config } from "./schema.ts";
import type { Problem } from "./text.ts";

interface Places {
  readonly home: () => string;
  readonly stateDir: string;
  readonly settings: string;
  readonly envFile: string;
}

/** Makes workspaces absolute. Throws AppError("config") with a line for each that can't be. */
export function withWorkspaces(config: Config, places: Places): Config {
  const problems: Problem[] = [];
  const check = (folder: string, path: Problem["path"]): void => {
    const text = workspaceProblem(realPath(folder), places);
    if (text !== null) problems.push({ path, text });
  };
  const place = (workspace: string | undefined, path: Problem["path"]): string | undefined => {
    if (workspace === undefined) return undefined;
    const folder = resolve(inHome(workspace, places.home));
    check(folder, path);
    return folder;
  };
  const defaults = { ...config.agents.defaults, workspace: place(config.agents.defaults.workspace, ["agents", "defaults", "workspace"]) };
  const list = config.agents.list.map((agent, i) => {
    const path = ["agents", "list", i, "workspace"];
    // What is made for an agent that has none set may be a link by now.
    if (agent.workspace === undefined && defaults.workspace === undefined)
      check(join(places.stateDir, agent.default ? "workspace" : `workspace-${agent.id}`), path);
    return { ...agent, workspace: place(agent.workspace, path) };
  });
  if (problems.length > 0) throw configError(places.settings, problems);
  return { ...config, agents: { defaults, list } };
}

function workspaceProblem(folder: string, { stateDir, settings, envFile }: Places): string | null {
  if (/^\/(proc|sys)(\/|$)/.test(folder)) return "must not lie in /proc or /sys: nobody can keep files there";
  const [state, program] = [realPath(stateDir), realPath(ownFolder)];
  const held = [settings, envFile].find((file) => contains(folder, realPath(file)));
  if (contains(folder, state)) return `must not hold the state folder ${stateDir}`;
  // Also below the state folder: a person may have checked Herald out into the workspace that was made there.
  if (contains(folder, program)) return `must not hold Herald's own program in ${program}: an agent could rewrite it`;
  if (contains(state, folder)) {
    // "workspace" or "workspace-<agent>": what Herald itself makes there for agents, wherever the state folder lies.
    if (!/^workspace(?:-|$)/.test(relative(state, folder).split(sep)[0] ?? ""))
      return `must not lie in the state folder ${stateDir}, but for ${stateDir}/workspace`;
  } else if (contains(program, folder)) return `must not lie in the folder of Herald's own program, ${program}`;
  return held === undefined ? null : `must not hold ${held}: an agent could change its own settings`;
}

/** No shell expands `~` here. */
export const inHome = (path: string, home: () => string): string => path.replace(/^~(?=\/|$)/, home);

function contains(folder: string, path: string): boolean {
  const way = relative(folder, path);
  return way.split(sep)[0] !== ".." && !isAbsolute(way);
}

/** Links resolved as far as the path exists. */
function realPath(path: string): string {
  try {
    return realpathSync(path);
  } catch {
    const parent = dirname(path);
    return parent === path ? path : join(realPath(parent), relative(parent, path));
  }
}
