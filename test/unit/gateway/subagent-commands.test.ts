// What is looked up before the transaction of its answer may be another one behind its lock.
import { expect, it } from "vitest";
import type { CommandContext } from "../../../src/gateway/commands.ts";
import type { SubagentCommandDeps } from "../../../src/gateway/subagent-action.ts";
import { createSubagentsCommand } from "../../../src/gateway/subagent-commands.ts";
import { createManualClock } from "../../support/manual-clock.ts";
import { CHAT_KEY } from "../../support/runs.ts";
import { createStage, okReply } from "../../support/stage.ts";

it("[ST2] a run that was sent out between the look at it and the answer to its stop is stopped: nobody is told that there is none", async () => {
  await using stage = await createStage({ clock: createManualClock(), call: async () => okReply("never"), idle: true });
  const { stores, parts } = stage;
  const command = createSubagentsCommand({ ...stores, steering: parts.steering } as unknown as SubagentCommandDeps);
  const answer = await command.run({ args: "stop late", sessionKey: CHAT_KEY } as CommandContext);
  const run = await stage.spawn({ label: "late" });
  const text = await stores.db.transaction([], async (tx) => ("act" in answer ? answer.act(tx) : answer.text));
  expect(text).toMatch(/^⚙️ Stopped 1 sub-agent: "late"/);
  expect(await stage.get(run.id)).toMatchObject({ state: "stopped" });
});
