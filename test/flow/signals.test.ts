// Signals: a graceful stop lets turns finish, a second signal ends at once, and nothing accepted is lost either way.
import { describe, expect, it } from "vitest";
import type { FakeRequest, Script } from "../support/fake-model-server.ts";
import { createFakeOpenAi } from "../support/fake-openai.ts";
import { createHarness } from "../support/harness.ts";
import { runHerald } from "../support/run-herald.ts";
import { scriptedConfig } from "../support/scripted-model.ts";
import { waitFor } from "../support/wait.ts";

const question = (request: FakeRequest): string => request.messages.findLast((message) => message.role === "user")?.text ?? "";

/** A model whose first answer waits for the test, and a gateway that talks to it. */
async function createScene(drainSeconds: number) {
  const door = Promise.withResolvers<Script>();
  let held = true;
  const model = await createFakeOpenAi({
    respond: (request) => {
      if (!held) return { text: `answer to ${question(request)}` };
      return door.promise;
    },
  });
  const herald = await createHarness({ config: scriptedConfig(model.url, {}, { gateway: { drainSeconds } }) });
  return {
    herald,
    model,
    /** Lets the held answer go, and holds none any more. */
    letGo(text: string): void {
      held = false;
      door.resolve({ text });
    },
    async [Symbol.asyncDispose]() {
      try {
        await herald[Symbol.asyncDispose]();
      } finally {
        await model.close();
      }
    },
  };
}

const answers = async (herald: { replies(): Promise<{ text: string }[]> }): Promise<string[]> =>
  (await herald.replies()).map((message) => message.text);

describe("[RN4] a graceful stop", () => {
  it.each(["SIGTERM", "SIGINT"] as const)(
    "[RN4] %s lets the running turn finish, delivers its answer, keeps what waits, and exits 0",
    async (signal) => {
      await using scene = await createScene(20);
      const { herald, model } = scene;
      await herald.say("first");
      await waitFor("the turn", () => model.open === 1);
      await herald.say("second");
      process.kill(herald.pid(), signal);
      await waitFor("the stop", () => herald.output().includes("stopping; a second signal ends at once"));
      // No new input meanwhile: whoever posts is told to come again.
      const late = await herald.request("/api/chats/main/messages", {
        method: "POST",
        body: JSON.stringify({ id: "11111111-2222-4333-8444-555555555555", text: "too late" }),
      });
      expect(late.status).toBe(503);
      scene.letGo("answer to first");
      await herald.exited();
      expect(await answers(herald)).toEqual(["answer to first"]);
      expect(herald.rows("SELECT state FROM outbox")).toEqual([{ state: "sent" }]);
      await herald.restart();
      await herald.reply(/^answer to second$/);
      expect(await answers(herald)).toEqual(["answer to first", "answer to second"]);
      expect(await herald.stop()).toBe(0);
    },
  );

  it("[RN4] a turn that does not finish within drainSeconds is put aside and answered once after the next start", async () => {
    await using scene = await createScene(0);
    const { herald, model } = scene;
    await herald.say("question");
    await waitFor("the turn", () => model.open === 1);
    expect(await herald.stop()).toBe(0);
    await waitFor("the closed request", () => model.calls[0]?.clientClosed === true);
    expect(await answers(herald)).toEqual([]);
    // Put aside by a stop, not by a crash: it doesn't count as an attempt.
    expect(herald.rows("SELECT state, attempts FROM inbox")).toEqual([{ state: "waiting", attempts: 0 }]);
    scene.letGo("unused");
    await herald.restart();
    await herald.reply(/^answer to question$/);
    expect(await answers(herald)).toEqual(["answer to question"]);
  });

  it("[RN4] PROC-006 a second signal ends it at once, and nothing is lost", async () => {
    await using scene = await createScene(60);
    const { herald, model } = scene;
    await herald.say("one");
    await waitFor("the turn", () => model.open === 1);
    await herald.say("two");
    process.kill(herald.pid(), "SIGTERM");
    await waitFor("the stop", () => herald.output().includes("stopping; a second signal ends at once"));
    process.kill(herald.pid(), "SIGINT");
    await herald.exited(5_000);
    scene.letGo("unused");
    await herald.restart();
    await herald.reply(/^answer to two$/);
    expect(await answers(herald)).toEqual(["answer to one", "answer to two"]);
  });

  it("[RN4] sub-agents at work are put aside by a stop and announce once after the next start", async () => {
    let held = true;
    const model = await createFakeOpenAi({
      respond: (request) => {
        if (request.system.includes("You are a sub-agent of")) return held ? { hang: true } : { text: "SUMMARY: forty-two" };
        return request.messages.at(-1)?.role === "tool"
          ? { text: "sent out" }
          : { toolCalls: [{ name: "sessions_spawn", args: { task: "find the answer", label: "answer" } }] };
      },
    });
    await using _model = { [Symbol.asyncDispose]: () => model.close() };
    await using herald = await createHarness({ config: scriptedConfig(model.url, {}, { gateway: { drainSeconds: 0 } }) });
    await herald.say("go");
    await herald.reply(/^sent out$/);
    await waitFor("the child at work", () => model.open === 1);
    expect(await herald.stop()).toBe(0);
    held = false;
    await herald.restart();
    await waitFor("the announcement", async () => (await herald.announcements()).length === 1);
    expect((await herald.announcements())[0]?.text).toMatch(/^Status: success$/m);
    expect(herald.rows("SELECT state, crashes FROM runs")).toEqual([{ state: "done", crashes: 0 }]);
  });
});

describe("[RN4] other signals", () => {
  it("[RN4] PROC-006 whoever read its output may go: it works on, and still stops well", async () => {
    await using herald = runHerald({ config: "{ web: { port: 0 }, models: { probeLocal: false } }" });
    const origin = await herald.ready();
    herald.closeOutput();
    for (let n = 0; n < 5; n++) {
      herald.kill("SIGHUP");
      expect((await fetch(`${origin}/healthz`)).status).toBe(200);
    }
    herald.kill("SIGTERM");
    expect(await herald.ended()).toBe(0);
  });

  it("[RN4] PROC-006 a pause of the whole process changes nothing", async () => {
    await using scene = await createScene(20);
    const { herald, model } = scene;
    await herald.say("before");
    await waitFor("the turn", () => model.open === 1);
    process.kill(herald.pid(), "SIGSTOP");
    scene.letGo("answer to before");
    await new Promise((resolve) => setTimeout(resolve, 300));
    process.kill(herald.pid(), "SIGCONT");
    process.kill(herald.pid(), "SIGPIPE");
    await herald.reply(/^answer to before$/);
    await herald.say("after");
    await herald.reply(/^answer to after$/);
    expect(await answers(herald)).toEqual(["answer to before", "answer to after"]);
    expect(model.calls).toHaveLength(2);
  });
});
