// The tools of /mcp (PR1): what each takes, which scope it needs and what it answers. Words of runs stand behind a fence that no text can
// forge, also in structured content, because clients give both to a model; what stands outside it code has written.
import { z } from "zod";
import { fence, newFenceToken } from "../core/fence.ts";
import type { Program, Scope } from "../core/program.ts";
import { visibleLine } from "../core/visible-text.ts";
import { type WaitDeps, waitForRun } from "./mcp-wait.ts";
import type { ProgramDesk, ProgramRun, Told } from "./program-desk.ts";

export interface ToolAnswer {
  readonly text: string;
  readonly data?: Readonly<Record<string, unknown>>;
  readonly isError?: boolean;
}

/** One call of a tool. */
export interface ToolCall {
  readonly program: Program;
  /** The client is gone, or took the call back. */
  readonly signal: AbortSignal;
  /** What is done now, for a client that wants to know. */
  progress(message: string): Promise<void>;
}

export interface McpTool {
  readonly name: string;
  readonly scope: Scope;
  readonly description: string;
  readonly schema: z.ZodType;
  /** For people who are asked before a call: it changes nothing. */
  readonly isReadOnly: boolean;
  run(args: never, call: ToolCall): Promise<ToolAnswer>;
}

export interface ToolDeps extends WaitDeps {
  readonly desk: ProgramDesk;
}

const MAX_WAIT_SECONDS = 50;
/** Of one token, in this process: each holds a connection. */
const MAX_WAITS = 20;
const MAX_LISTED = 200;
const MAX_TEXT = 64 * 1024;
const MAX_PROGRESS = 200;

const runId = z.string().max(100).describe("As spawn returned it.");

const NO_RUN: ToolAnswer = { text: "There is no such run. `runs` lists those of this token.", isError: true };

const quoted = (source: string, text: string): string => fence({ source, text }, newFenceToken());

const define = <S extends z.ZodType>(
  tool: Omit<McpTool, "schema" | "run"> & { schema: S; run(args: z.output<S>, call: ToolCall): Promise<ToolAnswer> },
): McpTool => tool as unknown as McpTool;

export const createMcpTools = (deps: ToolDeps): readonly McpTool[] => [
  spawnTool(deps),
  waitTool(deps),
  ...readingTools(deps),
  ...steeringTools(deps),
];

const spawnTool = ({ desk }: ToolDeps): McpTool =>
  define({
    name: "spawn",
    scope: "spawn",
    description:
      "Sends out a sub-agent of Herald: a background run with its own session. Returns at once with its runId; call wait until it has ended, then result. " +
      "With an idempotencyKey, repeating the call finds the same run instead of starting a second one; with other arguments it is refused.",
    schema: desk.spawnSchema,
    isReadOnly: false,
    async run(args, { program }) {
      const spawned = await desk.spawn(program, args);
      if ("refused" in spawned) return { text: spawned.refused, isError: true };
      const { isRepeated, ...run } = spawned;
      const how = isRepeated ? "was sent out before with this idempotencyKey; no second one was" : "is sent out";
      const text = `Run ${run.runId} ${how}. Call wait with this runId, then result.${run.warning === undefined ? "" : ` ${run.warning}`}`;
      return { text, data: { ...run, isRepeated } };
    },
  });

function waitTool(deps: ToolDeps): McpTool {
  const waits = new Map<string, number>();
  return define({
    name: "wait",
    scope: "read",
    description: `Waits until a run has ended or asks something, at most ${MAX_WAIT_SECONDS} seconds; call it again as long as the run goes on. Says what the run does meanwhile as progress.`,
    schema: z.strictObject({
      runId,
      maxSeconds: z.number().min(0).max(MAX_WAIT_SECONDS).default(MAX_WAIT_SECONDS).describe("How long at the most."),
    }),
    isReadOnly: true,
    async run({ runId: id, maxSeconds }, call) {
      const { program, signal } = call;
      const open = waits.get(program.id) ?? 0;
      if (open >= MAX_WAITS)
        return {
          text: `This token waits for ${open} runs already, the most it may. Call wait again when one of them has answered.`,
          isError: true,
        };
      waits.set(program.id, open + 1);
      try {
        let last = "";
        const onNews = async (run: ProgramRun): Promise<void> => {
          const now = progressOf(run);
          if (now === last) return;
          last = now;
          await call.progress(now);
        };
        const run = await waitForRun(deps, program, { runId: id, ms: maxSeconds * 1000, signal, onNews });
        if (run === "revoked") return { text: "This token was taken back while it waited. The run goes on.", isError: true };
        return run === null ? NO_RUN : waited(run, maxSeconds, program);
      } finally {
        const left = (waits.get(program.id) ?? 1) - 1;
        if (left === 0) waits.delete(program.id);
        else waits.set(program.id, left);
      }
    },
  });
}

