// The names of the built-in tools, in one place: settings refuse a policy that names none of them, policies match by
// them, and a test holds the list against the tools themselves. A tool of an MCP server is called <server>__<tool>.

/** Tools about sessions and sub-agents: a child has them only as far down as maxSpawnDepth reaches (TL3). */
export const SESSION_TOOLS: ReadonlySet<string> = new Set([
  "sessions_list",
  "sessions_history",
  "sessions_send",
  "sessions_spawn",
  "subagents",
  "agents_list",
]);

/** With it a child can put a question to people; its prompt says so. */
export const ASK_TOOL = "ask";

/** Commands, of children and of the checks on their work. */
export const EXEC_TOOL = "exec";

/** How a child with a resultSchema ends; given by the runtime, whatever the policies say, so that none may name it. */
export const FINISH_TOOL = "finish";

/** A file of the workspace into the asking chat. */
export const SEND_FILE_TOOL = "send_file";

export const BUILT_IN_TOOLS: readonly string[] = [
  ...["read", "write", "edit", "list", "search", EXEC_TOOL, "web_fetch", "remember", "scratchpad", "plan", ASK_TOOL],
  SEND_FILE_TOOL,
  ...SESSION_TOOLS,
];

/** They only ask or note something down: a question before the question would never come to an end. */
export const NEVER_ASKED: ReadonlySet<string> = new Set(["ask", "plan", FINISH_TOOL]);

/** Does an entry of a policy mean this tool? `*` stands for any characters, also none. */
export function matchesTool(entry: string, name: string): boolean {
  const [head = "", ...parts] = entry.split("*");
  const tail = parts.pop();
  if (tail === undefined) return entry === name;
  if (!name.startsWith(head)) return false;
  // The first place that fits leaves the most room for what follows.
  let at = head.length;
  for (const part of parts) {
    const found = name.indexOf(part, at);
    if (found === -1) return false;
    at = found + part.length;
  }
  return name.length - at >= tail.length && name.endsWith(tail);
}
