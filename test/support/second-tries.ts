// Names the tests that passed only at their second try (CI): a deadline that passes once on a busy machine is no finding, one that
// does so again and again is, and nobody would see it otherwise.
import type { Reporter, TestModule } from "vitest/node";

export class SecondTries implements Reporter {
  onTestRunEnd(modules: readonly TestModule[]): void {
    for (const module of modules) {
      for (const test of module.children.allTests("passed")) {
        if ((test.diagnostic()?.retryCount ?? 0) > 0)
          console.log(`passed at the second try: ${module.relativeModuleId} > ${test.fullName}`);
      }
    }
  }
}