/** One line, cut: it comes from the run and its tools. */
const progressOf = ({ facts, doing, step }: ProgramRun): string =>
  visibleLine([facts.state, step, doing].filter((part) => part !== null).join(" · "), MAX_PROGRESS);

function waited(run: ProgramRun, maxSeconds: number, { scopes }: Program): ToolAnswer {
  const how = run.isOver
    ? `It has ended (${run.facts.state}). result reads what it found.`
    : run.questions.length === 0
      ? `It is still ${run.facts.state} after ${maxSeconds} seconds. Call wait again.`
      : scopes.includes("approve")
        ? "It asks something and waits for the answer: call answer."
        : "It asks something and waits for the answer of a person, in its chat or on Herald's page; this token may not answer (scope approve).";
  return { text: `${how}\n${wordsOf([run])}`, data: { ...run.facts, isOver: run.isOver, isAsking: run.questions.length > 0 } };
}

const wordsOf = (runs: readonly ProgramRun[]): string =>
  quoted(
    "sub-agents",
    JSON.stringify(
      runs.map(({ facts, doing, step, questions }) => ({ ...facts, doing, step, questions })),
      null,
      1,
    ),
  );

/** Of a run that has ended. */
export async function resultOf(desk: ProgramDesk, program: Program, { facts }: ProgramRun): Promise<ToolAnswer> {
  const found = await desk.result(program, facts.runId);
  if (found === null) return NO_RUN;
  const words = [found.text.trim() || "(not available)", ...(found.notes.trim() === "" ? [] : ["", "Notes:", found.notes])];
  const text = quoted(`the sub-agent ${facts.label}`, words.join("\n"));
  const { data, checks } = found;
  const typed = { ...(data === undefined ? {} : { data }), ...(checks === undefined ? {} : { checks }) };
  return { text: `${found.sentence}\n${text}`, data: { ...facts, text, ...typed } };
}

const readingTools = ({ desk }: ToolDeps): McpTool[] => [
  define({
    name: "runs",
    scope: "read",
    description: "Lists the runs that this token has sent out, newest first, with their states; runs of others are not shown.",
    schema: z.strictObject({ limit: z.number().int().min(1).max(MAX_LISTED).default(50) }),
    isReadOnly: true,
    async run({ limit }, { program }) {
      const runs = await desk.list(program, limit);
      const text = runs.length === 0 ? "This token has sent nobody out yet." : `${runs.length} runs, newest first:\n${wordsOf(runs)}`;
      return { text, data: { runs: runs.map(({ facts }) => facts) } };
    },
  }),
  define({
    name: "result",
    scope: "read",
    description:
      "What a run that has ended found: its status, its words as quoted data, its cost, and its typed data where a resultSchema was given.",
    schema: z.strictObject({ runId }),
    isReadOnly: true,
    async run({ runId: id }, { program }) {
      const run = await desk.find(program, id);
      if (run === null) return NO_RUN;
      if (!run.isOver) return { text: `It is still ${run.facts.state}: call wait first.`, data: { ...run.facts }, isError: true };
      return resultOf(desk, program, run);
    },
  }),
  define({
    name: "log",
    scope: "read",
    description: "The last messages of a run, as quoted data; with tools also its tool calls.",
    schema: z.strictObject({ runId, limit: z.number().int().min(1).max(MAX_LISTED).default(20), tools: z.boolean().default(false) }),
    isReadOnly: true,
    async run({ runId: id, limit, tools }, { program }) {
      const log = await desk.log(program, id, { limit, tools });
      return log === null ? NO_RUN : { text: quoted("log of a sub-agent", log) };
    },
  }),
];

const told = (answer: Told | null): ToolAnswer => (answer === null ? NO_RUN : { text: answer.text, isError: !answer.isDone });

const steeringTools = ({ desk }: ToolDeps): McpTool[] => [
  define({
    name: "send",
    scope: "send",
    description: "Sends a message to a run: read at its next step while it works; one that has ended goes on with it in the same session.",
    schema: z.strictObject({ runId, message: z.string().min(1).max(MAX_TEXT) }),
    isReadOnly: false,
    run: async ({ runId: id, message }, { program }) => told(await desk.send(program, id, message)),
  }),
  define({
    name: "stop",
    scope: "stop",
    description: "Ends a run and everything below it.",
    schema: z.strictObject({ runId }),
    isReadOnly: false,
    run: async ({ runId: id }, { program }) => told(await desk.stop(program, id)),
  }),
  define({
    name: "answer",
    scope: "approve",
    description:
      "Answers what a run asks: words or an option for a question; `yes`, `run` (yes for the whole run) or `no, because …` for a call that needs a yes.",
    schema: z.strictObject({
      runId,
      questionId: z.string().max(100).optional().describe("As wait showed it; left out: the only open one."),
      answer: z.string().min(1).max(MAX_TEXT),
    }),
    isReadOnly: false,
    run: async ({ runId: id, questionId, answer }, { program }) => told(await desk.answer(program, id, questionId, answer)),
  }),
];
