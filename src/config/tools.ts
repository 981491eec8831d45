// The tools' settings: what each tool may do, and the policies that say who has which. An allow or grant that names no tool
// there is would give nobody anything, so it is refused. A deny of one does no harm and comes along with the settings
// people bring from elsewhere; but it may also be a slip of the pen, so it is said.
// tools.ts → schema.ts.
import { z } from "zod";
import { BUILT_IN_TOOLS, matchesTool, NEVER_ASKED } from "../core/tool-names.ts";
import { didYouMean } from "./nearest.ts";
import type { Path, Problem } from "./text.ts";
import { block, whole } from "./values.ts";

const toolNames = (names: RegExp, message: string) => z.array(z.string().regex(names, message)).max(1000);
const toolPatterns = () => toolNames(/^[A-Za-z0-9_.*-]{1,128}$/, "must be the name of a tool; * stands for any characters");

const policyShape = {
  allow: toolPatterns().optional().describe("Once set, only these tools; unset means all. * stands for any characters."),
  deny: toolPatterns().default([]).describe("Never these tools; deny wins over allow. * stands for any characters."),
  approve: toolPatterns()
    .default([])
    .describe(
      "A person must say yes in the chat before each call of these tools. * stands for any characters; ask and plan never need it.",
    ),
};

export const toolPolicy = block(policyShape);

export const subagentToolPolicy = block({
  ...policyShape,
  grant: toolNames(/^[A-Za-z0-9_.-]{1,128}$/, "must be the whole name of a tool")
    .default([])
    .describe("Tools a sub-agent under this agent may use although its requester can't."),
});

export const tools = block({
  ...policyShape,
  subagents: block({ tools: toolPolicy.prefault({}).describe("Tool policy of every sub-agent.") })
    .prefault({})
    .describe("Tools of sub-agents."),
  exec: block({
    unsandboxed: z
      .boolean()
      .default(false)
      .describe("Run commands without a sandbox when the host has none. Only on a host you can lose: nothing holds them back then."),
    timeoutSeconds: whole(1, 86_400).default(120).describe("Kill a command after this time."),
    maxConcurrent: whole(1, 64).default(4).describe("Commands at the same time; the rest wait. One place is kept for main sessions."),
    memoryMegabytes: whole(64, 16_777_216)
      .optional()
      .describe("Memory of all running commands together; unset: half of the machine's. The largest one is ended."),
    diskMegabytes: whole(1, 16_777_216)
      .default(1024)
      .describe("What all running commands together may add to the disk. The largest one is ended."),
    maxFiles: whole(1, 100_000_000).default(50_000).describe("Files one command may make."),
    freeDiskMegabytes: whole(0, 16_777_216).default(512).describe("With less free disk no command is run, and one that writes is ended."),
    envAllow: z
      .array(z.string().regex(/^[A-Za-z_][A-Za-z0-9_]*$/, "must be the name of an environment variable"))
      .default([])
      .describe("Environment variables a command may see; the rest are withheld."),
  })
    .prefault({})
    .describe("The exec tool."),
  webFetch: block({
    maxBytes: whole(1024, 104_857_600).default(5_242_880).describe("Read at most this much of a page."),
    timeoutSeconds: whole(1, 600).default(20).describe("Give up on a page after this time."),
  })
    .prefault({})
    .describe("The web_fetch tool."),
});

type Policy = Partial<z.output<typeof subagentToolPolicy>>;

/** The settings that have policies in them. */
interface Policies {
  readonly tools: z.output<typeof tools>;
  readonly agents: { readonly list: readonly { readonly tools: Policy; readonly subagents: { readonly tools: Policy } }[] };
  readonly mcp: { readonly servers: object };
}

/**
 * Entries of allow and grant, and whole names in approve, that mean neither a built-in tool nor one an MCP server in the settings could
 * have: with a slip of the pen in approve the tool it meant would be used without anybody being asked.
 */
export function unknownNames(settings: Policies): Problem[] {
  const known = knownNames(Object.keys(settings.mcp.servers));
  return (["allow", "grant", "approve"] as const).flatMap((key) =>
    unknownEntries(settings, key).flatMap(({ path, entry }) => {
      if (key === "approve" && isPattern(entry)) return [];
      const hasPatterns = key !== "grant";
      const accepted = `${didYouMean(entry, known)} Accepted here: ${known.join(", ")}${hasPatterns ? "; * stands for any characters" : ""}`;
      const absent = absentServer(entry);
      return { path, text: `no tool is called so.${absent === "" ? accepted : `${absent}; one that is there but not enabled counts.`}` };
    }),
  );
}

/** The same of deny, and of patterns in approve; and what approve can't mean. */
export function idleEntries(settings: Policies): Problem[] {
  const known = knownNames(Object.keys(settings.mcp.servers));
  const hint = (entry: string): string => (absentServer(entry) === "" ? didYouMean(entry, known) : `${absentServer(entry)}.`);
  return [
    ...unknownEntries(settings, "deny").map(({ path, entry }) => ({
      path,
      text: `no tool is called so, so nothing is denied by it.${hint(entry)}`,
    })),
    ...unknownEntries(settings, "approve")
      .filter(({ entry }) => isPattern(entry))
      .map(({ path, entry }) => ({ path, text: `no tool is called so, so nobody is asked by it.${hint(entry)}` })),
    ...entriesOf(settings, "approve")
      .filter(({ entry }) => NEVER_ASKED.has(entry))
      .map(({ path }) => ({ path, text: "it only asks or notes something down, so it never needs a yes of its own." })),
  ];
}

type PolicyKey = "allow" | "deny" | "grant" | "approve";

interface NamedEntry {
  readonly path: Path;
  readonly entry: string;
}

const isPattern = (entry: string): boolean => entry.includes("*");

const unknownEntries = (settings: Policies, key: PolicyKey): NamedEntry[] =>
  entriesOf(settings, key).filter(({ entry }) => !couldMean(entry, Object.keys(settings.mcp.servers)));

function entriesOf({ tools, agents }: Policies, key: PolicyKey): NamedEntry[] {
  const policies: [Path, Policy][] = [
    [["tools"], tools],
    [["tools", "subagents", "tools"], tools.subagents.tools],
    ...agents.list.flatMap((agent, i): [Path, Policy][] => [
      [["agents", "list", i, "tools"], agent.tools],
      [["agents", "list", i, "subagents", "tools"], agent.subagents.tools],
    ]),
  ];
  return policies.flatMap(([path, policy]) => [...(policy[key] ?? []).entries()].map(([n, entry]) => ({ path: [...path, key, n], entry })));
}

const knownNames = (servers: readonly string[]): string[] => [...BUILT_IN_TOOLS, ...servers.map((server) => `${server}__<tool>`)];

function absentServer(entry: string): string {
  const server = /^([A-Za-z0-9_.-]+?)__/.exec(entry)?.[1];
  return server === undefined ? "" : ` There is no MCP server ${server} in mcp.servers`;
}

function couldMean(entry: string, servers: readonly string[]): boolean {
  if (BUILT_IN_TOOLS.some((name) => matchesTool(entry, name))) return true;
  // Which tools a server has is known only once it runs.
  const star = entry.indexOf("*");
  const head = star === -1 ? entry : entry.slice(0, star);
  return star === 0 || servers.some((server) => head.startsWith(`${server}__`) || (star > 0 && `${server}__`.startsWith(head)));
}
