// npm run chaos -- --kills N --seed S [--minutes M] [--nodes K] [--platforms all] [--keep folder] [--out file] [--figures]: kills the real process N times under traffic
// and proves that nothing was lost, said twice, misplaced or said after a stop. Exit code 1 on a violation. --figures puts
// them into docs/figures.md. With --nodes K the same with K processes on one PostgreSQL, which is tormented too.
// --platforms all adds a second Telegram bot, a second Slack workspace, Matrix and Discord to the traffic.
// --keep folder leaves the whole history there and, with --nodes, the logs of all processes.
import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { parseArgs } from "node:util";
import { FIGURES, writeSection } from "../support/document-section.ts";
import { runNodesChaos } from "./nodes-run.ts";
import { type ChaosFigures, figuresOf, markdownLine, nodesFiguresOf, nodesMarkdownLine, shortHistory } from "./report.ts";
import { type ChaosOptions, type ChaosOutcome, runChaos } from "./run.ts";

const SHOWN_VIOLATIONS = 20;
const SHOWN_IN_FULL = 4;

function readOptions(): ChaosOptions & { nodes: number | null; keep: string | null; out: string | null; writes: boolean } {
  const { values } = parseArgs({
    options: {
      kills: { type: "string", default: "100" },
      seed: { type: "string", default: String(Date.now() % 1_000_000) },
      minutes: { type: "string", default: "60" },
      nodes: { type: "string" },
      keep: { type: "string" },
      out: { type: "string" },
      platforms: { type: "string", default: "usual" },
      figures: { type: "boolean", default: false },
    },
  });
  const whole = (name: "kills" | "seed" | "minutes" | "nodes", max: number): number => {
    const value = Number(values[name]);
    if (!Number.isInteger(value) || value < 1 || value > max) throw new RangeError(`--${name} takes a whole number from 1 to ${max}`);
    return value;
  };
  return {
    kills: whole("kills", 100_000),
    seed: whole("seed", 2 ** 31),
    minutes: whole("minutes", 24 * 60),
    nodes: values.nodes === undefined ? null : whole("nodes", 20),
    platforms: values.platforms === "all" ? "all" : "usual",
    keep: values.keep ?? null,
    out: values.out ?? null,
    writes: values.figures,
  };
}

interface Told {
  readonly outcome: ChaosOutcome;
  readonly figures: ChaosFigures;
  readonly markdown: string;
  /** Of docs/figures.md. */
  readonly section: string;
}

async function run(options: ChaosOptions, nodes: number | null, keep: string | null): Promise<Told> {
  if (nodes === null) {
    const outcome = await runChaos(options);
    const figures = figuresOf(outcome, options);
    const section = options.platforms === "all" ? "figures:chaos-platforms" : "figures:chaos";
    return { outcome, figures, markdown: markdownLine(figures), section };
  }
  const outcome = await runNodesChaos({ ...options, nodes, ...(keep === null ? {} : { logs: keep }) });
  const figures = nodesFiguresOf(outcome, { ...options, nodes });
  return { outcome, figures, markdown: nodesMarkdownLine(figures), section: "figures:chaos-nodes" };
}

const { keep, out, writes, nodes, ...options } = readOptions();
if (keep !== null) mkdirSync(keep, { recursive: true });
const among = nodes === null ? "" : `${nodes} nodes, `;
console.log(`chaos: ${among}${options.kills} kills, seed ${options.seed}, at most ${options.minutes} min`);
const { outcome, figures, markdown, section } = await run({ ...options, progress: (line) => console.log(`  ${line}`) }, nodes, keep);
for (const [name, value] of Object.entries(figures))
  console.log(`${name.padEnd(16)} ${typeof value === "object" ? JSON.stringify(value) : value}`);
console.log(markdown);
const { violations } = outcome.verdict;
if (out !== null) writeFileSync(out, `${JSON.stringify({ ...figures, violations, markdown }, null, 2)}\n`);

if (keep !== null) writeFileSync(join(keep, "history.json"), JSON.stringify({ violations, ...outcome.history }));
if (writes && violations.length === 0) writeSection(FIGURES, section, markdown);

// One of each: a long text that came twice is a violation per piece.
const subjects = Map.groupBy(violations, ({ kind, about }) => `${kind} ${about}`)
  .values()
  .toArray();
for (const [n, [violation, ...more]] of subjects.slice(0, SHOWN_VIOLATIONS).entries()) {
  if (violation === undefined) continue;
  console.log(`\n✗ ${violation.kind} ${violation.about}: ${violation.text}${more.length === 0 ? "" : ` (and ${more.length} more of it)`}`);
  if (n < SHOWN_IN_FULL && violation.kind !== "trouble")
    for (const line of shortHistory(outcome.history, violation)) console.log(`    ${line}`);
}
if (violations.length > 0) {
  console.log(
    `\n${violations.length} violations; again with: npm run chaos --${nodes === null ? "" : ` --nodes ${nodes}`} --kills ${options.kills} --seed ${options.seed}`,
  );
  process.exitCode = 1;
}
