// Signals: a graceful stop lets turns finish, a second signal ends at once, and nothing accepted is lost either way.
// What a stop does to sub-agents at work stands in subagents-recover.test.ts.
import { randomUUID } from "node:crypto";
import { afterAll, beforeAll, beforeEach, describe, expect, it } from "vitest";
import type { FakeRequest, Script } from "../support/fake-model-server.ts";
import { runHerald } from "../support/run-herald.ts";
import { type Chat, createScene, type Scene } from "../support/scene.ts";
import { waitFor } from "../support/wait.ts";

const question = (request: FakeRequest): string => request.messages.findLast((message) => message.role === "user")?.text ?? "";

/** Every test finds it running, leaves it running, and has a chat of its own. */
let scene: Scene;
/** The first answer of a test waits here; null: none waits any more. */
let door: PromiseWithResolvers<Script> | null = null;
beforeAll(async () => {
  scene = await createScene({
    config: { gateway: { drainSeconds: 60 } },
    respond: (request) => door?.promise ?? { text: `answer to ${question(request)}` },
  });
});
beforeEach(() => {
  door = Promise.withResolvers<Script>();
});
afterAll(async () => scene[Symbol.asyncDispose]());

function letGo(text: string): void {
  door?.resolve({ text });
  door = null;
}

const answers = async (chat: Chat): Promise<string[]> => (await scene.herald.replies(chat.id)).map((message) => message.text);
const answered = (chat: Chat, count: number): Promise<string[]> =>
  waitFor(`${count} answers`, async () => {
    const all = await answers(chat);
    return all.length >= count ? all : null;
  });

async function signal(name: NodeJS.Signals): Promise<void> {
  const { herald } = scene;
  const said = herald.output().length;
  process.kill(herald.pid(), name);
  await waitFor("the stop", () => herald.output().slice(said).includes("stopping; a second signal ends at once"));
}

describe("[RN4] a graceful stop", () => {
  it.each(["SIGTERM", "SIGINT"] as const)(
    "[RN4] %s lets the running turn finish, delivers its answer, keeps what waits, and exits 0",
    async (name) => {
      const { herald, model } = scene;
      const chat = scene.chat();
      await chat.say("first");
      await waitFor("the turn", () => model.open === 1);
      await chat.say("second");
      await signal(name);
      // No new input meanwhile: whoever posts is told to come again.
      const late = await herald.request(`/api/chats/${chat.id}/messages`, {
        method: "POST",
        body: JSON.stringify({ id: randomUUID(), text: "too late" }),
      });
      expect(late.status).toBe(503);
      letGo("answer to first");
      await herald.exited();
      expect(await herald.stop()).toBe(0);
      expect(await answers(chat)).toEqual(["answer to first"]);
      expect(herald.rows("SELECT state FROM outbox WHERE address_key LIKE ?", `%${chat.id}%`)).toEqual([{ state: "sent" }]);
      await herald.restart();
      expect(await answered(chat, 2)).toEqual(["answer to first", "answer to second"]);
    },
  );

  it("[RN4] a turn that does not finish within drainSeconds is put aside and answered once after the next start", async () => {
    await using _settings = await scene.configure({ config: { gateway: { drainSeconds: 0 } } });
    const { herald, model } = scene;
    const chat = scene.chat();
    await chat.say("question");
    await waitFor("the turn", () => model.open === 1);
    expect(await herald.stop()).toBe(0);
    await waitFor("the closed request", () => model.calls.at(-1)?.clientClosed);
    expect(await answers(chat)).toEqual([]);
    // Put aside by a stop, not by a crash: it doesn't count as an attempt.
    expect(herald.rows("SELECT state, attempts FROM inbox ORDER BY id DESC LIMIT 1")).toEqual([{ state: "waiting", attempts: 0 }]);
    letGo("unused");
    await herald.restart();
    expect(await answered(chat, 1)).toEqual(["answer to question"]);
  });

  it("[RN4] PROC-006 a second signal ends it at once, and nothing is lost", async () => {
    const { herald, model } = scene;
    const chat = scene.chat();
    await chat.say("one");
    await waitFor("the turn", () => model.open === 1);
    await chat.say("two");
    await signal("SIGTERM");
    process.kill(herald.pid(), "SIGINT");
    await herald.exited();
    letGo("unused");
    await herald.restart();
    expect(await answered(chat, 2)).toEqual(["answer to one", "answer to two"]);
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
    const { herald, model } = scene;
    const chat = scene.chat();
    const asked = model.calls.length;
    await chat.say("before");
    await waitFor("the turn", () => model.open === 1);
    process.kill(herald.pid(), "SIGSTOP");
    letGo("answer to before");
    await new Promise((resolve) => setTimeout(resolve, 300));
    process.kill(herald.pid(), "SIGCONT");
    process.kill(herald.pid(), "SIGPIPE");
    await answered(chat, 1);
    await chat.say("after");
    expect(await answered(chat, 2)).toEqual(["answer to before", "answer to after"]);
    expect(model.calls.slice(asked)).toHaveLength(2);
  });
});
