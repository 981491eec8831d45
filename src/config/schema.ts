// Every setting, with its default and what it is for: the one source of config/herald.schema.json and docs/settings.md, of the messages a
// wrong file gets and of the Config type.
// values.ts, channels.ts, tools.ts → schema.ts → config.ts (a file) · `npm run schema` (herald.schema.json, docs/settings.md).
import { z } from "zod";
import { isAgentId } from "../core/ids.ts";
import { THINKING_LEVELS } from "../core/thinking.ts";
import { isProviderName, PROVIDER_APIS } from "../models/provider.ts";
import { announce, unservedTargets } from "./announce.ts";
import { discord, matrix, slack, telegram } from "./channels.ts";
import { subagentToolPolicy, toolPolicy, tools, unknownNames } from "./tools.ts";
import {
  block,
  hostText,
  httpUrl,
  MAX_TIMER_SECONDS,
  modelChoice,
  namedModel,
  nodeText,
  originText,
  pageToken,
  pathText,
  port,
  secretText,
  storeUrl,
  whole,
} from "./values.ts";

const agentId = z.string().refine(isAgentId, "must be lower case letters, digits, _ or -, at most 64, starting with a letter or digit");
const thinking = z.enum(THINKING_LEVELS);

/** In USD, in tokens (input and output together), or both. */
const budgetCap = () =>
  block({
    usd: z.number().min(0.0001).max(1_000_000).optional().describe("US dollars, by the known prices."),
    tokens: whole(1000, 1_000_000_000_000).optional().describe("Tokens, input and output together."),
  });

const subagentDefaults = block({
  maxConcurrent: whole(1, 4096).default(8).describe("Sub-agents that run at the same time; the rest wait."),
  archiveAfterMinutes: whole(0, 525_600).default(60).describe("Archive a child session this long after its run ended; 0 = never."),
  model: namedModel().optional().describe('Model of sub-agents, "provider/model-id" or {primary, fallbacks}; unset: the caller\'s.'),
  thinking: thinking.optional().describe("Thinking level of sub-agents; unset: the caller's."),
  runTimeoutSeconds: whole(0, MAX_TIMER_SECONDS).default(0).describe("Abort a run after this time; 0 = no limit."),
  budget: budgetCap().optional().describe("The most one run and all it sends out may spend; unset: no limit of its own."),
  maxIterations: whole(1, 1000).default(20).describe("Model steps a run may take."),
  maxSpawnDepth: whole(1, 5).default(1).describe("1: sub-agents can't spawn; 2: their children can't; and so on."),
  maxChildrenPerSession: whole(1, 1000).default(20).describe("Unfinished runs one session may have."),
  announceTimeoutSeconds: whole(1, 3600).default(60).describe("Time for the announce step; then the last text is used."),
  onRestart: z.enum(["resume", "interrupt"]).default("resume").describe("What happens to running runs when the gateway restarts."),
});

const agentDefaults = block({
  model: modelChoice()
    .prefault({})
    .describe('"provider/model-id", or {primary, fallbacks}; unset: found by key, local server, else the offline model.'),
  thinking: thinking.default("off").describe("How much a model thinks before it answers."),
  workspace: pathText().optional().describe("Folder of the agents' files; unset: <state>/workspace."),
  maxConcurrent: whole(1, 4096).default(4).describe("Turns of main sessions that run at the same time."),
  timeoutSeconds: whole(0, MAX_TIMER_SECONDS).default(600).describe("Abort a turn of a main session after this time; 0 = no limit."),
  maxIterations: whole(1, 1000).default(50).describe("Model steps a turn of a main session may take."),
  subagents: subagentDefaults.prefault({}).describe("Defaults and limits of sub-agents."),
});

