// Effective tools (TL2, TL3): agent policy ∩ sub-agent policy ∩ role ∩ allowedTools ∩ the requester's own tools.
// Pure: names and capabilities in, the allowed tools out. One function decides, for every turn and every call.
import type { Capability, Tool } from "../core/tool.ts";
import { matchesTool, NEVER_ASKED, SESSION_TOOLS } from "../core/tool-names.ts";
import type { ToolPolicy } from "./agent.ts";

export interface ChildLimits {
  /** Below maxSpawnDepth a child may have children of its own; only then it keeps the session tools. */
  readonly maySpawn: boolean;
  readonly policies: readonly ToolPolicy[];
  readonly capabilities: ReadonlySet<Capability> | null;
  /** `allowedTools` of the spawn. */
  readonly allowed: readonly string[] | null;
  /** What the requester could use when it spawned, and what the operator grants besides. */
  readonly ceiling: readonly string[];
}

const permits = ({ allow, deny = [] }: ToolPolicy, name: string): boolean =>
  !deny.some((entry) => matchesTool(entry, name)) && (allow === undefined || allow.some((entry) => matchesTool(entry, name)));

/** `child` is null for a main session. */
export function effectiveTools(tools: readonly Tool[], policies: readonly ToolPolicy[], child: ChildLimits | null): Tool[] {
  // Asked at every step, and most say nothing.
  const limits = policies.filter(({ allow, deny = [] }) => allow !== undefined || deny.length > 0);
  return tools.filter((tool) => limits.every((policy) => permits(policy, tool.name)) && (child === null || childMay(tool, child)));
}

function childMay(tool: Tool, child: ChildLimits): boolean {
  const isSessionTool = SESSION_TOOLS.has(tool.name);
  // Only the depth gives a child the session tools; no `allow` can bring them back (TL3).
  if (isSessionTool && !child.maySpawn) return false;
  return (
    child.policies.every((policy) => permits(policy, tool.name)) &&
    (isSessionTool || child.capabilities === null || child.capabilities.has(tool.capability)) &&
    (child.allowed === null || child.allowed.includes(tool.name)) &&
    child.ceiling.includes(tool.name)
  );
}

export type ApprovalNames = Pick<ToolPolicy, "approve">;

/** Does any of them want a person's yes before each call? */
export const needsApproval = (policies: readonly ApprovalNames[], name: string): boolean =>
  !NEVER_ASKED.has(name) && policies.some(({ approve = [] }) => approve.some((entry) => matchesTool(entry, name)));
