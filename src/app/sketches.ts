// What each kind of message that changes shows, and which events are about it: the painter's eyes.
import type { Clock } from "../core/clock.ts";
import type { AppEvent } from "../core/events.ts";
import type { Channel } from "../core/message.ts";
import { liveId } from "../core/question.ts";
import { isUnfinished } from "../core/run.ts";
import type { PainterDeps, Sketch } from "../gateway/painter.ts";
import { editedPart } from "../questions/question-message.ts";
import type { LiveMessage } from "../stores/live-messages.ts";
import { nextTickAt, statusId, statusParts } from "../subagents/status-message.ts";
import type { Stores } from "./store-parts.ts";

type SketchStores = Pick<Stores, "questions" | "runs" | "groups">;

/** A run changes with every step it takes, its batch never. */
const MAX_KNOWN = 5_000;

export function createSketches(stores: SketchStores, clock: Clock): Pick<PainterDeps, "sketch" | "concerns" | "changedSince"> {
  const batches = new Map<string, string | null>();
  const batchOf = async ({ runId, batch: told }: Extract<AppEvent, { type: "run.changed" }>): Promise<string | null> => {
    const known = batches.get(runId);
    if (known !== undefined) return known;
    if (batches.size >= MAX_KNOWN) batches.clear();
    const batch = told === undefined ? await stores.runs.batchOf(runId) : told;
    batches.set(runId, batch);
    return batch;
  };
  return {
    async sketch(message, channel) {
      const [, kind, subject = ""] = /^(\w+):(.*)$/.exec(message.id) ?? [];
      if (kind === "question") return questionSketch(stores, subject, channel);
      return kind === "status" ? statusSketch(stores, subject, { message, channel, now: clock.now() }) : null;
    },
    concerns(event: AppEvent) {
      if (event.type === "question.changed") return Promise.resolve([liveId({ id: event.questionId })]);
      return event.type === "run.changed" ? batchOf(event).then((batch) => (batch === null ? [] : [statusId(batch)])) : null;
    },
    changedSince: async (at) => (await stores.questions.listSettledSince(at)).map((id) => liveId({ id })),
  };
}

async function questionSketch({ questions }: SketchStores, id: string, channel: Channel): Promise<Sketch | null> {
  const question = await questions.get(id);
  const part = question === null ? undefined : editedPart(channel, question);
  return question === null || part === undefined ? null : { parts: [part], isFinal: question.state !== "open", nextAt: null };
}

interface Standing {
  readonly message: LiveMessage;
  readonly channel: Channel;
  readonly now: number;
}

async function statusSketch({ runs, groups }: SketchStores, batch: string, { message, channel, now }: Standing): Promise<Sketch | null> {
  const all = await runs.listBatch(batch);
  // Whoever stopped them before they were shown has been told so.
  const isMoot = message.state === "new" && all.every((run) => run.state === "stopped");
  if (all.length === 0 || isMoot) return null;
  const ids = new Set(all.flatMap(({ groupId }) => groupId ?? []));
  const known = await Promise.all([...ids].map((id) => groups.get(id)));
  return {
    parts: statusParts(
      channel,
      all,
      now,
      known.filter((group) => group !== null),
    ),
    isFinal: !all.some((run) => isUnfinished(run.state)),
    nextAt: nextTickAt(all, now),
  };
}
