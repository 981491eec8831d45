// Appending to a transcript and reading its end, with few entries in it and with many (SE4).
import { randomUUID } from "node:crypto";
import { silentLogger } from "../../src/core/logger.ts";
import type { NewEntry } from "../../src/stores/transcript-entry.ts";
import { createTranscripts, type TranscriptRef, type Transcripts } from "../../src/stores/transcripts.ts";
import { atMost, interleave, type Row, type Topic, us, withFolder } from "./measure.ts";

const FEW = 10;
const MANY = 100_000;
const TAIL = 10;
const PER_ROUND = 200;
const ROUNDS = 25;
const ENTRY: NewEntry = { type: "message", role: "user", text: "x".repeat(400), from: "local" };

export const transcripts: Topic = { name: "transcripts", run: () => withFolder(measureTranscripts) };

async function measureTranscripts(folder: string): Promise<Row[]> {
  const store = createTranscripts({ stateDir: folder, log: silentLogger, now: Date.now, redact: (text) => text });
  try {
    const many = await filled(store, MANY);
    // A fresh short one for every round: after some rounds of appending it would not be short any more.
    const few = await Promise.all(Array.from({ length: ROUNDS + 1 }, () => filled(store, FEW)));
    let round = 0;
    const append = async (ref: TranscriptRef): Promise<void> => {
      for (let i = 0; i < PER_ROUND; i++) await store.append(ref, [ENTRY]);
    };
    const read = async (ref: TranscriptRef): Promise<void> => {
      for (let i = 0; i < PER_ROUND; i++) await store.tail(ref, TAIL);
    };
    const untouched = await filled(store, FEW);
    const appends = await interleave(ROUNDS, { few: () => append(few[round++] ?? untouched), many: () => append(many) });
    const reads = await interleave(ROUNDS, { few: () => read(untouched), many: () => read(many) });
    const detail = (times: { few: number; many: number }): string => `${us(times.many / PER_ROUND)} against ${us(times.few / PER_ROUND)}`;
    return [
      atMost("transcript append at 100 000 entries, against 10", appends.many / appends.few, 1.5, detail(appends)),
      {
        ...atMost(`reading the last ${TAIL} of 100 000 entries, against 10 of 10`, reads.many / reads.few, 1.5, detail(reads)),
        goal: "",
        met: null,
      },
    ];
  } finally {
    store.close();
  }
}

async function filled(store: Transcripts, entries: number): Promise<TranscriptRef> {
  const ref = { agentId: "main", sessionId: randomUUID() };
  await store.create(ref, { key: "agent:main:web:dm:main", parent: null });
  for (let left = entries; left > 0; left -= 1_000) await store.append(ref, new Array<NewEntry>(Math.min(left, 1_000)).fill(ENTRY));
  // The disk must not be busy with writing this back while others are measured.
  await store.sync(ref);
  return ref;
}
