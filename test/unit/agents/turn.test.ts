// One turn on a real transcript: model ↔ tools, what is on disk when, and how a turn that lost its process goes on.

import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import { describe, expect, it } from "vitest";
import { z } from "zod";
import { defineTool, type Tool, type ToolContext } from "../../../src/core/tool.ts";
import { user } from "../../contract/transcripts.contract.ts";
import { type Answer, callTools, createTurnRig, say } from "../../support/turn-rig.ts";
import { waitFor } from "../../support/wait.ts";

function countingTool(name: string, more: Partial<Tool> = {}): { tool: Tool; contexts: ToolContext[] } {
  const contexts: ToolContext[] = [];
  const tool = defineTool({
    name,
    description: name,
    schema: z.object({ n: z.number().optional() }),
    capability: "read",
    async run(_args, context) {
      contexts.push(context);
      return { text: `${name} ${contexts.length}` };
    },
  });
  return { tool: { ...tool, ...more }, contexts };
}

setFlagsFromString("--expose-gc");
const collect = runInNewContext("gc") as () => void;
function heapAfterGc(): number {
  collect();
  return process.memoryUsage().heapUsed;
}

const kinds = (entries: readonly { type: string }[]): string[] => entries.map((entry) => entry.type);

describe("a turn", () => {
  it("[AG2] goes from the question over tools to the answer, all of it in the transcript", async () => {
    using rig = await createTurnRig({ answers: [callTools({ name: "look" }), say("the answer")] });
    const look = countingTool("look");
    rig.tools = [look.tool];
    await rig.put(user("question"));
    expect(await rig.run()).toEqual({ outcome: "done", steps: 2, text: "the answer", reason: null, error: null, notice: null });
    expect(kinds(await rig.entries())).toEqual(["message", "message", "tool_call", "tool_result", "message"]);
    expect(rig.requests[0]).toMatchObject({ system: "the system prompt", messages: [{ role: "user", text: "question" }] });
    expect(rig.requests[0]?.tools.map((tool) => tool.name)).toEqual(["look"]);
    expect(rig.requests[1]?.messages.at(-1)).toEqual({ role: "tool", callId: "call-look", name: "look", text: "look 1", isError: false });
    expect(look.contexts[0]).toMatchObject({ agentId: "main", turnId: "turn:1", callId: (await rig.entries())[2]?.id, runId: null });
    expect(rig.doing).toEqual(["thinking", "look", "thinking"]);
  });

  it("[AG1] a step that may not be paid for is not made, and the turn ends with the reason; so it is with a summary", async () => {
    const error = { kind: "refused", message: "The budget of today is used up." } as const;
    using rig = await createTurnRig({ answers: [async () => ({ outcome: "error" as const, error })] });
    await rig.put(user("question"));
    const purse = { open: async () => expect.unreachable() };
    const end = await rig.run({ account: { purse, async settle() {} }, fallbacks: ["test/other"] });
    expect(end).toMatchObject({ outcome: "error", reason: "The budget of today is used up.", error: { kind: "refused" } });
    // Whoever makes the call asks the purse, before each of its tries.
    expect(rig.requests).toMatchObject([{ purse }]);
  });

  it("[ST2] ended elsewhere: no further step is begun", async () => {
    using rig = await createTurnRig({ answers: [callTools({ name: "look" }), say("never")] });
    rig.tools = [countingTool("look").tool];
    await rig.put(user("question"));
    expect(await rig.run({ onStep: async (step) => step < 2 })).toMatchObject({ outcome: "aborted" });
    expect(rig.requests).toHaveLength(1);
  });

  it("[SE2] each step is on disk before the next one starts", async () => {
    const seen: string[] = [];
    using rig = await createTurnRig({
      answers: [callTools({ name: "look" }), say("end")],
      onFailpoint: (name) => seen.push(`${name}: ${rig.countOnDisk()}`),
    });
    rig.tools = [countingTool("look").tool];
    await rig.put(user("question"));
    await rig.run();
    expect(seen).toEqual([
      "turn.before-model: 1",
      "turn.reply-appended: 3",
      "turn.before-tool: 3",
      "turn.after-tool: 3",
      "turn.result-appended: 4",
      "turn.before-model: 4",
      "turn.reply-appended: 5",
    ]);
  });

  it("[AG4] streamed text, retries and fallbacks are told while it runs", async () => {
    const answer: Answer = (_request, onEvent) => {
      onEvent({ type: "text", text: "Hel" });
      onEvent({ type: "retry", model: "test/model", reason: "overloaded", afterMs: 10 });
      onEvent({ type: "fallback", from: "test/model", to: "test/other", reason: "overloaded" });
      onEvent({ type: "text", text: "Hello" });
      return { text: "Hello" };
    };
    using rig = await createTurnRig({ answers: [answer] });
    await rig.put(user("hi"));
    await rig.run();
    expect(rig.texts).toEqual(["Hel", "Hello"]);
    expect(rig.doing).toEqual(["thinking", "waiting for test/model (overloaded)", "switched from test/model to test/other (overloaded)"]);
  });

  it("[AG3] a model failure ends it with the model's sentence; what was said so far is kept as partial", async () => {
    using rig = await createTurnRig({
      answers: [() => ({ outcome: "error", text: "I was about", error: { kind: "rate", message: "The provider is busy." } })],
    });
    await rig.put(user("hi"));
    expect(await rig.run()).toMatchObject({ outcome: "error", reason: "The provider is busy.", text: "I was about" });
    expect((await rig.entries()).at(-1)).toMatchObject({ text: "I was about", partial: true, calls: 0 });
  });

  it("[AG2] the iteration cap ends it with what there is, and says so", async () => {
    let n = 0;
    using rig = await createTurnRig({
      answers: [() => ({ text: `step ${++n}`, toolCalls: [{ id: `c${n}`, name: "look", args: { n } }], finish: "tool-calls" })],
    });
    rig.tools = [countingTool("look").tool];
    await rig.put(user("hi"));
    expect(await rig.run({ maxIterations: 3 })).toMatchObject({
      outcome: "capped",
      text: "step 3",
      reason: "it reached its limit of 3 steps",
    });
    expect(rig.requests).toHaveLength(3);
  });

  it("[AG2] PROV-010 the same calls with the same results five times in a row lead nowhere", async () => {
    using rig = await createTurnRig({ answers: [callTools({ name: "look", args: { n: 1 } })] });
    rig.tools = [{ ...countingTool("look").tool, run: async () => ({ text: "nothing new" }) }];
    await rig.put(user("hi"));
    expect(await rig.run({ maxIterations: 50 })).toMatchObject({
      outcome: "capped",
      reason: expect.stringMatching(/repeated the same tool call/),
    });
    expect(rig.requests).toHaveLength(5);
  });

  it("[AG2] the same call with new results is no loop", async () => {
    const answers = [...Array.from({ length: 8 }, () => callTools({ name: "look", args: {} })), say("done")];
    using rig = await createTurnRig({ answers });
    rig.tools = [countingTool("look").tool];
    await rig.put(user("hi"));
    expect((await rig.run()).outcome).toBe("done");
  });

  it("[AG2] PROV-013 an answer cut at the model's length limit is not taken for a whole one", async () => {
    using rig = await createTurnRig({ answers: [() => ({ text: "and then", finish: "length" })] });
    await rig.put(user("hi"));
    expect(await rig.run()).toMatchObject({ outcome: "capped", text: "and then", reason: expect.stringMatching(/length limit/) });
  });

  it.each(["length", "filter"] as const)(
    "[AG2][RC1] nor is it when the process ended before that was recorded (%s), unless somebody wrote since",
    async (finish) => {
      using rig = await createTurnRig({ answers: [() => ({ text: "and then", finish }), say("they lived happily")] });
      await rig.put(user("hi"));
      const first = await rig.run();
      expect(await rig.run({ stepsUsed: 1 })).toEqual(first);
      expect(first.outcome).toBe("capped");
      expect(rig.requests).toHaveLength(1);
      const entries = [user("go on")];
      const mail = async () => ({ entries: [...entries], commit: async () => void entries.splice(0) });
      // A main session answers nobody's mail: what stands there is for its next turn.
      expect(await rig.run({ mail, stepsUsed: 1 })).toEqual(first);
      expect(entries).toHaveLength(1);
      expect(await rig.run({ mail, news: async () => (entries.length > 0 ? "mail" : "over") })).toMatchObject({
        outcome: "done",
        text: "they lived happily",
      });
    },
  );

  it("[AG3] call ids that a provider repeats are made unique, in one answer and over the session", async () => {
    const twice = callTools({ name: "look", id: "1", args: { n: 1 } }, { name: "look", id: "1", args: { n: 2 } });
    using rig = await createTurnRig({ answers: [twice, twice, say("done")] });
    const look = countingTool("look");
    rig.tools = [look.tool];
    await rig.put(user("hi"));
    await rig.run();
    const tools = rig.requests[2]?.messages.flatMap((message) => (message.role === "tool" ? [[message.callId, message.text]] : []));
    expect(tools).toEqual([
      ["1", "look 1"],
      ["1-2", "look 2"],
      ["1-3", "look 3"],
      ["1-4", "look 4"],
    ]);
  });

  it("[SP2] an id that a provider counts from 1 again after a compaction names another call", async () => {
    let steps = 0;
    const answer: Answer = (request, onEvent) => {
      if (request.system.includes("[COMPACTION]")) return { text: "they looked" };
      return ++steps > 6 ? { text: "done" } : callTools({ name: "look", id: "call_1", args: { n: steps } })(request, onEvent);
    };
    using rig = await createTurnRig({ answers: [answer], contextWindow: 2_000 });
    const look = countingTool("look");
    rig.tools = [{ ...look.tool, run: async (...given) => ({ text: `${(await look.tool.run(...given)).text} ${"x".repeat(3_000)}` }) }];
    await rig.put(user("hi"));
    expect((await rig.run()).outcome).toBe("done");
    expect((await rig.entries()).filter((entry) => entry.type === "compaction").length).toBeGreaterThan(1);
    expect(new Set(look.contexts.map((context) => context.callId)).size).toBe(6);
  });

  it("[AG2] an earlier turn's answer is not given again when this one says nothing", async () => {
    const paris = { type: "message", role: "assistant", text: "Paris.", model: "test/model", calls: 0 } as const;
    using silent = await createTurnRig({ answers: [say("")] });
    await silent.put(user("The capital of France?"), paris, user("And of Peru?"));
    expect(await silent.run()).toMatchObject({ outcome: "done", text: "" });

    using circling = await createTurnRig({ answers: [callTools({ name: "look" })] });
    circling.tools = [{ ...countingTool("look").tool, run: async () => ({ text: "nothing new" }) }];
    await circling.put(user("The capital of France?"), paris, user("And of Peru?"));
    expect(await circling.run({ maxIterations: 50 })).toMatchObject({ outcome: "capped", text: "" });

    using failing = await createTurnRig({ answers: [() => ({ outcome: "error", error: { kind: "rate", message: "busy" } })] });
    await failing.put(user("The capital of France?"), paris, user("And of Peru?"));
    expect(await failing.run()).toMatchObject({ outcome: "error", text: "" });
  });

  it("[AG2] what was said before the calls is the answer when nothing follows them, also when the question was summed up", async () => {
    let steps = 0;
    const answer: Answer = (request) => {
      if (request.system.includes("[COMPACTION]")) return { text: "they asked" };
      return ++steps > 1 ? {} : { text: "It is Lima.", toolCalls: [{ id: "c1", name: "look", args: {} }], finish: "tool-calls" };
    };
    using rig = await createTurnRig({ answers: [answer], contextWindow: 2_000 });
    rig.tools = [{ ...countingTool("look").tool, run: async () => ({ text: "x".repeat(5_000) }) }];
    await rig.put(user(`The capital of France? ${"x".repeat(1_500)}`), user("And of Peru?"));
    expect(await rig.run()).toMatchObject({ outcome: "done", text: "It is Lima." });
    expect(rig.requests.at(-1)?.messages.map((message) => message.role)).toEqual(["user", "assistant", "tool"]);
    expect(rig.requests.at(-1)?.messages[0]?.text).toMatch(/they asked$/);
  });

  it("[AG3] sixty results of a megabyte are let go one by one, not held until the turn ends", async () => {
    let steps = 0;
    // Below no limit until it is measured; other tests' rubbish may well go meanwhile and leave less than there was.
    let heldBytes = Number.NaN;
    const answer: Answer = () => {
      if (++steps <= 6)
        return { toolCalls: Array.from({ length: 10 }, (_, n) => ({ id: `${steps}-${n}`, name: "look", args: { n: steps * 10 + n } })) };
      heldBytes = heapAfterGc() - before;
      return { text: "done" };
    };
    using rig = await createTurnRig({ answers: [answer], contextWindow: 20_000 });
    // Not repeat(): that would be one string, however often it is read.
    rig.tools = [{ ...countingTool("look").tool, run: async () => ({ text: Buffer.alloc(1_000_000, 120).toString("latin1") }) }];
    await rig.put(user("look sixty times"));
    const before = heapAfterGc();
    expect(await rig.run({ maxIterations: 30 })).toMatchObject({ outcome: "done" });
    expect(heldBytes).toBeLessThan(15_000_000);
  });

  it("[AN5] control characters of a model don't reach the transcript", async () => {
    using rig = await createTurnRig({ answers: [say("a\u0000b\u001b[31mc\ud800d\r\ne")] });
    await rig.put(user("hi"));
    expect((await rig.run()).text).toBe("ab[31mc\ufffdd\ne");
  });

  it("[SE6] a full window is summed up before the model is called, and the turn goes on with the summary", async () => {
    const answer: Answer = (request) => (request.system.includes("[COMPACTION]") ? { text: "they talked" } : { text: "the answer" });
    using rig = await createTurnRig({ answers: [answer], contextWindow: 2_000 });
    for (let n = 0; n < 20; n++) await rig.put(user(`message ${n} ${"x".repeat(200)}`));
    await rig.put(user("the question"));
    expect(await rig.run()).toMatchObject({ outcome: "done", text: "the answer" });
    expect(rig.requests).toHaveLength(2);
    expect(rig.requests[1]?.messages[0]).toEqual({ role: "user", text: "[Summary of the earlier conversation]\nthey talked" });
    expect(rig.requests[1]?.messages.at(-1)).toEqual({ role: "user", text: "the question" });
    expect(await rig.entries()).toHaveLength(23);
  });

  it("[RC4] a disk that refuses throws to the caller, and nothing half done is left", async () => {
    using rig = await createTurnRig({ answers: [say("x")] });
    await rig.put(user("hi"));
    const { transcripts } = rig.folder.stores;
    await transcripts.archive(rig.ref, `${rig.ref.sessionId}.jsonl.deleted.x`);
    await expect(rig.run()).rejects.toThrow(/ENOENT/);
    expect(rig.requests).toEqual([]);
  });
});

