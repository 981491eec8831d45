// `npm run bench [-- --only <topic>,…] [--against <folder>] [--out <file>] [--figures]`: what Herald costs, as ratios within one run, so that a
// slow or busy machine cancels out. Prints one Markdown table with the facts of the machine; --out writes the same into a
// file, --figures into docs/figures.md, which has four: of one process, of several (`--only nodes,postgres`), and what a turn and a run
// cost beside earlier code (`--only cost --against …`, `--only spine --against …`).
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
import { spine } from "./spine.ts";
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
  spine,
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

/** Sections of docs/figures.md, each of which shows all of its topics. Those against other code are each against another. */
const APART: Readonly<Record<string, readonly Topic[]>> = {
  "figures:bench-nodes": [nodes, postgres],
  "figures:bench-cost": [cost],
  "figures:bench-spine": [spine],
};
const SECTIONS: Readonly<Record<string, readonly Topic[]>> = {
  "figures:bench": TOPICS.filter((topic) => !Object.values(APART).flat().includes(topic)),
  ...APART,
};

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
  const sections = values.figures === true ? sectionsOf(topics) : [];
  const rows = new Map<Topic, readonly Row[]>();
  for (const topic of topics) {
    const startedAt = performance.now();
    const against = values.against === undefined ? null : resolve(values.against);
    rows.set(topic, await topic.run({ against }).catch((error: unknown) => [failed(topic, error)]));
    process.stderr.write(`${topic.name}: ${((performance.now() - startedAt) / 1000).toFixed(1)} s\n`);
  }
  const tableOf = (shown: readonly Topic[]): string => toMarkdown(shown.flatMap((topic) => rows.get(topic) ?? []));
  const table = tableOf(topics);
  process.stdout.write(table);
  if (values.out !== undefined) writeFileSync(values.out, table);
  for (const [name, shown] of sections) writeSection(FIGURES, name, tableOf(shown));
}

/** Those whose topics are all among these; throws when one would show only some of its own, which would pass for all. */
function sectionsOf(topics: readonly Topic[]): [string, readonly Topic[]][] {
  const sections = Object.entries(SECTIONS).filter(([, shown]) => shown.some((topic) => topics.includes(topic)));
  for (const [name, shown] of sections) {
    if (shown.every((topic) => topics.includes(topic))) continue;
    throw new Error(
      `${name} of docs/figures.md shows all of ${shown.map((topic) => topic.name).join(", ")}: --figures goes with all of them or none.`,
    );
  }
  return sections;
}

await main();
