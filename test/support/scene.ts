// A gateway as a real process with the obedient brain behind it, for flow tests of sub-agents: many tests share one
// process and keep apart by chatting in chats of their own.
import { randomUUID } from "node:crypto";
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { createBrain, plan, type Step } from "./brain.ts";
import type { FakeModelServer, Respond } from "./fake-model-server.ts";
import { createFakeOpenAi } from "./fake-openai.ts";
import type { Harness, HarnessOptions, PageMessage } from "./harness.ts";
import { createHerald, createNodes, isShared, type NodeOptions, type Nodes } from "./nodes.ts";
import { reload } from "./reload.ts";
import { scriptedConfig } from "./scripted-model.ts";
import { waitFor } from "./wait.ts";

export interface RunRow {
  readonly id: string;
  readonly label: string;
  readonly state: string;
  readonly delivery: string;
  readonly child_key: string;
  readonly session_id: string;
  readonly requester_key: string;
  readonly model: string;
  readonly generation: number;
  readonly resumes: number;
  readonly boot_id: string;
  readonly owner: string | null;
  readonly reason: string | null;
  readonly started_at: number | null;
  readonly ended_at: number | null;
  readonly settled_at: number | null;
  readonly archived_at: number | null;
  readonly archive_name: string | null;
}

export interface Chat {
  readonly id: string;
  readonly key: string;
  /** Says something and resolves with the agent's next words that answer it: a reply or a command's answer. */
  ask(text: string, timeoutMs?: number): Promise<string>;
  /** Makes the agent go through these steps; resolves with what their calls gave, in order. */
  act(steps: readonly Step[], timeoutMs?: number): Promise<string[]>;
  say(text: string): Promise<string>;
  announcements(): Promise<PageMessage[]>;
  /** The announcement of the run with this label, once it is there. */
  announced(label: string, timeoutMs?: number): Promise<string>;
  runs(): RunRow[];
  run(label: string): RunRow;
  /** Resolves when the run with this label is in one of these states. */
  reached(label: string, ...states: string[]): Promise<RunRow>;
}

export interface Scene extends AsyncDisposable {
  readonly herald: Harness;
  readonly model: FakeModelServer;
  chat(id?: string): Chat;
  /** Lets the steps go on that hold under this name. */
  release(name: string): void;
  /** What is written of these sessions, a line each; of all of an agent when none is named. Files, or rows. */
  transcripts(agentId: string, sessionId?: string): string[];
  /** One more process beside, where there are several. */
  join(options?: NodeOptions): Promise<Harness>;
  /** These settings as a file has them, for one that joins with others. */
  configOf(settings: SceneSettings): Record<string, unknown>;
  /** Other settings, taken while it runs, until what it returns is disposed. */
  configure(settings: SceneSettings): Promise<AsyncDisposable>;
  /** Stops whatever a test left running, so that the next one finds the lanes empty. For afterEach. */
  calm(): Promise<void>;
}

interface SceneSettings {
  /** agents.defaults.maxConcurrent */
  readonly mainConcurrent?: number;
  /** agents.defaults.subagents */
  readonly subagents?: Record<string, unknown>;
  /** The rest of agents.defaults. */
  readonly defaults?: Record<string, unknown>;
  /** The rest of the settings. */
  readonly config?: Record<string, unknown>;
}

export interface SceneOptions extends Omit<HarnessOptions, "config">, SceneSettings {
  /** Instead of the brain. */
  readonly respond?: Respond;
  /** Several processes on PostgreSQL, and what each has besides. */
  readonly nodes?: readonly NodeOptions[];
}

