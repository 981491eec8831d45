// The posture of a sub-agent: which tools its role may have (data for the policy) and what it is told.
// sessions_spawn.role → parseRole → Role (policy, sandbox, system prompt)
import type { Capability } from "../core/tool.ts";

export const ROLE_NAMES = ["general", "explore", "plan", "review", "implementer", "verifier", "custom"] as const;
export type RoleName = (typeof ROLE_NAMES)[number];

/** What a role may do at most. The policy intersects it with everything else, so it only ever takes away. */
export interface Role {
  readonly name: RoleName;
  readonly aliases: readonly string[];
  readonly capabilities: readonly Capability[];
  /** Tools refused by name: `remember` writes into the workspace's memory although its capability isn't "write". */
  readonly deniedTools: readonly string[];
  /** The shell sees the workspace read-only; build output goes to its own /scratch. */
  readonly readOnlyShell: boolean;
  /** The child has exactly the spawn's `allowedTools`, so the spawn must name them. */
  readonly needsAllowedTools: boolean;
  /** The role's part of the child's system prompt. */
  readonly text: string;
}

const ALL: readonly Capability[] = ["read", "write", "exec", "net", "memory", "session"];
const without = (...taken: Capability[]): readonly Capability[] => ALL.filter((capability) => !taken.includes(capability));

const FULL = { capabilities: ALL, deniedTools: [], readOnlyShell: false, needsAllowedTools: false } as const;
const READ_ONLY = { ...FULL, capabilities: without("write"), deniedTools: ["remember"], readOnlyShell: true } as const;

const ROLES: Readonly<Record<RoleName, Role>> = {
  general: {
    ...FULL,
    name: "general",
    aliases: ["worker", "default", "general-purpose"],
    text: "You are a general worker. Carry the task through from start to finish, and check your own result before you report it.",
  },
  explore: {
    ...READ_ONLY,
    name: "explore",
    aliases: ["explorer", "exploration"],
    text: `You are an explorer. Find out what the task asks and report it; change nothing.
Search broadly first, then read what matters. Give the file and line for every finding, and say what you looked for and did not find.`,
  },
  plan: {
    ...FULL,
    capabilities: without("exec"),
    name: "plan",
    aliases: ["planning", "awaiter"],
    text: `You are a planner. Work out how the task should be done; do not do it. You have no shell.
Give ordered steps that someone else can carry out, each with the files it touches and how to tell that it is done. Name open decisions and the choice you recommend. Write a file only if the task asks for the plan as one.`,
  },
  review: {
    ...READ_ONLY,
    capabilities: without("write", "exec"),
    name: "review",
    aliases: ["reviewer", "code-review"],
    text: `You are a reviewer. Judge the work you are given; change nothing. You have no shell.
Report what is wrong or risky, the most serious first, each with file, line, what would happen, and how to fix it. Leave out matters of taste. If you find nothing wrong, say so and say what you read.`,
  },
  implementer: {
    ...FULL,
    name: "implementer",
    aliases: ["implement", "implementation", "builder"],
    text: `You are an implementer. Make the change the task asks for: the smallest one that is complete, in the style of what is already there.
Read before you edit. Run the checks that exist. List every file you changed.`,
  },
  verifier: {
    ...READ_ONLY,
    name: "verifier",
    aliases: ["verify", "verification", "validator", "tester"],
    text: `You are a verifier. Find out whether a claim or a piece of work holds; do not repair it.
Run it: tests, builds, the program itself. The workspace is read-only; build output goes to the scratch folder. Report each check with its command and what it printed, and a clear verdict: holds, fails, or could not be checked and why.`,
  },
  custom: {
    ...FULL,
    needsAllowedTools: true,
    name: "custom",
    aliases: [],
    text: "You have exactly the tools that were chosen for this task. If it can't be done with them, say so instead of working around it.",
  },
};

const BY_NAME: ReadonlyMap<string, Role> = new Map(
  Object.values(ROLES).flatMap((role) => [role.name, ...role.aliases].map((name) => [name, role] as const)),
);

/** Every name `parseRole` accepts, as shown to a model: `explore (explorer, exploration)`. */
export const ACCEPTED_ROLES: readonly string[] = Object.values(ROLES).map((role) =>
  role.aliases.length > 0 ? `${role.name} (${role.aliases.join(", ")})` : `${role.name} (needs allowedTools)`,
);

export type RoleResult = { readonly ok: true; readonly role: Role } | { readonly ok: false; readonly error: string };

/** The role by name or alias in any case; `general` when none is named. Never throws. */
export function parseRole(name: string | undefined, allowedTools?: readonly string[]): RoleResult {
  const role = BY_NAME.get(name?.trim().toLowerCase() ?? "general");
  if (!role) return { ok: false, error: `Unknown role ${JSON.stringify(name?.slice(0, 60))}. Accepted: ${ACCEPTED_ROLES.join("; ")}.` };
  if (role.needsAllowedTools && !allowedTools?.length) {
    return { ok: false, error: `Role "${role.name}" needs allowedTools: the list of tools the sub-agent may use.` };
  }
  return { ok: true, role };
}
