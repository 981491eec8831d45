// A turn on a real transcript with a model that answers as the test says. The model is the seam of the architecture,
// so an object in its place is no mock of our own code.
import { readFileSync } from "node:fs";
import { createTurns, type Turn, type TurnEnd } from "../../src/agents/turn.ts";
import type { Failpoint } from "../../src/core/failpoints.ts";
import { newId } from "../../src/core/ids.ts";
import { createSecrets } from "../../src/core/secrets.ts";
import type { Tool } from "../../src/core/tool.ts";
import type { ModelEvent, ModelReply, ModelRequest, Models } from "../../src/models/model.ts";
import type { Entry, NewEntry } from "../../src/stores/transcript-entry.ts";
import type { TranscriptRef } from "../../src/stores/transcripts.ts";
import { createStateFolder, type StateFolder } from "./state-folder.ts";

export type Answer = (request: ModelRequest, onEvent: (event: ModelEvent) => void) => Partial<ModelReply> | Promise<Partial<ModelReply>>;

export interface TurnRig extends Disposable {
  readonly folder: StateFolder;
  readonly ref: TranscriptRef;
  /** What the model was asked, oldest first. */
  readonly requests: ModelRequest[];
  readonly doing: string[];
  readonly texts: string[];
  readonly abort: AbortController;
  tools: Tool[];
  /** Puts entries into the transcript, as an earlier turn or the gateway would. */
  put(...entries: NewEntry[]): Promise<void>;
  entries(): Promise<Entry[]>;
  /** How many entries its file holds at this very moment. */
  countOnDisk(): number;
  run(changes?: Partial<Turn>): Promise<TurnEnd>;
}

export interface TurnRigOptions {
  /** One per model call, the last one again and again. */
  readonly answers: readonly Answer[];
  readonly contextWindow?: number;
  onFailpoint?(name: Failpoint): unknown;
}

export const say =
  (text: string): Answer =>
  () => ({ text });
export const callTools =
  (...calls: { name: string; args?: unknown; id?: string; invalid?: string }[]): Answer =>
  () => ({
    toolCalls: calls.map(({ name, args = {}, id = `call-${name}`, ...rest }) => ({ id, name, args, ...rest })),
    finish: "tool-calls",
  });

export async function createTurnRig(options: TurnRigOptions): Promise<TurnRig> {
  const folder = await createStateFolder();
  const ref = { agentId: "main", sessionId: newId() };
  const { transcripts } = folder.stores;
  await transcripts.create(ref, { key: "agent:main:web:dm:main", parent: null });
  const requests: ModelRequest[] = [];
  const models: Models = {
    async call(request, onEvent) {
      const answer = options.answers[Math.min(requests.length, options.answers.length - 1)];
      requests.push(request);
      const empty = { outcome: "ok", text: "", toolCalls: [], finish: "stop", usage: null, costUsd: null, model: request.model } as const;
      return { ...empty, ...(await answer?.(request, onEvent)) };
    },
    check: () => null,
    contextWindow: () => options.contextWindow ?? 100_000,
  };
  const turns = createTurns({ models, transcripts, failpoint: (name) => void options.onFailpoint?.(name), secrets: createSecrets() });
  const rig: TurnRig = {
    ...{ folder, ref, requests, doing: [], texts: [], abort: new AbortController(), tools: [] },
    put: async (...entries) => void (await transcripts.append(ref, entries)),
    entries: () => transcripts.tail(ref, 10_000),
    // A header before them, and nothing behind the last line's end.
    countOnDisk: () => readFileSync(transcripts.path(ref), "utf8").split("\n").length - 2,
    run: (changes) =>
      turns.run({
        ...{ id: "turn:1", ref, sessionKey: "agent:main:web:dm:main", runId: null, address: null, person: null, model: "test/model" },
        ...{ fallbacks: [], thinking: "off" as const, maxIterations: 10, workspace: folder.stateDir, readOnly: false },
        signal: rig.abort.signal,
        log: folder.log,
        prompt: async () => ({ system: "the system prompt", topics: [] }),
        tools: () => rig.tools,
        mail: async () => ({ entries: [], async commit() {} }),
        onText: (text) => void rig.texts.push(text),
        onDoing: (doing) => void rig.doing.push(doing),
        account: { async settle() {} },
        ...changes,
      }),
    [Symbol.dispose]: () => folder[Symbol.dispose](),
  };
  return rig;
}