const agentSubagents = block({
  allowAgents: z
    .array(z.union([z.literal("*"), agentId]))
    .default([])
    .describe('Other agents this one may spawn under; ["*"] = any.'),
  announce: announce
    .default("post")
    .describe("post: the results of what this agent spawns in the chat; silent: in the session only; or when and where they are posted."),
  model: namedModel().optional().describe("Model of sub-agents under this agent; unset: agents.defaults.subagents.model."),
  thinking: thinking.optional().describe("Thinking level of sub-agents under this agent."),
  planning: z.boolean().default(true).describe("Give sub-agents under this agent the plan tool."),
  tools: subagentToolPolicy.prefault({}).describe("Tool policy of sub-agents under this agent, whoever spawned them."),
});

/** Whose keys an agent uses. Words, though the name of the setting sounds like a secret (variables.ts). */
export const AUTH_CHOICES = ["own", "fallback"] as const;

const agent = block({
  id: agentId.describe("Name in session keys and folders."),
  name: z.string().min(1).max(100).optional().describe("Name people see; unset: the id."),
  default: z.boolean().default(false).describe("Answers chats that name no agent; unset everywhere: the first one."),
  model: modelChoice().optional().describe("Model of this agent; unset: agents.defaults.model."),
  workspace: pathText().optional().describe("Folder of this agent's files; unset: agents.defaults.workspace."),
  auth: z
    .enum(AUTH_CHOICES)
    .default("fallback")
    .describe("own: only the keys of its own auth.json; fallback: then the main agent's, the environment's and the settings'."),
  nodes: z
    .array(nodeText())
    .max(100)
    .default([])
    .describe("With store.url: the machines that can run it, by store.node, because its workspace lies there; none: any."),
  tools: toolPolicy.prefault({}).describe("Tool policy of this agent."),
  subagents: agentSubagents.prefault({}).describe("The sub-agents this agent spawns, and those that run under it."),
});

const agents = block({
  defaults: agentDefaults.prefault({}).describe("Settings of every agent."),
  list: z.array(agent).max(100).default([]).describe("The agents; none: one agent, main."),
}).transform(({ defaults, list }, context) => {
  const ids = list.map(({ id }) => id);
  const refuse = (index: number, keys: (string | number)[], message: string) =>
    context.addIssue({ code: "custom", path: ["list", index, ...keys], message });
  for (const [i, { id, subagents }] of list.entries()) {
    if (ids.indexOf(id) !== i) refuse(i, ["id"], `agent "${id}" is listed twice`);
    for (const [n, other] of subagents.allowAgents.entries()) {
      if (other !== "*" && !ids.includes(other)) {
        refuse(i, ["subagents", "allowAgents", n], `no agent "${other}" is listed; accepted: "*", ${ids.join(", ")}`);
      }
    }
    if (list[i]?.default && list.findIndex((one) => one.default) !== i) refuse(i, ["default"], "only one agent can be the default");
  }
  const all = list.length === 0 ? [agent.parse({ id: "main" })] : list;
  const chosen = all.findIndex((one) => one.default);
  return { defaults, list: all.map((one, i) => ({ ...one, default: i === Math.max(chosen, 0) })) };
});

const mcpServer = block({
  enabled: z.boolean().default(true).describe("Off: the server isn't started and its variables needn't exist."),
  command: z.string().min(1).optional().describe("Program to start (stdio server)."),
  args: z.array(z.string()).default([]).describe("Its arguments."),
  env: z.record(z.string(), z.string()).default({}).describe("Its environment, beyond the bare minimum."),
  url: httpUrl().optional().describe("Address of an http server."),
  headers: z.record(z.string(), z.string()).default({}).describe("Headers sent with every request."),
  readOnly: z
    .array(z.string().min(1).max(200))
    .max(1000)
    .default([])
    .describe("Its tools that change nothing, by their names there: roles that must not write get these too. * stands for any characters."),
}).transform(({ enabled, command, args, env, url, headers, readOnly }, context) => {
  if (command !== undefined && url === undefined) return { enabled, kind: "stdio" as const, command, args, env, readOnly };
  if (url !== undefined && command === undefined) return { enabled, kind: "http" as const, url, headers, readOnly };
  if (!enabled) return { enabled, kind: "off" as const };
  context.addIssue({ code: "custom", message: "needs either command (a program to start) or url (a server to call)" });
  return z.NEVER;
});

