// What else the page shows of one run: whole entries of its transcript, its documents, what each of its steps cost.
// stores, prices → web/run-record.ts
import { errorText } from "../core/errors.ts";
import type { Logger } from "../core/logger.ts";
import type { Run } from "../core/run.ts";
import { totalTokens, type Usage } from "../core/usage.ts";
import { type Entry, isTopicNote, thoughtsOf } from "../stores/transcript-entry.ts";
import { transcriptOfRun } from "../subagents/deps.ts";
import { BRIEF_FILE } from "../subagents/documents/briefing.ts";
import { briefFile, responseFile } from "../subagents/documents/run-documents.ts";
import { TRACE_FILE } from "../subagents/documents/trace-file.ts";
import type { DocumentView, RunRecord, SpendPoint, SpendView } from "../web/run-record.ts";
import type { ModelParts } from "./models.ts";
import type { Stores } from "./store-parts.ts";

export interface RunRecordDeps {
  readonly stores: Pick<Stores, "runs" | "transcripts" | "sessionDocuments">;
  readonly priceOf: ModelParts["priceOf"];
  readonly log: Logger;
}

const MAX_DOCUMENT_BYTES = 512 * 1024;
const PAGE = 400;
const MAX_PAGES = 10;
/** More than a small plot can show. */
const MAX_POINTS = 200;

export function createRunRecord(deps: RunRecordDeps): RunRecord {
  const { runs, transcripts, sessionDocuments } = deps.stores;
  return {
    async entry(id, position) {
      const run = await runs.get(id);
      if (run === null) return null;
      try {
        for await (const entry of transcripts.between(transcriptOfRun(run), position, Number.MAX_SAFE_INTEGER))
          return isShown(entry) ? entry : null;
        return null;
      } catch (error) {
        return missing(error, null);
      }
    },
    async documents(id) {
      const run = await runs.get(id);
      if (run === null) return null;
      const names = documentsOf(run);
      const there = await Promise.all(names.map(({ name }) => sessionDocuments.has(run, name)));
      return names.filter((_, n) => there[n]);
    },
    async document(id, name): Promise<DocumentView | null> {
      const run = await runs.get(id);
      if (run === null || !documentsOf(run).some((one) => one.name === name)) return null;
      try {
        const text = await sessionDocuments.read(run, name, MAX_DOCUMENT_BYTES);
        return text === null ? null : { name, text, isCut: Buffer.byteLength(text) >= MAX_DOCUMENT_BYTES - 3 };
      } catch (error) {
        deps.log.warn({ runId: id, name, reason: errorText(error) }, "a document of a run can't be read");
        return null;
      }
    },
    async spend(id) {
      const run = await runs.get(id);
      return run === null ? null : spendOf(deps, run).catch((error) => missing(error, { points: [], steps: 0, isCut: false }));
    },
  };
}

const documentsOf = (run: Run): { readonly name: string; readonly about: string }[] => [
  { name: briefFile(run), about: "what was delegated" },
  { name: BRIEF_FILE, about: "what it may know" },
  { name: responseFile(run), about: "what came back" },
  { name: TRACE_FILE, about: "who did what when" },
];

/** The announce step is the runtime talking to the child (AN5); a message that only calls tools has no words, but perhaps thoughts. */
export const isShown = (entry: Entry): boolean =>
  entry.phase !== "announce" && !isTopicNote(entry) && (entry.type !== "message" || entry.text.trim() !== "" || thoughtsOf(entry) !== "");

/** Gone, or something else in its place: there is none to show. */
export function missing<T>(error: unknown, instead: T): T {
  if (/^(?:ENOENT|EISDIR|ENOTDIR)$/.test((error as NodeJS.ErrnoException).code ?? "")) return instead;
  throw error;
}

type Step = Extract<Entry, { role: "assistant" }> & { readonly usage: Usage };
const isStep = (entry: Entry): entry is Step =>
  entry.type === "message" && entry.role === "assistant" && entry.usage !== undefined && entry.usage !== null;

/** From its end backwards, as far as a few pages reach. */
async function spendOf({ stores: { transcripts }, priceOf }: RunRecordDeps, run: Run): Promise<SpendView> {
  const steps: Step[] = [];
  let before: number | null = null;
  let pages = 0;
  do {
    const page = await transcripts.page(transcriptOfRun(run), { before, limit: PAGE, fits: isStep });
    steps.unshift(...page.entries.map(({ entry }) => entry as Step));
    before = page.before;
    pages++;
  } while (before !== null && pages < MAX_PAGES);
  let tokens = 0;
  let costUsd: number | null = 0;
  const points = steps.map(({ timestamp, usage, model }): SpendPoint => {
    const price: number | null = priceOf(model)(usage);
    tokens += totalTokens(usage);
    costUsd = costUsd === null || price === null ? null : costUsd + price;
    return { at: timestamp, tokens, costUsd };
  });
  return { points: thinned(points), steps: steps.length, isCut: before !== null };
}

/** Every nth, and the last one. */
function thinned(points: readonly SpendPoint[]): readonly SpendPoint[] {
  const every = Math.ceil(points.length / MAX_POINTS);
  return every <= 1 ? points : points.filter((_, n) => n % every === 0 || n === points.length - 1);
}
