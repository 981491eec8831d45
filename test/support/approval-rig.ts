// Calls that need a yes, on real stores: the caller is a run or a chat's own turn, the tools are the test's, people press through the
// command that buttons carry. A crash is a turn whose results nobody recorded.
import { z } from "zod";
import { type CallingTurn, createToolCalls } from "../../src/agents/tool-calls.ts";
import { type HitFailpoint, noFailpoints } from "../../src/core/failpoints.ts";
import { newId } from "../../src/core/ids.ts";
import { silentLogger } from "../../src/core/logger.ts";
import type { Question } from "../../src/core/question.ts";
import type { Run, Wait } from "../../src/core/run.ts";
import { createSecrets } from "../../src/core/secrets.ts";
import { type Capability, defineTool, type Tool } from "../../src/core/tool.ts";
import { turnIdOf } from "../../src/gateway/main-turn.ts";
import { createSubagentsCommand } from "../../src/gateway/subagent-commands.ts";
import { lock } from "../../src/stores/lock-keys.ts";
import type { NewEntry } from "../../src/stores/transcript-entry.ts";
import { paymentsOf } from "./payments.ts";
import { ADDRESS, CHAT_KEY } from "./runs.ts";
import type { Stage } from "./stage.ts";

/** Something a tool did. */
export interface Deed {
  readonly tool: string;
  readonly caller: string;
  readonly args: unknown;
  readonly callId: string;
}

export interface Caller {
  /** Makes one model step's calls; those that wait have no result afterwards. */
  step(...calls: readonly [tool: string, args: unknown][]): Promise<void>;
  /** Makes those without a result again. `crash`: the process dies before a result is recorded. */
  resume(options?: { readonly crash?: boolean }): Promise<void>;
  /** The process died before the results of its calls were recorded. */
  forget(): void;
  readonly waits: readonly Wait[];
  /** By call, in the order they were made; null: none yet. */
  results(): (string | null)[];
  readonly key: string;
  readonly run: Run | null;
  /** What its calls say from now on: a transcript that somebody changed. */
  tamper(args: unknown): void;
  readonly abort: AbortController;
}

export interface ApprovalRig {
  readonly deeds: Deed[];
  /** What the tool `edit_it` rests on. */
  basis: string;
  caller(run: Run): Caller;
  /** A turn of the chat itself. */
  main(sessionKey?: string): Promise<Caller>;
  open(rootKey?: string): Promise<Question[]>;
  press(question: Question, words: string, options?: { readonly by?: string; readonly from?: string }): Promise<string | null>;
}

const schema = z.strictObject({ n: z.number() });
/** As patterns: whole names must be tools there are. */
export const APPROVE = ["deed*", "look*", "edit_*", "again*"];

/** `deed`: like exec. `look`: in parallel. `edit_it`: rests on something. `again`: may be repeated. `free`: needs no yes, in parallel. */
function toolsOf(rig: Pick<ApprovalRig, "deeds" | "basis">): Tool[] {
  const made = (name: string, capability: Capability, more: Partial<Tool<typeof schema>> = {}): Tool =>
    defineTool({
      ...{ name, description: name, schema, capability },
      async run(args, { sessionId, callId, basis }) {
        if (basis !== undefined && basis !== rig.basis) return { text: "another basis", isError: true };
        rig.deeds.push({ tool: name, caller: sessionId, args, callId });
        return { text: `${name} ${args.n} done` };
      },
      ...more,
    });
  const preview = async ({ n }: { n: number }) => ({ markdown: `${n} on ${rig.basis}`, basis: rig.basis });
  return [
    made("deed", "exec"),
    made("look", "net"),
    made("edit_it", "write", { preview }),
    made("again", "write", { repeatable: true, preview }),
    made("free", "net"),
  ];
}

export function createApprovalRig(stage: Stage, failpoint: HitFailpoint = noFailpoints): ApprovalRig {
  const secrets = createSecrets();
  const toolCalls = createToolCalls({ failpoint, secrets });
  const answers = createSubagentsCommand({
    ...{ ...stage.stores, ...stage.parts, replies: stage.people.replies, lane: stage.lane, clock: stage.clock },
    payments: paymentsOf({ ...stage.stores, clock: stage.clock, bus: stage.bus, failpoint }),
    requester: () => Promise.reject(new Error("nobody spawns here")),
  });
  const rig: ApprovalRig = {
    deeds: [],
    basis: "as it was",
    caller: (run) => makeCaller({ id: `run:${run.id}:${run.generation}`, key: run.childKey, sessionId: run.sessionId, run }),
    async main(sessionKey = CHAT_KEY) {
      const externalId = newId();
      await stage.stores.inbox.sink("web", "local").put([{ externalId, raw: {} }]);
      const row = await stage.stores.inbox.lastId();
      await stage.stores.inbox.route(row, sessionKey);
      return makeCaller({ id: turnIdOf(row), key: sessionKey, sessionId: `session of ${sessionKey}`, run: null });
    },
    open: (rootKey = CHAT_KEY) => stage.stores.questions.listOpen(rootKey),
    async press({ id, rootKey }, words, { by = "Ada", from = rootKey } = {}) {
      const inbound = { kind: "command" as const, address: ADDRESS, sender: { id: by, name: by }, text: "", mentioned: true };
      const args = `answer ${id} ${words}`;
      const answer = await answers.run({ agentId: "main", sessionKey: from, args, inboxId: 0, inbound });
      return stage.stores.db.transaction([lock.tree(from)], async (tx) => ("act" in answer ? answer.act(tx) : answer.text));
    },
  };
  const tools = toolsOf(rig);

  function makeCaller({ id, key, sessionId, run }: { id: string; key: string; sessionId: string; run: Run | null }): Caller {
    const abort = new AbortController();
    const results = new Map<string, string>();
    let made: { id: string; entryId: string; calledAt: number; name: string; args: unknown }[] = [];
    let waits: readonly Wait[] = [];
    const turn: CallingTurn = {
      ...{ id, ref: { agentId: "main", sessionId }, sessionKey: key, runId: run?.id ?? null, address: run?.address ?? ADDRESS },
      ...{ person: null, workspace: "/nonexistent", readOnly: false, signal: abort.signal, log: silentLogger, gate: stage.people.gate },
      tools: () => tools,
      onDoing() {},
    };
    const space = (crash: boolean) => ({
      maxChars: 300_000,
      async append(fresh: readonly NewEntry[]) {
        if (crash && fresh.length > 0) throw new Error("the process died");
        for (const entry of fresh) if (entry.type === "tool_result") results.set(entry.callId, entry.text);
      },
    });
    return {
      ...{ key, run, abort },
      get waits() {
        return waits;
      },
      async step(...calls) {
        made = calls.map(([name, args], n) => ({ id: `c${n}`, entryId: newId(), calledAt: stage.clock.now(), name, args }));
        results.clear();
        waits = (await toolCalls.run(turn, made, space(false))).waits;
      },
      async resume({ crash = false } = {}) {
        const calls = made.filter((call) => !results.has(call.id));
        const resumed = toolCalls.resume(turn, { calls, made }, space(crash));
        if (crash) await resumed.catch(() => {});
        else waits = await resumed;
      },
      forget: () => results.clear(),
      results: () => made.map((call) => results.get(call.id) ?? null),
      tamper(args) {
        made = made.map((call) => ({ ...call, args }));
      },
    };
  }
  return rig;
}