describe("mail", () => {
  it("[CM7] is read between steps, once, and committed after it is in the transcript", async () => {
    using rig = await createTurnRig({ answers: [callTools({ name: "look" }), say("done")] });
    rig.tools = [countingTool("look").tool];
    await rig.put(user("task"));
    const box = [user("also mind this", "mail:1")];
    const commits: number[] = [];
    await rig.run({
      mail: async () => ({
        entries: rig.requests.length === 1 ? box : [],
        commit: async () => {
          commits.push((await rig.entries()).filter((entry) => entry.id === "mail:1").length);
          box.length = 0;
        },
      }),
    });
    expect(commits).toEqual([1]);
    expect(rig.requests[0]?.messages).toHaveLength(1);
    expect(rig.requests[1]?.messages.at(-1)).toEqual({ role: "user", text: "also mind this" });
  });

  it("[RC1] what was appended before a crash is only marked, not told twice", async () => {
    using rig = await createTurnRig({ answers: [say("done")] });
    await rig.put(user("task"), user("also mind this", "mail:1"));
    let committed = 0;
    const box = [user("also mind this", "mail:1")];
    await rig.run({
      mail: async () => ({
        entries: [...box],
        commit: async () => {
          committed++;
          box.length = 0;
        },
      }),
    });
    expect(committed).toBe(1);
    expect(rig.requests[0]?.messages.filter((message) => message.text === "also mind this")).toHaveLength(1);
  });

  it("[SP5] a turn with children waits for them and reads what they say before it ends", async () => {
    using rig = await createTurnRig({ answers: [say("sent out"), say("all reported")] });
    await rig.put(user("task"));
    let news: ReturnType<typeof user>[] = [];
    const end = await rig.run({
      mail: async () => ({
        entries: news,
        commit: async () => {
          news = [];
        },
      }),
      news: async () => {
        if (rig.requests.length !== 1) return "over";
        news = [user("[child] 42", "note:1")];
        return "mail";
      },
    });
    expect(end.text).toBe("all reported");
    expect(rig.requests[1]?.messages.at(-1)?.text).toBe("[child] 42");
  });
});

