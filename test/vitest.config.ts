// Two projects: `unit` is fast and in-process (npm run check), `flow` drives the whole app and real processes.
import { defineConfig } from "vitest/config";

const common = { root: new URL("..", import.meta.url).pathname, environment: "node" as const, testTimeout: 30_000, hookTimeout: 30_000 };

export default defineConfig({
  test: {
    projects: [
      { test: { ...common, name: "unit", include: ["test/unit/**/*.test.ts", "test/contract/**/*.test.ts", "test/*.test.ts"] } },
      {
        test: {
          ...common,
          name: "flow",
          include: ["test/flow/**/*.test.ts", "test/regressions/**/*.test.ts"],
          testTimeout: 120_000,
          maxWorkers: 2,
        },
      },
    ],
  },
});
