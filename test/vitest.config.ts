// Five projects: `unit` is quick and in-process (npm run check), `deep` has real servers, databases, programs, the sandbox and long
// property tests, `flow` drives the whole program as a process, and what needs the machine for itself
// comes last, `alone`. `nodes` are suites of `flow` over two processes on PostgreSQL, where it is installed. `npm test` runs all of them.
import { existsSync, statfsSync } from "node:fs";
import { availableParallelism, tmpdir } from "node:os";
import { defineConfig } from "vitest/config";
import { BaseSequencer, type TestSpecification } from "vitest/node";
import { findPostgres } from "./support/postgres.ts";
import { SecondTries } from "./support/second-tries.ts";

const root = new URL("..", import.meta.url).pathname;
/**
 * Once more in CI, and only where a deadline passed or somebody took the port meanwhile: the machine is shared. What is asserted and does not hold
 * fails at once, here and there. Who needed it is named at the end.
 */
const retry =
  process.env.HERALD_TEST_RETRY === "1"
    ? { count: 1, condition: /^waited \d+ ms for|Test timed out|Timeout \d+ms exceeded|is taken by another program/ }
    : 0;
const common = { root, environment: "node" as const, testTimeout: 60_000, hookTimeout: 60_000, retry };

const DEEP = [
  "test/contract/*.test.ts",
  "test/unit/{tools,web}/**/*.test.ts",
  "test/unit/app/{accounts,backup,board,chat-desk,move,setup-desk}.test.ts",
  "test/unit/channels/{slack,telegram,matrix,discord}-*.test.ts",
  "test/unit/models/{ai-sdk,ai-sdk-faults,credentials,paid-calls,resolve}.test.ts",
  "test/unit/{chaos/tabs,chaos/pg-proxy,channels/fetch-file,lanes/lanes,questions/approvals}.test.ts",
  "test/unit/gateway/{conversation,delivery,doorstep,main-turn}.test.ts",
  "test/unit/stores/{database,journal,transcripts,versions}.test.ts",
  "test/unit/stores/postgres/*.test.ts",
  "test/unit/subagents/{completion,groups,run-texts,waits}.test.ts",
  "test/unit/config/{config,edit,watch}.test.ts",
  "test/unit/brief/{document,trace,brief}.test.ts",
  "test/unit/channels/{markdown,split}.test.ts",
  "test/bad-inputs/*.test.ts",
  "test/property/*.test.ts",
];

/** What several processes could do otherwise than one. */
const NODES = ["test/flow/{subagents-{announce,commands,control,lane,recover,spawn},stop,delivery,questions,groups}.test.ts"];

const ALONE = ["test/unit/tools/usage.test.ts", "test/flow/chaos-nodes.test.ts", "test/flow/package.test.ts"];

// `isolate: false`: nothing in the in-process tests outlives its test, so files can share workers and what they loaded.

/** Vitest leaves one core to itself, which on two cores is half of them; these tests also wait for the disk. */
const workers = Math.max(3, availableParallelism());

/** Thousands of small durable writes cost what the disk costs; in memory, where there is room, they are the same writes. */
function quickFolder(): string {
  if (!existsSync("/dev/shm")) return tmpdir();
  const { bavail, bsize } = statfsSync("/dev/shm");
  return bavail * bsize > 1e9 ? "/dev/shm" : tmpdir();
}

/** The longest files of `flow`. By hand, because a fresh clone has no timings to sort by. */
const LONG = [
  "streaming-kill",
  "streaming",
  "channels-kill",
  "matrix-kill",
  "kill-run",
  "kill-message",
  "kill-random",
  "models",
  "chaos",
  "move",
  "races",
  "disk",
  "offline-brief",
  "setup-faults",
];

/** The longest first, so that none is left to run alone at the end. */
class LongestFirst extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    const isLong = ({ moduleId }: TestSpecification): boolean => LONG.some((name) => moduleId.endsWith(`/flow/${name}.test.ts`));
    const sorted = await super.sort(files);
    return [...sorted.filter(isLong), ...sorted.filter((file) => !isLong(file))];
  }
}

const nodes = {
  test: {
    ...common,
    name: "nodes",
    include: NODES,
    env: { HERALD_TEST_NODES: "2" },
    testTimeout: 120_000,
    hookTimeout: 60_000,
    maxWorkers: workers,
    // Two processes each, and a server: beside the rest they would take the time from tests that kill by the clock.
    sequence: { groupOrder: 2 },
  },
};

export default defineConfig({
  test: {
    sequence: { sequencer: LongestFirst },
    reporters: ["default", new SecondTries()],
    globalSetup: ["test/support/postgres-setup.ts"],
    projects: [
      {
        test: {
          ...common,
          name: "unit",
          include: ["test/unit/**/*.test.ts", "test/*.test.ts"],
          exclude: DEEP,
          isolate: false,
          env: { TMPDIR: quickFolder() },
          maxWorkers: workers,
          sequence: { groupOrder: 0 },
        },
      },
      // Measures what is left of the disk, which everybody else here uses too.
      { test: { ...common, name: "alone", include: ALONE, maxWorkers: 1, testTimeout: 120_000, sequence: { groupOrder: 3 } } },
      {
        test: {
          ...common,
          name: "deep",
          include: DEEP,
          exclude: ALONE,
          isolate: false,
          maxWorkers: workers + 1,
          sequence: { groupOrder: 1 },
        },
      },
      {
        test: {
          ...common,
          name: "flow",
          include: ["test/flow/**/*.test.ts", "test/regressions/**/*.test.ts"],
          exclude: ALONE,
          testTimeout: 120_000,
          // They mostly wait, for processes they started and for the program's own timers.
          maxWorkers: workers + 1,
          sequence: { groupOrder: 1 },
        },
      },
      ...(findPostgres() === null ? [] : [nodes]),
    ],
  },
});