const perMillion = z.number().min(0).max(100_000);

const provider = block({
  api: z.enum(PROVIDER_APIS).describe("The protocol it speaks."),
  baseUrl: httpUrl().optional().describe("Its address; unset: the maker's own."),
  apiKey: secretText().optional().describe("Its key, best taken from a variable; unset: the usual variable of the provider."),
  models: z
    .array(
      block({
        id: z
          .string()
          .regex(/^\S{1,200}$/, "must be the model's id, without blanks")
          .describe("The id the provider knows."),
        name: z.string().min(1).max(200).optional().describe("Name people see beside the id in /status."),
        contextWindow: whole(1, 100_000_000).optional().describe("Tokens it can read."),
        maxTokens: whole(1, 100_000_000).optional().describe("Tokens it can write in one answer."),
        images: z.boolean().optional().describe("Whether it sees images; unset: by its name."),
        cost: block({
          input: perMillion.describe("USD per million tokens read."),
          output: perMillion.describe("USD per million tokens written."),
          cacheRead: perMillion.optional().describe("USD per million tokens read from the cache."),
          cacheWrite: perMillion.optional().describe("USD per million tokens written to the cache."),
        })
          .optional()
          .describe("Its price; unset: the built-in catalogue's, if it is listed there."),
      }),
    )
    .default([])
    .describe("What is known about its models; others can be used too."),
}).superRefine(({ api, baseUrl }, context) => {
  if (api === "openai-compatible" && baseUrl === undefined) {
    context.addIssue({ code: "custom", path: ["baseUrl"], message: 'is missing: api "openai-compatible" needs an address' });
  }
});

const serverName = z
  .string()
  .regex(/^[a-z0-9](?:[a-z0-9-]|_(?!_)){0,31}$/, "must be lower case letters, digits, - or single _, at most 32");

const providerName = z.string().refine(isProviderName, "must be lower case letters, digits, _ or -, starting with a letter or digit");

