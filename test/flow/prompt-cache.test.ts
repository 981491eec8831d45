// Requests as the provider received them: each begins with the one before, so that its cache serves all that was sent before.
import { appendFileSync, existsSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, afterEach, beforeAll, describe, expect, it } from "vitest";
import { calls, child, plan, repeated, spawns, whoAsks } from "../support/brain.ts";
import { createFakeAnthropic } from "../support/fake-anthropic.ts";
import { createHarness } from "../support/harness.ts";
import { stableShare, textOf } from "../support/prefix.ts";
import { createScene, type Scene } from "../support/scene.ts";
import { waitFor } from "../support/wait.ts";

type Call = Scene["model"]["calls"][number];

let scene: Scene;
beforeAll(async () => {
  scene = await createScene({ subagents: { maxSpawnDepth: 2 } });
});
afterEach(async () => scene.calm());
afterAll(async () => scene[Symbol.asyncDispose]());

/** Calls of one conversation: those that begin with the same message. What a main session says holds its children's tasks. */
const mainCalls = (word: string): Call[] =>
  scene.model.calls.filter((call) => whoAsks(call) === "main" && call.messages[0]?.text.includes(word));
const childCalls = (word: string): Call[] =>
  scene.model.calls.filter((call) => whoAsks(call) !== "main" && call.messages[0]?.text.includes(word));
const shares = (list: readonly Call[]): number[] => list.slice(1).map((call, n) => stableShare(list[n] as Call, call));

