// Whoever is killed a third time over the same message says so instead of answering it: a test that kills at random and expects answers
// lets what was begun twice come to its end first.
import type { Harness } from "./harness.ts";
import { waitFor } from "./wait.ts";

const BEGUN_TWICE = "SELECT 1 FROM inbox WHERE state <> 'done' AND attempts >= 2";

export const beforeKill = (herald: Pick<Harness, "rows">): Promise<unknown> =>
  waitFor("what was killed twice to be answered", () => herald.rows(BEGUN_TWICE).length === 0, 60_000);
