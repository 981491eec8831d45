// Three projects: `unit` is quick and in-process (npm run check), `deep` has real servers, programs, the sandbox and long
// property tests, `flow` drives the whole program as a process. `npm test` runs all of them.
import { defineConfig } from "vitest/config";

const root = new URL("..", import.meta.url).pathname;
const common = { root, environment: "node" as const, testTimeout: 30_000, hookTimeout: 30_000 };

const DEEP = [
  "test/contract/{slack,telegram}.test.ts",
  "test/unit/{tools,web}/**/*.test.ts",
  "test/unit/channels/{slack,telegram}-*.test.ts",
  "test/unit/models/{ai-sdk-faults,credentials,resolve}.test.ts",
  "test/unit/config/{config,watch}.test.ts",
  "test/unit/brief/{document,trace,brief}.test.ts",
  "test/unit/channels/{markdown,split}.test.ts",
  "test/bad-inputs/*.test.ts",
  "test/property/*.test.ts",
];

export default defineConfig({
  test: {
    projects: [
      {
        test: {
          ...common,
          name: "unit",
          include: ["test/unit/**/*.test.ts", "test/contract/**/*.test.ts", "test/*.test.ts"],
          exclude: DEEP,
          // Nothing in these files outlives its test, so they can share their workers.
          isolate: false,
          sequence: { groupOrder: 0 },
        },
      },
      { test: { ...common, name: "deep", include: DEEP, sequence: { groupOrder: 1 } } },
      {
        test: {
          ...common,
          name: "flow",
          include: ["test/flow/**/*.test.ts", "test/regressions/**/*.test.ts"],
          testTimeout: 120_000,
          // They mostly wait for processes they started.
          maxWorkers: 3,
          sequence: { groupOrder: 2 },
        },
      },
    ],
  },
});