describe("taking up a turn after a crash", () => {
  const assistant = (text: string, calls: number, partial = false) =>
    ({ type: "message", role: "assistant", text, model: "test/model", calls, ...(partial ? { partial } : {}) }) as const;
  const call = (callId: string, name = "look") => ({ type: "tool_call", callId, name, args: {} }) as const;

  it("[RC1] an answer on record is given again without asking the model", async () => {
    using rig = await createTurnRig({ answers: [say("another answer")] });
    await rig.put(user("hi"), assistant("the answer", 0));
    expect(await rig.run()).toMatchObject({ outcome: "done", text: "the answer" });
    expect(rig.requests).toEqual([]);
    expect(await rig.entries()).toHaveLength(2);
  });

  it("[RC2] an open call gets a result that says the outcome is unknown; the tool is not run again", async () => {
    using rig = await createTurnRig({ answers: [say("I'll check first")] });
    const look = countingTool("look");
    rig.tools = [look.tool];
    await rig.put(user("hi"), assistant("", 1), call("c1"));
    expect((await rig.run()).outcome).toBe("done");
    expect(look.contexts).toEqual([]);
    expect(rig.requests[0]?.messages.at(-1)).toMatchObject({
      role: "tool",
      callId: "c1",
      isError: true,
      text: expect.stringMatching(/restarted.*unknown/),
    });
  });

  it("[SP2] a repeatable tool is called again under the same turn and call id", async () => {
    using rig = await createTurnRig({ answers: [say("done")] });
    const look = countingTool("look", { repeatable: true });
    rig.tools = [look.tool];
    await rig.put(user("hi"), assistant("", 2), call("c1"), call("c2"), {
      type: "tool_result",
      callId: "c1",
      name: "look",
      text: "first",
      isError: false,
    });
    await rig.run();
    expect(look.contexts.map((context) => [context.turnId, context.callId])).toEqual([["turn:1", (await rig.entries())[3]?.id]]);
    expect(rig.requests[0]?.messages.slice(-2).map((message) => message.text)).toEqual(["first", "look 1"]);
  });

  it("[SP2] a call that was carried out but whose result is lost is made again as the same call", async () => {
    const crash = new Error("the process is gone");
    let isDead = false;
    using rig = await createTurnRig({
      answers: [callTools({ name: "look" }), say("done")],
      onFailpoint(name) {
        if (name !== "turn.after-tool" || isDead) return;
        isDead = true;
        throw crash;
      },
    });
    const look = countingTool("look", { repeatable: true });
    rig.tools = [look.tool];
    await rig.put(user("hi"));
    await expect(rig.run()).rejects.toBe(crash);
    expect((await rig.run()).text).toBe("done");
    expect(look.contexts).toHaveLength(2);
    expect(look.contexts[1]?.callId).toBe(look.contexts[0]?.callId);
  });

  it("[RC2] half an answer is told to the model, and it goes on from there", async () => {
    using rig = await createTurnRig({ answers: [say("the rest")] });
    await rig.put(user("hi"), assistant("half an ans", 0, true));
    expect(await rig.run()).toMatchObject({ outcome: "done", text: "the rest" });
    expect(rig.requests[0]?.messages.at(-1)?.text).toMatch(/gateway restarted in the middle/);
  });
});

