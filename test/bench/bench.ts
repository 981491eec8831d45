// `npm run bench [-- --only <topic>,…] [--against <folder>] [--out <file>] [--figures]`: what Herald costs, as ratios within one run, so that a
// slow or busy machine cancels out. Prints one Markdown table with the facts of the machine; --out writes the same into a
// file, --figures into docs/figures.md.
import { writeFileSync } from "node:fs";
import { cpus, release } from "node:os";
import { resolve } from "node:path";
import { parseArgs } from "node:util";
import { FIGURES, writeSection } from "../support/document-section.ts";
import { children } from "./children.ts";
import { cost } from "./cost.ts";
import type { Row, Topic } from "./measure.ts";
import { models } from "./models.ts";
import { nodes } from "./nodes.ts";
import { pace } from "./pace.ts";
import { packageTopic } from "./package.ts";
import { page } from "./page.ts";
import { postgres } from "./postgres.ts";
import { processTopic } from "./process.ts";
import { prompts } from "./prompts.ts";
import { sessions } from "./sessions.ts";
import { spawn } from "./spawn.ts";
import { throughput } from "./throughput.ts";
import { transcripts } from "./transcripts.ts";
import { transitions } from "./transitions.ts";
import { turn } from "./turn.ts";
import { waiting } from "./waiting.ts";

const TOPICS: readonly Topic[] = [
  turn,
  transcripts,
  transitions,
  processTopic,
  packageTopic,
  sessions,
  spawn,
  throughput,
  waiting,
  nodes,
  postgres,
  children,
  models,
  pace,
  page,
  prompts,
  cost,
];

function machineFacts(): string {
  const cores = cpus();
  return `${cores.length} cores (${cores[0]?.model.trim() ?? "unknown"}) · Node ${process.versions.node} · Linux ${release()} · ${new Date().toISOString().slice(0, 10)}`;
}

function toMarkdown(rows: readonly Row[]): string {
  const lines = rows.map(({ measure, value, goal, met, detail }) => {
    const verdict = met === null ? "" : met ? "met" : "**missed**";
    return `| ${measure} | ${value} | ${goal} | ${verdict} | ${detail} |`;
  });
  return [`Measured on ${machineFacts()}.`, "", "| measure | value | goal | | detail |", "|---|---|---|---|---|", ...lines, ""].join("\n");
}

/** One topic that breaks must not cost the others' figures. */
function failed({ name }: Topic, error: unknown): Row {
  process.stderr.write(`${error instanceof Error ? error.stack : String(error)}\n`);
  return { measure: name, value: "failed", goal: "", met: false, detail: error instanceof Error ? error.message : String(error) };
}

function chosen(only: string | undefined): readonly Topic[] {
  if (only === undefined) return TOPICS;
  return only.split(",").map((name) => {
    const topic = TOPICS.find((known) => known.name === name);
    if (topic === undefined) throw new Error(`There is no topic "${name}". Topics: ${TOPICS.map((known) => known.name).join(", ")}.`);
    return topic;
  });
}

async function main(): Promise<void> {
  const { values } = parseArgs({
    options: { only: { type: "string" }, against: { type: "string" }, out: { type: "string" }, figures: { type: "boolean" } },
  });
  const topics = chosen(values.only);
  if (values.figures === true && values.only !== undefined)
    throw new Error("docs/figures.md shows all topics: --figures goes without --only.");
  const rows: Row[] = [];
  for (const topic of topics) {
    const startedAt = performance.now();
    rows.push(
      ...(await topic
        .run({ against: values.against === undefined ? null : resolve(values.against) })
        .catch((error: unknown) => [failed(topic, error)])),
    );
    process.stderr.write(`${topic.name}: ${((performance.now() - startedAt) / 1000).toFixed(1)} s\n`);
  }
  const table = toMarkdown(rows);
  process.stdout.write(table);
  if (values.out !== undefined) writeFileSync(values.out, table);
  if (values.figures === true) writeSection(FIGURES, "figures:bench", table);
}

await main();