describe("a conversation", () => {
  it("[SE8] of ten turns with spawns, notes, live runs and memory: every request begins with the whole of the one before", async () => {
    const chat = scene.chat();
    await chat.ask("FIRST-OF-TEN");
    for (let n = 0; n < 4; n++) {
      await chat.act([spawns(child(`quick ${n}`, `found ${n}`), child(`slow ${n}`, [{ text: "late", hold: `slow ${n}` }]))]);
      await chat.announced(`quick ${n}`);
      await chat.act([calls(["list", { path: "." }]), calls(["remember", { text: `fact number ${n}` }])]);
      if (n > 0) {
        scene.release(`slow ${n - 1}`);
        await chat.announced(`slow ${n - 1}`);
      }
    }
    await chat.ask("and now?");
    const main = mainCalls("FIRST-OF-TEN");
    expect(main.length).toBeGreaterThan(20);
    expect(new Set(main.map((call) => call.system)).size).toBe(1);
    expect(new Set(main.map((call) => JSON.stringify(call.body.tools))).size).toBe(1);
    expect(shares(main)).toEqual(shares(main).map(() => 1));
    // A single sign beyond Latin-1 in our own words would make all of a request a text of two-byte units (models/http-post.ts).
    const own = `${main[0]?.system}${JSON.stringify(main[0]?.body.tools)}`;
    expect(Buffer.from(own, "latin1").toString("latin1")).toBe(own);

    // What changed is there all the same, fenced, and the question is read last.
    const last = main.at(-1)?.messages.map((message) => message.text) ?? [];
    expect(last.at(-1)).toBe("and now?");
    expect(last.findLast((text) => text.includes("at work; don't spawn"))).toMatch(
      /^\[The gateway, at this moment\.[\s\S]*<untrusted [0-9a-f]{12} from="labels of sub-agents">\n- slow 3 \(run [0-9a-f]{8}\)\n<\/untrusted/,
    );
    expect(last.join("\n")).toContain("fact number 3");
    expect(main[0]?.system).not.toContain("quick");
    for (const call of main.filter((one) => one.messages.at(-1)?.role === "user"))
      expect(call.messages.at(-1)?.text).toMatch(/^(FIRST-OF-TEN|!plan |and now\?)/);
    scene.release("slow 3");
    await chat.announced("slow 3");
  });

  it("[SE8] keeps its prefix over a restart of the gateway", async () => {
    const chat = scene.chat();
    await chat.ask("BEFORE-THE-RESTART");
    await chat.act([calls(["list", { path: "." }])]);
    await scene.herald.crash();
    await scene.herald.restart();
    await chat.ask("and after it?");
    const main = mainCalls("BEFORE-THE-RESTART");
    expect(shares(main)).toEqual(main.slice(1).map(() => 1));
  });

  it("[ME1][SE8] what was remembered since the session began is told behind the history; what a person edits is read anew", async () => {
    const path = join(scene.herald.stateDir, "workspace/memory/AGENT.md");
    appendFileSync(path, "- the ORIGINAL fact\n");
    const chat = scene.chat();
    await chat.act([calls(["remember", { text: "the LATER fact" }])]);
    await chat.ask("one");
    expect(scene.model.calls.at(-1)?.system).toContain("the ORIGINAL fact");
    expect(scene.model.calls.at(-1)?.system).not.toContain("LATER");
    expect(scene.model.calls.at(-1)?.messages.at(-2)?.text).toMatch(
      /^\[The gateway, at this moment\.[\s\S]*\[AGENT MEMORY\][\s\S]*the LATER fact/,
    );
    writeFileSync(path, readFileSync(path, "utf8").replace("ORIGINAL", "EDITED"));
    await chat.ask("two");
    expect(scene.model.calls.at(-1)?.system).toContain("the EDITED fact");
    expect(scene.model.calls.at(-1)?.system).not.toContain("ORIGINAL");
  });
});

describe("a sub-agent", () => {
  const brief = { mission: "Mind the API.", sharedMemory: [], constraints: [] };

  it("[SE8][AN8] each step and the announce step begin with the whole of the request before: prompt, role, brief, tools, history", async () => {
    const chat = scene.chat();
    const work = [
      calls(["list", { path: "." }]),
      calls(["list", { path: "." }], ["list", { path: "." }]),
      { text: "CACHED-CHILD is done" },
    ];
    await chat.act([
      spawns(child("cached", work, { systemPrompt: "You love brevity.", role: "explore", brief, briefing: "CACHED-CHILD" })),
    ]);
    await chat.announced("cached");
    const list = childCalls("CACHED-CHILD");
    expect(list.map(whoAsks)).toEqual(["child", "child", "child", "announce"]);
    expect(shares(list)).toEqual([1, 1, 1]);
    expect(list.at(-1)?.system).toContain("You love brevity.");
    expect(
      list
        .at(-1)
        ?.messages.map((message) => message.text)
        .join("\n"),
    ).toContain("Mind the API.");
  });

  it("[SE8][BF3] a brief given, replaced and revoked in the middle leaves system prompt and tools as they were", async () => {
    const chat = scene.chat();
    const held = (n: number) => ({ ...calls(["list", { path: "." }]), hold: `brief ${n}` });
    await chat.act([spawns(child("rebriefed", [held(1), held(2), held(3), { text: "done" }], { briefing: "REBRIEFED" }))]);
    const step = (n: number) => waitFor(`step ${n}`, () => childCalls("REBRIEFED")[n - 1]);
    const subagents = (action: string, more = {}) => chat.act([calls(["subagents", { action, ids: ["rebriefed"], ...more }])]);
    await step(1);
    await subagents("brief", { brief });
    scene.release("brief 1");
    await step(2);
    await subagents("brief", { brief: { ...brief, mission: "Mind the tests." } });
    scene.release("brief 2");
    await step(3);
    await subagents("revoke");
    scene.release("brief 3");
    const list = [await step(1), await step(2), await step(3), await step(4)];
    expect(new Set(list.map((call) => call.system + JSON.stringify(call.body.tools))).size).toBe(1);
    expect(list.map((call) => /Mind the \w+/.exec(textOf(call))?.[0])).toEqual([undefined, "Mind the API", "Mind the tests", undefined]);
    // Given at the end; where it is taken away the rest moves up.
    expect(list[1]?.messages.at(-1)?.text).toContain("Mind the API.");
    expect(stableShare(list[0] as Call, list[1] as Call)).toBe(1);
    await chat.announced("rebriefed");
  });

  it("[AN8] ANNOUNCE_AS_IS posts the last text whole, without having it written or read again", async () => {
    const chat = scene.chat();
    const line = "A line of the report, as long as it is.\n";
    const task = plan([{ text: `LONG-REPORT begins\n\n${repeated(1_750, line)}\nand here it ends.` }], { text: " ANNOUNCE_AS_IS\n" });
    await chat.act([spawns({ task, label: "as is" })]);
    const posted = await chat.announced("as is");
    expect(posted).toContain("Status: success\n\nResult:\nLONG-REPORT begins\n\nA line");
    expect(posted).not.toContain("ANNOUNCE_AS_IS");
    const [work, announce] = childCalls("LONG-REPORT") as [Call, Call];
    expect(stableShare(work, announce)).toBe(1);
    expect(textOf(announce).length - textOf(work).length).toBeLessThan(line.length * 1_750 * 0.05);
    // The requester can still have all of it.
    await chat.ask(plan([calls(["subagents", { action: "result", ids: ["as is"] }])]));
    expect(scene.model.calls.at(-1)?.messages.at(-1)?.text).toContain("LONG-REPORT begins");
  });

  it("[AN8] as Result it may have notes beside it, and a call in the announce step is not carried out", async () => {
    const chat = scene.chat();
    const noted = plan([{ text: "THE-NOTED words" }], { text: "Result:\nANNOUNCE_AS_IS\n\nNotes:\n- a doubt" });
    const calling = plan([{ text: "THE-CALLING words" }], calls(["write", { path: "never.txt", content: "x" }]));
    await chat.act([spawns({ task: noted, label: "noted" }, { task: calling, label: "calling" })]);
    expect(await chat.announced("noted")).toContain("Result:\nTHE-NOTED words\n\nNotes:\n- a doubt\n");
    expect(await chat.announced("calling")).toContain("Result:\nTHE-CALLING words\n");
    expect(existsSync(join(scene.herald.stateDir, "workspace/never.txt"))).toBe(false);
    expect(childCalls("THE-CALLING").map(whoAsks)).toEqual(["child", "announce"]);
  });
});

it("[SE8] Anthropic is told where caches may end: tools, system prompt, the last message and the one before the last answer", async () => {
  const server = await createFakeAnthropic({
    respond: ({ messages }) => {
      const last = messages.at(-1);
      if (last?.role === "tool") return { text: "listed" };
      return last?.text.startsWith("look") ? { toolCalls: [{ name: "list", args: { path: "." } }] } : { text: `heard ${last?.text}` };
    },
  });
  const providers = { claude: { api: "anthropic", baseUrl: server.url, apiKey: "key-of-a-fake-claude-1", models: [{ id: "c" }] } };
  await using herald = await createHarness({ config: { agents: { defaults: { model: "claude/c" } }, models: { providers } } });
  for (const text of ["hello", "look around", "thanks"]) {
    await herald.say(text);
    await herald.reply(text === "look around" ? /^listed$/ : new RegExp(`heard ${text}`));
  }
  expect(server.calls).toHaveLength(4);
  expect(shares(server.calls)).toEqual([1, 1, 1]);
  const marks = (value: unknown): number => JSON.stringify(value).split('"cache_control"').length - 1;
  for (const { body } of server.calls) {
    expect(marks(body)).toBeLessThanOrEqual(4);
    expect(marks(body.tools)).toBe(1);
    expect(body.tools.at(-1).cache_control).toEqual({ type: "ephemeral" });
    expect(marks(body.system)).toBe(1);
    expect(body.messages.at(-1).content.at(-1).cache_control).toEqual({ type: "ephemeral" });
  }
  // Where the request before ended there is a mark again: its cache is found however many blocks came since.
  const [, second, third] = server.calls;
  const at = (second?.body.messages.length ?? 0) - 1;
  expect(marks(third?.body.messages[at])).toBe(1);
  await server.close();
});
