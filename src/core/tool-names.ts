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

export const BUILT_IN_TOOLS: readonly string[] = [
  ...["read", "write", "edit", "list", "search", "exec", "web_fetch", "remember", "scratchpad", "plan"],
  ...SESSION_TOOLS,
];

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