describe("abort", () => {
  it("[ST2] before it begins: nothing is called at all", async () => {
    using rig = await createTurnRig({ answers: [say("x")] });
    await rig.put(user("hi"));
    rig.abort.abort();
    expect((await rig.run()).outcome).toBe("aborted");
    expect(rig.requests).toEqual([]);
  });

  it("[ST2] while the prompt is built: the model is not called", async () => {
    using rig = await createTurnRig({ answers: [say("x")] });
    await rig.put(user("hi"));
    const end = await rig.run({
      prompt: async () => {
        rig.abort.abort();
        return { system: "", topics: [] };
      },
    });
    expect(end.outcome).toBe("aborted");
    expect(rig.requests).toEqual([]);
  });

  it("[LN3] a tool that hangs and ignores its signal doesn't hold the turn, and no later call starts", async () => {
    using rig = await createTurnRig({ answers: [callTools({ name: "hang" }, { name: "after" })] });
    const after = countingTool("after", { capability: "write" });
    let hangs = false;
    const hang = countingTool("hang", {
      capability: "exec",
      run: () => {
        hangs = true;
        return new Promise(() => {});
      },
    });
    rig.tools = [hang.tool, after.tool];
    await rig.put(user("hi"));
    const end = rig.run();
    await waitFor("the tool", () => hangs);
    rig.abort.abort("stop");
    expect((await end).outcome).toBe("aborted");
    expect(after.contexts).toEqual([]);
    const results = (await rig.entries()).flatMap((entry) => (entry.type === "tool_result" ? [entry.text] : []));
    expect(results).toEqual(["Stopped while it ran: stopped by the person.", "Not started: stopped by the person."]);
  });

  it("[SP8] what the model said before the abort is kept as partial", async () => {
    using rig = await createTurnRig({ answers: [() => ({ outcome: "aborted", text: "so far" })] });
    await rig.put(user("hi"));
    expect(await rig.run()).toMatchObject({ outcome: "aborted", text: "so far" });
    expect((await rig.entries()).at(-1)).toMatchObject({ partial: true, text: "so far" });
  });
});