export async function createScene(options: SceneOptions = {}): Promise<Scene> {
  const brain = createBrain();
  const model = await createFakeOpenAi({ respond: options.respond ?? brain.respond });
  const configOf = ({ mainConcurrent = 4, subagents = {}, defaults, config }: SceneSettings): Record<string, unknown> =>
    // Tests leave runs hanging on purpose; a graceful stop must not wait for them.
    scriptedConfig(model.url, { maxConcurrent: mainConcurrent, subagents, ...defaults }, { gateway: { drainSeconds: 0 }, ...config });
  const { nodes, ...common } = { ...options, config: configOf(options) };
  const herald = await (nodes === undefined ? createHerald(common) : createNodes(nodes.length, common, nodes));
  const chats: Chat[] = [];
  return {
    herald,
    model,
    release: brain.release,
    configOf,
    transcripts: (agentId, sessionId) =>
      (isShared || options.nodes !== undefined ? transcriptRows : transcriptFiles)(herald, agentId, sessionId),
    async join(more) {
      if (!("join" in herald)) throw new Error("this one is alone");
      return (herald as Nodes).join(more);
    },
    async configure(settings) {
      await reload(herald, configOf({ ...options, ...settings }));
      return { [Symbol.asyncDispose]: () => reload(herald, configOf(options)) };
    },
    chat(id = randomUUID()) {
      const chat = createChat(herald, id);
      chats.push(chat);
      return chat;
    },
    async calm() {
      const busy = chats.splice(0).filter((chat) => chat.runs().some((run) => run.ended_at === null));
      await Promise.all(busy.map((chat) => chat.ask("/stop")));
    },
    async [Symbol.asyncDispose]() {
      try {
        await herald[Symbol.asyncDispose]();
      } finally {
        await model.close();
      }
    },
  };
}

function transcriptFiles({ stateDir }: Harness, agentId: string, sessionId = ""): string[] {
  const folder = join(stateDir, "agents", agentId, "sessions");
  const names = existsSync(folder) ? readdirSync(folder) : [];
  return names
    .filter((name) => name.startsWith(sessionId) && name.endsWith(".jsonl"))
    .map((name) => readFileSync(join(folder, name), "utf8"));
}

function transcriptRows({ rows }: Harness, agentId: string, sessionId = ""): string[] {
  const sql = `SELECT header || E'\\n' || coalesce((SELECT string_agg(body, E'\\n' ORDER BY n) FROM transcript_entries AS e
    WHERE e.session_id = t.session_id), '') AS text FROM transcripts AS t WHERE agent_id = ? AND session_id LIKE ? AND archive_name IS NULL`;
  return rows<{ text: string }>(sql, agentId, `${sessionId}%`).map(({ text }) => text);
}

function createChat(herald: Harness, id: string): Chat {
  const key = `agent:main:web:dm:${id}`;
  const runs = (): RunRow[] => herald.rows<RunRow>("SELECT * FROM runs WHERE requester_key = ? ORDER BY seq", key);
  // What a sub-agent announces or asks comes in its own time, also right before the answer.
  const answers = async (): Promise<PageMessage[]> =>
    (await herald.replies(id)).filter(({ kind }) => kind !== "announcement" && kind !== "live");
  const ask = async (text: string, timeoutMs?: number): Promise<string> => {
    const before = (await answers()).length;
    await herald.say(text, { chat: id });
    return (await waitFor(`an answer to "${text.slice(0, 60)}"`, async () => (await answers())[before], timeoutMs)).text;
  };
  const run = (label: string): RunRow => {
    const found = runs().find((one) => one.label === label);
    if (found === undefined) throw new Error(`there is no run "${label}" in this chat`);
    return found;
  };
  const announcements = (): Promise<PageMessage[]> => herald.announcements(id);
  return {
    id,
    key,
    ask,
    async act(steps, timeoutMs) {
      const reply = await ask(plan(steps), timeoutMs);
      if (!reply.startsWith("results: ")) throw new Error(`the agent did not come to its results: ${reply}`);
      return JSON.parse(reply.slice("results: ".length)) as string[];
    },
    say: (text) => herald.say(text, { chat: id }),
    announcements,
    announced: async (label, timeoutMs) =>
      (
        await waitFor(
          `the announcement of "${label}"`,
          async () => (await announcements()).find((message) => message.text.startsWith(`**Sub-agent: ${label}**`)),
          timeoutMs,
        )
      ).text,
    runs,
    run,
    reached: (label, ...states) =>
      waitFor(`run "${label}" to be ${states.join(" or ")}`, () => {
        const found = run(label);
        return states.includes(found.state) ? found : null;
      }),
  };
}
