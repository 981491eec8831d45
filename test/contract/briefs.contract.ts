// Briefs of people and of models in the same moment, whatever database stands behind them. writers.test.ts runs it.
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { createBriefDesk } from "../../src/app/brief-desk.ts";
import { silentLogger } from "../../src/core/logger.ts";
import type { Run } from "../../src/core/run.ts";
import type { BriefDesk } from "../../src/web/briefs.ts";
import { createManualClock } from "../support/manual-clock.ts";
import { CHAT_KEY } from "../support/runs.ts";
import { okReply, type Stage, type StageOptions } from "../support/stage.ts";
import { callTool } from "../support/tool-context.ts";
import { waitFor } from "../support/wait.ts";

const brief = (mission: string) => ({ mission, sharedMemory: [], constraints: [] });

export function briefWriters(makeStage: (options: StageOptions) => Promise<Stage>): void {
  describe("briefs", () => {
    let stage: Stage;
    let desk: BriefDesk;
    beforeEach(async () => {
      stage = await makeStage({
        clock: createManualClock(),
        // At work until the end: somebody reads the brief.
        call: async ({ signal }) => {
          if (!signal.aborted) await new Promise((resolve) => signal.addEventListener("abort", resolve));
          return { ...okReply(""), outcome: "aborted" };
        },
        subagents: { maxChildrenPerSession: 20, maxConcurrent: 20 },
      });
      const { briefing, steering } = stage.parts;
      desk = createBriefDesk({ stores: stage.stores, briefing, steering, log: silentLogger });
    });
    afterEach(async () => {
      const { steering } = stage.parts;
      const runs = await stage.stores.runs.unfinishedBelow(CHAT_KEY);
      await stage.stores.db.transaction(steering.locks(runs), (tx) => steering.stop(tx, runs, "by the test"));
      await waitFor("the lane to be empty", async () => Object.values(await stage.lane.depth()).every((count) => count === 0));
      await stage[Symbol.asyncDispose]();
    });

    const standing = async (run: Run): Promise<string[]> =>
      (await stage.parts.briefing.list(run)).map(({ requesterKey, brief: { mission } }) => `${requesterKey}: ${mission}`);

    it("[WB5][BF3] of ten who change the brief that all of them saw one does, and nine are told", async () => {
      const run = await stage.spawn({ brief: brief("First.") });
      const version = await stage.parts.briefing.version(run);
      const wanted = Array.from({ length: 10 }, (_, n) => ({ version, brief: brief(`Number ${n}.`), replaces: CHAT_KEY }));
      const answers = await Promise.all(wanted.map((request) => desk.give(run.id, request)));
      const first = answers.findIndex((answer) => answer?.status === "taken");
      expect(answers.filter((answer) => answer?.status === "late")).toHaveLength(9);
      expect(await standing(run)).toEqual([`the page: Number ${first}.`]);
      expect(await desk.history(run.id)).toMatchObject({ history: [{ by: "the page" }, { by: CHAT_KEY }] });
    });

    it("[WB5][BF3] a person's and a model's in the same moment: what the model said is never replaced unseen", async () => {
      const agent = stage.agents.find("main");
      const tool = (agent === null ? [] : stage.parts.mainTools(agent)).find(({ name }) => name === "subagents");
      if (tool === undefined) return expect.unreachable();
      for (let turns = 0; turns < 12; turns++) {
        const run = await stage.spawn({ brief: brief("First.") });
        const version = await stage.parts.briefing.version(run);
        const model = async () => {
          for (let turn = 0; turn < turns; turn++) await null;
          return callTool(tool, { action: "brief", ids: [run.id], brief: brief("Anew.") }, { sessionKey: CHAT_KEY });
        };
        const [answer] = await Promise.all([desk.give(run.id, { version, brief: brief("Mine."), replaces: CHAT_KEY }), model()]);
        const own = answer?.status === "taken" ? ["the page: Mine."] : [];
        expect((await standing(run)).sort()).toEqual([`${CHAT_KEY}: Anew.`, ...own].sort());
      }
    });
  });
}
