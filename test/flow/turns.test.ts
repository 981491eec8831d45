// Turns through the whole program: order, parallelism, failures, what the page shows meanwhile, sessions, access to what
// the model sees. The model is a scripted server behind the real library, or the built-in offline model.
import { randomUUID } from "node:crypto";
import { mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { openEvents } from "../support/event-stream.ts";
import type { FakeRequest, Respond, Script } from "../support/fake-model-server.ts";
import { createHarness } from "../support/harness.ts";
import { type Chat, createScene, type Scene } from "../support/scene.ts";
import { waitFor } from "../support/wait.ts";

/** Each test has a chat of its own and its own way of answering. */
let scene: Scene;
let respond: Respond = () => ({ text: "nothing was asked" });
beforeAll(async () => {
  scene = await createScene({
    mainConcurrent: 2,
    config: { logging: { level: "debug" } },
    respond: (request, call) => respond(request, call),
  });
});
afterAll(async () => scene[Symbol.asyncDispose]());

/** The model's calls from now on. */
function newCalls(): () => Scene["model"]["calls"] {
  const before = scene.model.calls.length;
  return () => scene.model.calls.slice(before);
}

const isChild = (request: FakeRequest): boolean => request.system.includes("You are a sub-agent of");
const question = (request: FakeRequest): string => request.messages.findLast((message) => message.role === "user")?.text ?? "";
const lastResult = (request: FakeRequest): string | null => {
  const last = request.messages.at(-1);
  return last?.role === "tool" ? last.text : null;
};

/** Answers wait until the test lets them go. */
function createDoors() {
  const doors = new Map<string, PromiseWithResolvers<Script>>();
  const door = (text: string): PromiseWithResolvers<Script> => {
    const known = doors.get(text) ?? Promise.withResolvers<Script>();
    doors.set(text, known);
    return known;
  };
  return {
    respond: (request: FakeRequest): Promise<Script> => door(question(request)).promise,
    let: (text: string, script: Script = { text: `answer to ${text}` }): void => door(text).resolve(script),
  };
}

/** The transcript of the chat's present session. */
function transcriptOf(chat: Chat): string {
  const [session] = scene.herald.rows<{ id: string }>("SELECT id FROM sessions WHERE key = ? AND ended_at IS NULL", chat.key);
  return readFileSync(join(scene.herald.stateDir, "agents/main/sessions", `${session?.id}.jsonl`), "utf8");
}

describe("order and parallelism", () => {
  it("[AG1] one turn at a time per session, in order; sessions in parallel up to maxConcurrent; commands never wait", async () => {
    const doors = createDoors();
    respond = doors.respond;
    const { model } = scene;
    const asked = newCalls();
    const [a, b, c] = [scene.chat(), scene.chat(), scene.chat()];
    await a.say("a1");
    await waitFor("the first turn", () => asked().length === 1);
    await a.say("a2");
    await a.say("a3");
    await b.say("b1");
    await waitFor("two turns at once", () => model.open === 2);
    await c.say("c1");
    // Both places are taken, and a command is answered all the same, in the busy chat too.
    expect(await a.ask("/status")).toMatch(/main 2 running, 1 waiting/);
    expect(asked().map(question).sort()).toEqual(["a1", "b1"]);

    const answers = async (chat: Chat): Promise<string[]> =>
      (await scene.herald.replies(chat.id)).map((message) => message.text).filter((text) => text.startsWith("answer"));
    for (const text of ["c1", "b1", "a2", "a3"]) doors.let(text);
    await waitFor("the others' answers", async () => [...(await answers(b)), ...(await answers(c))].length === 2);
    expect(await answers(a)).toEqual([]);
    doors.let("a1");
    await waitFor("all answers", async () => (await answers(a)).length === 3);
    expect(await answers(a)).toEqual(["answer to a1", "answer to a2", "answer to a3"]);
    expect([await answers(b), await answers(c)]).toEqual([["answer to b1"], ["answer to c1"]]);
    // Each turn saw the answers of those before it.
    const last = asked().find((call) => question(call) === "a3");
    expect(last?.messages.map((message) => message.text)).toEqual(["a1", "answer to a1", "a2", "answer to a2", "a3"]);
  });

  it("[LN3] a turn that hangs past its timeout gives its slot back; the chat is told and the next one is answered", async () => {
    await using _settings = await scene.configure({ mainConcurrent: 1, defaults: { timeoutSeconds: 4 } });
    respond = (request) => (question(request) === "hang" ? { hang: true } : { text: "quick answer" });
    const asked = newCalls();
    const [stuck, next] = [scene.chat(), scene.chat()];
    const told = stuck.ask("hang");
    await waitFor("the hanging turn", () => scene.model.open === 1);
    expect(await next.ask("next")).toBe("quick answer");
    expect(await told).toMatch(/^⚠️ The turn was ended after 4 s \(agents\.defaults\.timeoutSeconds\)/);
    await waitFor("the provider to hear of it", () => asked()[0]?.clientClosed === true);
  });
});

describe("a turn", () => {
  it("[AG2] history, prompt, model ↔ tools, transcript, reply; the person's words are on disk before the model is called", async () => {
    const chat = scene.chat();
    let onDisk = "";
    respond = (request) => {
      if (lastResult(request) !== null) return { text: `it says: ${lastResult(request)}`, usage: { input: 10, output: 2 } };
      onDisk = transcriptOf(chat);
      return { text: "let me look", toolCalls: [{ name: "read", args: { path: "notes.txt" } }] };
    };
    const asked = newCalls();
    writeFileSync(join(scene.herald.stateDir, "workspace/notes.txt"), "remember the milk\n");
    expect(await chat.ask("what do my notes say?")).toMatch(/it says:[\s\S]*remember the milk/);
    expect(onDisk).toContain('"text":"what do my notes say?"');
    const [header, ...entries] = transcriptOf(chat)
      .trimEnd()
      .split("\n")
      .map((line) => JSON.parse(line));
    expect(header).toMatchObject({ type: "session", version: 1, key: chat.key, parent: null });
    expect(entries.map((entry) => entry.type)).toEqual(["message", "message", "tool_call", "tool_result", "message"]);
    entries.slice(1).forEach((entry, n) => {
      expect(entry.parentId).toBe(entries[n].id);
    });
    expect(asked()[0]?.model).toBe("model-1");
    expect(asked()[0]?.tools).toEqual(expect.arrayContaining(["read", "write", "sessions_spawn"]));
  });

  it("[AG3] an unknown tool and bad arguments are results the model can read, naming what is accepted", async () => {
    const steps: Script[] = [
      { toolCalls: [{ name: "reed", args: {} }] },
      { toolCalls: [{ name: "read", args: { file: "x" } }] },
      { toolCalls: [{ name: "read", args: "{broken" }] },
      { toolCalls: [{ name: "read", args: { path: "missing.txt" } }] },
    ];
    const results: string[] = [];
    let n = 0;
    respond = (request) => {
      const result = lastResult(request);
      if (result !== null) results.push(result);
      return steps[n++] ?? { text: "I see" };
    };
    expect(await scene.chat().ask("try")).toBe("I see");
    expect(results[0]).toMatch(/There is no tool "reed".*: .*\bread\b/);
    expect(results[1]).toMatch(/Bad arguments for read:[\s\S]*Accepted: .*path \(required\)/);
    expect(results[2]).toMatch(/JSON/);
    expect(results[3]).toMatch(/missing\.txt/);
  });

  it("[AG3] a model failure is one clear sentence in the chat, without the key, and the next message works", async () => {
    const chat = scene.chat();
    const asked = newCalls();
    respond = () => ({ status: 401, message: "Incorrect API key provided: scripted-key-0123456789" });
    const text = await chat.ask("hi");
    expect(text).toMatch(/^⚠️ .+$/);
    expect(text).not.toContain("scripted-key");
    expect(asked()).toHaveLength(1);
    respond = () => ({ text: "back again" });
    expect(await chat.ask("hi again")).toBe("back again");
  });

  it("[AG4] the page hears that a turn works and what it writes, then the answer, with a cursor", async () => {
    const doors = createDoors();
    respond = doors.respond;
    const chat = scene.chat();
    await using stream = await openEvents(scene.herald, `chat=${chat.id}`);
    await chat.say("tell me");
    await waitFor("the working sign", () => stream.of("working").some((one) => one.data.working === true));
    doors.let("tell me", { pieces: ["Once ", "upon ", "a ", "time"] });
    await waitFor("the answer", () => stream.of("message").some((one) => one.data.author === "agent"));
    await waitFor("rest", () => stream.of("working").at(-1)?.data.working === false);
    const messages = stream.of("message");
    expect(messages.map((one) => one.data.author)).toEqual(["user", "agent"]);
    expect(messages.map((one) => Number(one.id))).toEqual(messages.map((one) => one.data.seq));
    // What is written is shown while it is written.
    doors.let("a long one", { text: "Once upon a time", hang: "after-text" });
    await chat.say("a long one");
    await waitFor("the draft", () => stream.of("draft").some((one) => String(one.data?.html).includes("Once")));
    await chat.say("/stop");
    await waitFor("the end", () => stream.of("message").length === 5 && stream.of("working").at(-1)?.data.working === false);
    // A reconnect with the cursor replays what was missed and nothing else.
    await using again = await openEvents(scene.herald, `chat=${chat.id}&cursor=${messages[0]?.id}`);
    await waitFor("the replay", () => again.of("message").length === 4);
    expect(again.of("message").map((one) => one.data.author)).toEqual(["agent", "user", "user", "agent"]);
  });

  it("[AG5] a main session sees the workspace's five files, a sub-agent only AGENTS.md and TOOLS.md", async () => {
    respond = (request) => {
      if (isChild(request)) return { text: "SUMMARY: done" };
      return lastResult(request) === null
        ? { toolCalls: [{ name: "sessions_spawn", args: { task: "count to three", label: "counting" } }] }
        : { text: "sent out" };
    };
    const chat = scene.chat();
    const asked = newCalls();
    const names = ["AGENTS.md", "TOOLS.md", "SOUL.md", "IDENTITY.md", "USER.md"];
    const paths = names.map((name) => join(scene.herald.stateDir, "workspace", name));
    for (const [n, path] of paths.entries()) writeFileSync(path, `words of ${names[n]}\n${"x".repeat(100_000)}`);
    await chat.ask("send one out");
    await chat.announced("counting");
    for (const path of paths) rmSync(path);
    const seen = (system: string): string[] => names.filter((name) => system.includes(`words of ${name}`));
    const main = asked().find((call) => !isChild(call));
    const child = asked().find(isChild);
    expect(seen(main?.system ?? "")).toEqual(names);
    expect(seen(child?.system ?? "")).toEqual(["AGENTS.md", "TOOLS.md"]);
    // Each is capped in size.
    expect(main?.system.length).toBeLessThan(150_000);
  });
});

describe("arrival", () => {
  it("[RC3][SE4] the same post twice, also over a restart, is one message and one turn; another text under its id is refused; the talk goes on", async () => {
    respond = (request) => ({ text: `answer to ${question(request)}` });
    const { herald } = scene;
    const chat = scene.chat();
    const asked = newCalls();
    const id = randomUUID();
    const once = () => herald.say("once", { id, chat: chat.id });
    await Promise.all([once(), once(), once()]);
    await herald.reply(/^answer to once$/, chat.id);
    const post = (text: string) => herald.request(`/api/chats/${chat.id}/messages`, { method: "POST", body: JSON.stringify({ id, text }) });
    const again = await post("once");
    expect([again.status, await again.json()]).toEqual([202, { id, status: "known" }]);
    expect((await post("something else")).status).toBe(409);
    await herald.stop();
    await herald.restart();
    expect(await (await post("once")).json()).toEqual({ id, status: "known" });
    expect(await chat.ask("after")).toBe("answer to after");
    expect(asked().map((call) => call.messages.map((message) => message.text))).toEqual([["once"], ["once", "answer to once", "after"]]);
    const sent = herald.rows<{ delivery: string }>("SELECT delivery FROM outbox WHERE address_key LIKE ?", `%${chat.id}%`);
    expect(sent).toEqual([{ delivery: expect.stringMatching(/^reply:\d+$/) }, { delivery: expect.stringMatching(/^reply:\d+$/) }]);
  });

  it("[SE1] chats that make no legal key are refused; each chat has a session of its own", async () => {
    respond = (request) => ({ text: `I know: ${request.messages.map((message) => message.text).join(", ")}` });
    const { herald } = scene;
    const keys = () => herald.rows<{ key: string }>("SELECT key FROM sessions").map((row) => row.key);
    const before = keys();
    for (const chat of ["A", "a%20b", "..%2fx", "%00", "a".repeat(200), "%C3%A9"]) {
      const body = JSON.stringify({ id: randomUUID(), text: "x" });
      expect((await herald.request(`/api/chats/${chat}/messages`, { method: "POST", body })).status).toBe(404);
    }
    const [mine, hers] = [scene.chat(), scene.chat()];
    expect(await Promise.all([mine.ask("mine"), hers.ask("hers")])).toEqual(["I know: mine", "I know: hers"]);
    expect(new Set(keys())).toEqual(new Set([...before, mine.key, hers.key]));
  });
});

describe("sessions", () => {
  it("[SE5] /new starts a new transcript, keeps the old one readable and stops its sub-agents", async () => {
    respond = (request) => {
      if (isChild(request)) return { hang: true };
      if (question(request) === "send one out" && lastResult(request) === null)
        return { toolCalls: [{ name: "sessions_spawn", args: { task: "wait for ever" } }] };
      return { text: `${request.messages.length} messages` };
    };
    const { herald, model } = scene;
    const chat = scene.chat();
    expect(await chat.ask("send one out")).toMatch(/messages$/);
    await waitFor("the child at work", () => model.open === 1);
    const text = await chat.ask("/new");
    expect(text).toMatch(/^✨ New conversation\. Stopped 1 sub-agent\. The old one is kept: /);
    const oldPath = /kept: (\S+)/.exec(text)?.[1] ?? "";
    expect(readFileSync(oldPath, "utf8")).toContain("send one out");
    expect(await chat.ask("fresh start")).toBe("1 messages");
    await waitFor("the child's end", () => model.open === 0);
    const sessions = herald.rows<{ ended_at: number | null }>(
      "SELECT ended_at FROM sessions WHERE key = ? ORDER BY created_at, ended_at IS NULL",
      chat.key,
    );
    expect(sessions.map((row) => row.ended_at === null)).toEqual([false, true]);
    expect(readFileSync(oldPath, "utf8")).not.toContain("fresh start");
    expect(await chat.announcements()).toEqual([]);
  });

  it("[SE5] with session.reset.subagents: keep, a kept sub-agent announces into the chat but not into the new context", async () => {
    await using _settings = await scene.configure({ config: { session: { reset: { subagents: "keep" } } } });
    const door = Promise.withResolvers<void>();
    respond = async (request) => {
      if (isChild(request)) {
        await door.promise;
        return { text: "SUMMARY: forty-two" };
      }
      if (question(request) === "send one out" && lastResult(request) === null)
        return { toolCalls: [{ name: "sessions_spawn", args: { task: "find the answer", label: "kept" } }] };
      return { text: `I know ${request.messages.length}: ${request.messages.map((message) => message.text).join(" | ")}` };
    };
    const chat = scene.chat();
    expect(await chat.ask("send one out")).toMatch(/^I know/);
    await waitFor("the child at work", () => scene.model.open === 1);
    expect(await chat.ask("/new")).toMatch(/^✨ New conversation\. The old one is kept/);
    door.resolve();
    await chat.announced("kept");
    expect(await chat.ask("what do you know?")).toBe("I know 1: what do you know?");
  });
});

describe("secrets", () => {
  it("[SC4] a known secret shows as its name in transcript, page, model history and log", async () => {
    const secret = "scripted-key-0123456789";
    respond = (request) => ({ text: `you said: ${question(request)} and I say ${secret}` });
    const { herald } = scene;
    const chat = scene.chat();
    const token = readFileSync(join(herald.stateDir, "web-token"), "utf8").trim();
    const answer = await chat.ask(`is ${secret} my key, and ${token} my token?`);
    expect(answer).toMatch(/^you said: .*\[web token\]/);
    const page = await (await herald.request(`/api/chats/${chat.id}/messages`)).text();
    for (const text of [transcriptOf(chat), page, herald.output(), answer]) {
      expect(text).not.toContain(secret);
      expect(text).not.toContain(token);
    }
  });
});

describe("the offline model", () => {
  it("[MO6] holds a conversation, says what it is in its first reply, uses tools and sends out helpers, all without a key", async () => {
    await using herald = await createHarness();
    const workspace = join(herald.stateDir, "workspace");
    mkdirSync(join(workspace, "src"), { recursive: true });
    writeFileSync(join(workspace, "README.md"), "# Birds\nThe wren is small.\n");
    writeFileSync(join(workspace, "src/a.ts"), "export const a = 1;\n".repeat(7));
    await herald.say("hello");
    await herald.reply(/offline model/i);
    await herald.say("read README.md");
    await herald.reply(/The wren is small/);
    await herald.say("in the background, summarise src and count its lines");
    const announced = await waitFor("the announcement", async () => (await herald.announcements())[0]);
    expect(announced.text).toMatch(/^Status: success$/m);
    expect(announced.text).toMatch(/\b7\b/);
    await herald.say("send three helpers to count the lines of src");
    await waitFor("three more", async () => (await herald.announcements()).length === 4);
    await herald.say("/subagents");
    await herald.reply(/🧭 Subagents \(current session\)\n+Active: 0 · Done: 4/);
    await herald.say("/stop");
    await herald.reply(/^⚙️ Agent was aborted\. Stopped 0 sub-agents\.$/);
    const intros = (await herald.replies()).filter((message) => /I'm Herald's built-in offline model/.test(message.text));
    expect(intros).toHaveLength(1);
  });
});