/** The whole file. Parsing fills in every default; unknown keys are refused. */
export const configSchema = block({
  $schema: z.string().optional().describe("For editors: herald.schema.json."),
  agents: agents.prefault({}).describe("Who answers, and with which model."),
  tools: tools.prefault({}).describe("What agents can do."),
  mcp: block({ servers: z.record(serverName, mcpServer).default({}).describe("Servers by name; their tools are called <name>__<tool>.") })
    .prefault({})
    .describe("Tools from MCP servers."),
  models: block({
    providers: z.record(providerName, provider).default({}).describe("Endpoints by name, used as <name>/<model id>."),
    idleTimeoutSeconds: whole(1, 3600).default(120).describe("Abort a model that sends nothing for this long."),
    probeLocal: z.boolean().default(true).describe("Without a key, look for Ollama, LM Studio and llama.cpp on this machine."),
  })
    .prefault({})
    .describe("Model providers."),
  budgets: block({
    message: budgetCap().optional().describe("All that one message sets off."),
    chatPerDay: budgetCap().optional().describe("One chat with its sub-agents on one day (UTC)."),
    personPerDay: budgetCap().optional().describe("All that one person sets off on one day (UTC)."),
    agentPerDay: budgetCap().optional().describe("All that runs under one agent on one day (UTC)."),
    perDay: budgetCap().optional().describe("The whole installation on one day (UTC)."),
    perMonth: budgetCap().optional().describe("The whole installation in one month (UTC)."),
    unpriced: z
      .enum(["refuse", "allow"])
      .default("refuse")
      .describe("A model without a known price where a limit in USD applies: refuse the call, or make it uncounted."),
  })
    .prefault({})
    .describe("What may be spent; every limit is unset by default."),
  memory: block({ enabled: z.boolean().default(true).describe("The remember tool and the memory files.") })
    .prefault({})
    .describe("What agents keep between sessions."),
  channels: block({
    telegram: telegram.prefault({}).describe("Telegram bot."),
    slack: slack.prefault({}).describe("Slack app."),
    matrix: matrix.prefault({}).describe("Matrix bot account."),
    discord: discord.prefault({}).describe("Discord bot."),
  })
    .prefault({})
    .describe("Where people talk to the agents."),
  web: block({
    enabled: z.boolean().default(true).describe("Serve the page."),
    host: hostText().default("127.0.0.1").describe("Interface to listen on; anything but loopback opens the page to your network."),
    port: port().default(8787).describe("Port of the page; 0 = any free one."),
    publicUrl: originText().optional().describe("The address you open when it is not host and port: a TLS proxy, a tunnel, a mapped port."),
    token: pageToken().optional().describe("Token of the page; unset: made at first start and kept in the state folder."),
  })
    .prefault({})
    .describe("The page."),
  attachments: block({
    maxFileMegabytes: whole(1, 100).default(20).describe("Largest file people may send and send_file may post."),
    maxPerMessage: whole(1, 50).default(10).describe("Files of one message."),
    chatDayMegabytes: whole(1, 1_000_000).default(500).describe("All files of one chat within 24 hours."),
    dayMegabytes: whole(1, 1_000_000).default(2_000).describe("All files within 24 hours."),
    freeDiskMegabytes: whole(0, 1_000_000).default(500).describe("What stays free on the disk of the state folder."),
    keepDays: whole(1, 36_500).default(90).describe("Files are forgotten after this time; messages keep their names."),
  })
    .prefault({})
    .describe("Files that people send and agents post."),
  store: block({
    url: storeUrl()
      .optional()
      .describe(
        "PostgreSQL, for more than one machine: postgres://user:password@host/database; unset: DATABASE_URL, else a file of its own.",
      ),
    poolSize: whole(2, 200).default(10).describe("Connections of this process to PostgreSQL."),
    node: nodeText().optional().describe("Name of this machine among several; unset: HERALD_NODE, else its host name."),
  })
    .prefault({})
    .describe("Where everything is remembered."),
  session: block({
    reset: block({
      subagents: z.enum(["stop", "keep"]).default("stop").describe("What /new does with running sub-agents."),
    })
      .prefault({})
      .describe("What /new does."),
  })
    .prefault({})
    .describe("Sessions."),
  archive: block({
    purgeAfterDays: whole(1, 36_500)
      .optional()
      .describe("Remove archived transcripts, with documents, briefs and announcements on the page, after this time; unset: never."),
  })
    .prefault({})
    .describe("Archived transcripts."),
  gateway: block({
    drainSeconds: whole(0, 3600).default(20).describe("At shutdown, let running turns finish for this long."),
  })
    .prefault({})
    .describe("The gateway itself."),
  logging: block({
    level: z.enum(["debug", "info", "warn", "error", "silent"]).default("info").describe("Least important lines to write."),
    pretty: z.boolean().optional().describe("For people instead of JSON; unset: on a terminal."),
  })
    .prefault({})
    .describe("Logs."),
}).superRefine((settings, context) => {
  for (const { path, text } of [...unknownNames(settings), ...unservedTargets(settings)])
    context.addIssue({ code: "custom", path: [...path], message: text });
});

/** All settings, complete and checked. */
export type Config = z.output<typeof configSchema>;

/** The schema of the file as people write it, for editors and for error messages. */
export const configJsonSchema = (): Record<string, unknown> => ({
  title: "Herald settings",
  ...z.toJSONSchema(configSchema, { io: "input" }),
});
