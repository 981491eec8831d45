// `brief: {fromTurns}` through the real process: what people and the child read of it, and a kill -9 on the way to its run.
import { describe, expect, it } from "vitest";
import { calls, child, createBrain, plan, spawns } from "../support/brain.ts";
import type { Respond } from "../support/fake-model-server.ts";
import { type Chat, createScene, type Scene } from "../support/scene.ts";

const SUMMARY = "Ann wants the cellar painted.\n- The colour is blue.\nEND OF SUMMARY";
const isSummary = ({ system }: { readonly system: string }): boolean => system.startsWith("[BRIEF]");

function summing(): Respond {
  const brain = createBrain();
  return (request, call) => (isSummary(request) ? { text: SUMMARY } : brain.respond(request, call));
}

const summaries = (scene: Scene): number => scene.model.calls.filter(isSummary).length;

async function expectBriefed(scene: Scene, chat: Chat, label: string): Promise<void> {
  expect(await chat.announced(label)).toContain("painted");
  expect(chat.runs()).toHaveLength(1);
  expect(await chat.announcements()).toHaveLength(1);
  const brief = await chat.ask(`/subagents brief ${label}`);
  expect(brief).toContain("Ann wants the cellar painted.");
  expect(brief).toContain("The colour is blue.");
  const [seen] = scene.model.calls.filter(({ system }) => system.startsWith("You are a sub-agent of"));
  expect(JSON.stringify(seen?.body)).toContain("Ann wants the cellar painted.");
}

describe("a brief of the last turns", () => {
  it("[RP3] is in the answer to the spawn, in what people read of it and in what the child reads; a child that is there can be given one too", async () => {
    await using scene = await createScene({ respond: summing() });
    const chat = scene.chat();
    await chat.ask(plan([{ text: "Blue it is." }]));
    const [accepted = ""] = await chat.act([spawns(child("painter", "painted", { brief: { fromTurns: 5 } }))]);
    expect(JSON.parse(accepted)).toMatchObject({ status: "accepted", brief: { mission: "Ann wants the cellar painted." } });
    await expectBriefed(scene, chat, "painter");
    expect(scene.model.calls.find(isSummary)?.messages[0]?.text).toContain("Agent: Blue it is.");
    const [briefed = ""] = await chat.act([calls(["subagents", { action: "brief", ids: ["painter"], brief: { fromTurns: 1 } }])]);
    expect(JSON.parse(briefed)).toMatchObject({ brief: { constraints: ["The colour is blue."] } });
    expect(summaries(scene)).toBe(2);
  });

  it.concurrent.each([
    ["brief.summed-up", 2],
    ["spawn.admitted", 2],
    ["spawn.recorded", 1],
  ] as const)("[RP3][RC1] kill -9 at %s: one run, briefed, announced once", async (failpoint, asked) => {
    await using scene = await createScene({ respond: summing(), failpoint });
    const chat = scene.chat();
    const said = chat.say(plan([spawns(child("painter", "painted", { brief: { fromTurns: 2 } })), { text: "sent" }]));
    await scene.herald.exited();
    await scene.herald.restart();
    await said;
    await scene.herald.reply(/^sent$/, chat.id);
    await expectBriefed(scene, chat, "painter");
    expect(summaries(scene)).toBe(asked);
  });
});
