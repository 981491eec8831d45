// Tool calls as a turn makes them, on a stage: the caller's own tools under its policy, arguments checked against the
// schema, the result as it would stand in the transcript. The caller is the chat, or a run of it.
import { createToolCalls } from "../../src/agents/tool-calls.ts";
import type { ResultSpace } from "../../src/agents/tool-results.ts";
import { noFailpoints } from "../../src/core/failpoints.ts";
import { newId } from "../../src/core/ids.ts";
import { silentLogger } from "../../src/core/logger.ts";
import type { Run } from "../../src/core/run.ts";
import { createSecrets } from "../../src/core/secrets.ts";
import type { Tool } from "../../src/core/tool.ts";
import { childTools } from "../../src/subagents/child.ts";
import { isOver } from "../../src/subagents/waits.ts";
import { CHAT_KEY } from "./runs.ts";
import type { Stage } from "./stage.ts";
import { allOf, waitFor } from "./wait.ts";

export interface Outcome {
  readonly text: string;
  readonly isError: boolean;
}

export interface ToolDesk {
  /** Carries out calls of one model step; results in their order. */
  step(calls: readonly [name: string, args: unknown][], as?: Run): Promise<Outcome[]>;
  call(name: string, args: unknown, as?: Run): Promise<Outcome>;
  tools(as?: Run): readonly Tool[];
}

const CHAT = { agentId: "main", sessionId: "00000000-0000-4000-8000-000000000000" };

export function createToolDesk(stage: Stage): ToolDesk {
  const toolCalls = createToolCalls({ failpoint: noFailpoints, secrets: createSecrets() });
  const agentOf = (id: string) => {
    const agent = stage.agents.find(id);
    if (agent === null) throw new Error(`there is no agent ${id}`);
    return agent;
  };
  const tools = (as?: Run): readonly Tool[] => {
    // Without a policy: childTools applies the run's own.
    const all = stage.parts.mainTools({ ...agentOf("main"), policies: [] });
    return as === undefined ? stage.parts.mainTools(agentOf("main")) : childTools(all, agentOf(as.agentId), as);
  };
  const step: ToolDesk["step"] = async (calls, as) => {
    const results = new Map<string, Outcome>();
    const turn = {
      id: newId(),
      ref: as === undefined ? CHAT : { agentId: as.agentId, sessionId: as.sessionId },
      sessionKey: as?.childKey ?? CHAT_KEY,
      runId: as?.id ?? null,
      address: { channel: "web", account: "local", chat: "main", kind: "dm" } as const,
      person: null,
      workspace: agentOf(as?.agentId ?? "main").workspace,
      readOnly: false,
      signal: new AbortController().signal,
      log: silentLogger,
      tools: () => tools(as),
      onDoing() {},
    };
    const wanted = calls.map(([name, args], n) => ({ id: `c${n}`, entryId: newId(), calledAt: stage.clock.now(), name, args }));
    const space: ResultSpace = {
      maxChars: 300_000,
      async append(fresh) {
        for (const entry of fresh)
          if (entry.type === "tool_result") results.set(entry.callId, { text: entry.text, isError: entry.isError });
      },
    };
    let { waits } = await toolCalls.run(turn, wanted, space);
    // As whoever runs the turn does: the calls that wait are made again once that has come.
    while (waits.length > 0) {
      await waitFor(
        "what a call waits for",
        async () =>
          !(await allOf(waits, async (wait) => wait.for === "runs" && !(await isOver({ ...stage.stores, clock: stage.clock }, wait)))),
      );
      waits = await toolCalls.resume(turn, { calls: wanted.filter(({ id }) => !results.has(id)), made: wanted }, space);
    }
    return wanted.map(({ id }) => results.get(id) ?? { text: "no result", isError: true });
  };
  return {
    tools,
    step,
    call: async (name, args, as) => (await step([[name, args]], as))[0] ?? { text: "no result", isError: true },
  };
}
