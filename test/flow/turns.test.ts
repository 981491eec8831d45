// Turns through the whole program: order, parallelism, failures, what the page shows meanwhile, sessions, access to what
// the model sees. The model is a scripted server behind the real library, or the built-in offline model.
import { mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { openEvents } from "../support/event-stream.ts";
import type { FakeModelServer, FakeRequest, Respond, Script } from "../support/fake-model-server.ts";
import { createFakeOpenAi } from "../support/fake-openai.ts";
import { createHarness, type Harness, type HarnessOptions } from "../support/harness.ts";
import { scriptedConfig } from "../support/scripted-model.ts";
import { waitFor } from "../support/wait.ts";

interface Scene extends AsyncDisposable {
  readonly herald: Harness;
  readonly model: FakeModelServer;
}

interface SceneOptions extends Omit<HarnessOptions, "config"> {
  readonly defaults?: Record<string, unknown>;
  readonly rest?: Record<string, unknown>;
}

async function createScene(respond: Respond, { defaults, rest, ...options }: SceneOptions = {}): Promise<Scene> {
  const model = await createFakeOpenAi({ respond });
  const herald = await createHarness({ ...options, config: scriptedConfig(model.url, defaults, rest) });
  return {
    herald,
    model,
    async [Symbol.asyncDispose]() {
      try {
        await herald[Symbol.asyncDispose]();
      } finally {
        await model.close();
      }
    },
  };
}

const isChild = (request: FakeRequest): boolean => request.system.includes("You are a sub-agent of");
/** The page's chats are "main" and uuids. */
const CHAT = {
  a: "aaaaaaaa-0000-4000-8000-000000000000",
  b: "bbbbbbbb-0000-4000-8000-000000000000",
  c: "cccccccc-0000-4000-8000-000000000000",
};
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

const transcripts = (herald: Harness, agentId = "main"): string[] => {
  const folder = join(herald.stateDir, "agents", agentId, "sessions");
  return readdirSync(folder)
    .filter((name) => name.endsWith(".jsonl"))
    .map((name) => readFileSync(join(folder, name), "utf8"));
};

describe("order and parallelism", () => {
  it("[AG1] one turn at a time per session, in order; sessions in parallel up to maxConcurrent; commands never wait", async () => {
    const doors = createDoors();
    await using scene = await createScene(doors.respond, { defaults: { maxConcurrent: 2 } });
    const { herald, model } = scene;
    await herald.say("a1", { chat: CHAT.a });
    await waitFor("the first turn", () => model.calls.length === 1);
    await herald.say("a2", { chat: CHAT.a });
    await herald.say("a3", { chat: CHAT.a });
    await herald.say("b1", { chat: CHAT.b });
    await waitFor("two turns at once", () => model.open === 2);
    await herald.say("c1", { chat: CHAT.c });
    // Both places are taken, and a command is answered all the same, in the busy chat too.
    await herald.say("/status", { chat: CHAT.a });
    await herald.reply(/main 2 running, 1 waiting/, CHAT.a);
    expect(model.calls.map(question).sort()).toEqual(["a1", "b1"]);

    for (const text of ["c1", "b1", "a2", "a3"]) doors.let(text);
    await herald.reply(/answer to b1/, CHAT.b);
    await herald.reply(/answer to c1/, CHAT.c);
    expect((await herald.replies(CHAT.a)).map((message) => message.text).filter((text) => text.startsWith("answer"))).toEqual([]);
    doors.let("a1");
    await herald.reply(/answer to a3/, CHAT.a);
    const answers = (await herald.replies(CHAT.a)).map((message) => message.text).filter((text) => text.startsWith("answer"));
    expect(answers).toEqual(["answer to a1", "answer to a2", "answer to a3"]);
    // Each turn saw the answers of those before it.
    expect(model.calls.find((call) => question(call) === "a3")?.messages.map((message) => message.text)).toEqual([
      "a1",
      "answer to a1",
      "a2",
      "answer to a2",
      "a3",
    ]);
  });

  it("[LN3] a turn that hangs past its timeout gives its slot back; the chat is told and the next one is answered", async () => {
    await using scene = await createScene((request) => (question(request) === "hang" ? { hang: true } : { text: "quick answer" }), {
      defaults: { maxConcurrent: 1, timeoutSeconds: 1 },
    });
    await scene.herald.say("hang", { chat: CHAT.a });
    await waitFor("the hanging turn", () => scene.model.open === 1);
    await scene.herald.say("next", { chat: CHAT.b });
    await scene.herald.reply(/^⚠️ The turn was ended after 1 s \(agents\.defaults\.timeoutSeconds\)/, CHAT.a);
    await scene.herald.reply(/^quick answer$/, CHAT.b);
    expect(scene.model.calls[0]?.clientClosed).toBe(true);
  });
});

describe("a turn", () => {
  it("[AG2] history, prompt, model ↔ tools, transcript, reply; the person's words are on disk before the model is called", async () => {
    let onDisk = "";
    await using scene = await createScene((request) => {
      if (lastResult(request) !== null) return { text: `it says: ${lastResult(request)}`, usage: { input: 10, output: 2 } };
      onDisk = transcripts(scene.herald).join("");
      return { text: "let me look", toolCalls: [{ name: "read", args: { path: "notes.txt" } }] };
    });
    const { herald, model } = scene;
    writeFileSync(join(herald.stateDir, "workspace/notes.txt"), "remember the milk\n");
    await herald.say("what do my notes say?");
    await herald.reply(/it says:[\s\S]*remember the milk/);
    expect(onDisk).toContain('"text":"what do my notes say?"');
    const [header, ...entries] = (transcripts(herald)[0] ?? "")
      .trimEnd()
      .split("\n")
      .map((line) => JSON.parse(line));
    expect(header).toMatchObject({ type: "session", version: 1, key: "agent:main:web:dm:main", parent: null });
    expect(entries.map((entry) => entry.type)).toEqual(["message", "message", "tool_call", "tool_result", "message"]);
    entries.slice(1).forEach((entry, n) => {
      expect(entry.parentId).toBe(entries[n].id);
    });
    expect(model.calls[0]?.model).toBe("model-1");
    expect(model.calls[0]?.tools).toEqual(expect.arrayContaining(["read", "write", "sessions_spawn"]));
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
    await using scene = await createScene((request) => {
      const result = lastResult(request);
      if (result !== null) results.push(result);
      return steps[n++] ?? { text: "I see" };
    });
    await scene.herald.say("try");
    await scene.herald.reply(/^I see$/);
    expect(results[0]).toMatch(/There is no tool "reed".*: .*\bread\b/);
    expect(results[1]).toMatch(/Bad arguments for read:[\s\S]*Accepted: .*path \(required\)/);
    expect(results[2]).toMatch(/JSON/);
    expect(results[3]).toMatch(/missing\.txt/);
  });

  it("[AG3] a model failure is one clear sentence in the chat, without the key, and the next message works", async () => {
    let isBroken = true;
    await using scene = await createScene(() =>
      isBroken ? { status: 401, message: "Incorrect API key provided: scripted-key-0123456789" } : { text: "back again" },
    );
    await scene.herald.say("hi");
    const { text } = await scene.herald.reply(/^⚠️ /);
    expect(text.split("\n")).toHaveLength(1);
    expect(text).not.toContain("scripted-key");
    expect(scene.model.calls).toHaveLength(1);
    isBroken = false;
    await scene.herald.say("hi again");
    await scene.herald.reply(/^back again$/);
  });

  it("[AG4] the page hears that a turn works and what it writes, then the answer, with a cursor", async () => {
    const doors = createDoors();
    await using scene = await createScene(doors.respond);
    await using stream = await openEvents(scene.herald);
    await scene.herald.say("tell me");
    await waitFor("the working sign", () => stream.of("working").some((one) => one.data.working === true));
    doors.let("tell me", { pieces: ["Once ", "upon ", "a ", "time"] });
    await waitFor("the answer", () => stream.of("message").some((one) => one.data.author === "agent"));
    await waitFor("rest", () => stream.of("working").at(-1)?.data.working === false);
    const messages = stream.of("message");
    expect(messages.map((one) => one.data.author)).toEqual(["user", "agent"]);
    expect(messages.map((one) => Number(one.id))).toEqual(messages.map((one) => one.data.seq));
    // What is written is shown while it is written.
    doors.let("a long one", { text: "Once upon a time", hang: "after-text" });
    await scene.herald.say("a long one");
    await waitFor("the draft", () => stream.of("draft").some((one) => String(one.data?.html).includes("Once")));
    await scene.herald.say("/stop");
    await waitFor("the end", () => stream.of("message").length === 5 && stream.of("working").at(-1)?.data.working === false);
    // A reconnect with the cursor replays what was missed and nothing else.
    await using again = await openEvents(scene.herald, `chat=main&cursor=${messages[0]?.id}`);
    await waitFor("the replay", () => again.of("message").length === 4);
    expect(again.of("message").map((one) => one.data.author)).toEqual(["agent", "user", "user", "agent"]);
  });

  it("[AG5] a main session sees the workspace's five files, a sub-agent only AGENTS.md and TOOLS.md", async () => {
    await using scene = await createScene((request) => {
      if (isChild(request)) return { text: "SUMMARY: done" };
      return lastResult(request) === null
        ? { toolCalls: [{ name: "sessions_spawn", args: { task: "count to three", label: "counting" } }] }
        : { text: "sent out" };
    });
    const { herald, model } = scene;
    const names = ["AGENTS.md", "TOOLS.md", "SOUL.md", "IDENTITY.md", "USER.md"];
    for (const name of names) writeFileSync(join(herald.stateDir, "workspace", name), `words of ${name}\n${"x".repeat(100_000)}`);
    await herald.say("send one out");
    await waitFor("the announcement", async () => (await herald.announcements()).length === 1);
    const seen = (system: string): string[] => names.filter((name) => system.includes(`words of ${name}`));
    const main = model.calls.find((call) => !isChild(call));
    const child = model.calls.find(isChild);
    expect(seen(main?.system ?? "")).toEqual(names);
    expect(seen(child?.system ?? "")).toEqual(["AGENTS.md", "TOOLS.md"]);
    // Each is capped in size.
    expect(main?.system.length).toBeLessThan(150_000);
  });
});

describe("arrival", () => {
  it("[RC3] the same post twice, at once or later, is one message and one turn; another text under its id is refused", async () => {
    await using scene = await createScene((request) => ({ text: `answer to ${question(request)}` }));
    const { herald, model } = scene;
    const id = "11111111-2222-4333-8444-555555555555";
    await Promise.all([herald.say("once", { id }), herald.say("once", { id }), herald.say("once", { id })]);
    await herald.reply(/answer to once/);
    const post = (text: string) => herald.request("/api/chats/main/messages", { method: "POST", body: JSON.stringify({ id, text }) });
    const again = await post("once");
    expect([again.status, await again.json()]).toEqual([202, { id, status: "known" }]);
    expect((await post("something else")).status).toBe(409);
    await herald.stop();
    await herald.restart();
    expect(await (await post("once")).json()).toEqual({ id, status: "known" });
    await herald.say("after");
    await herald.reply(/answer to after/);
    expect(model.calls.map(question)).toEqual(["once", "after"]);
    expect(herald.rows("SELECT delivery FROM outbox ORDER BY id")).toEqual([{ delivery: "reply:1" }, { delivery: "reply:2" }]);
  });

  it("[SE1] chats that make no legal key are refused; each chat has a session of its own", async () => {
    await using scene = await createScene((request) => ({ text: `I know: ${request.messages.map((message) => message.text).join(", ")}` }));
    const { herald } = scene;
    for (const chat of ["A", "a%20b", "..%2fx", "%00", "a".repeat(200), "%C3%A9"]) {
      const body = JSON.stringify({ id: "11111111-2222-4333-8444-555555555555", text: "x" });
      expect((await herald.request(`/api/chats/${chat}/messages`, { method: "POST", body })).status).toBe(404);
    }
    await herald.say("mine", { chat: CHAT.a });
    await herald.say("hers", { chat: CHAT.b });
    await herald.reply(/^I know: mine$/, CHAT.a);
    await herald.reply(/^I know: hers$/, CHAT.b);
    expect(herald.rows<{ key: string }>("SELECT key FROM sessions ORDER BY key").map((row) => row.key)).toEqual([
      `agent:main:web:dm:${CHAT.a}`,
      `agent:main:web:dm:${CHAT.b}`,
    ]);
  });
});

describe("sessions", () => {
  it("[SE5] /new starts a new transcript, keeps the old one readable and stops its sub-agents", async () => {
    await using scene = await createScene((request) => {
      if (isChild(request)) return { hang: true };
      if (question(request) === "send one out" && lastResult(request) === null)
        return { toolCalls: [{ name: "sessions_spawn", args: { task: "wait for ever" } }] };
      return { text: `${request.messages.length} messages` };
    });
    const { herald, model } = scene;
    await herald.say("send one out");
    await herald.reply(/messages$/);
    await waitFor("the child at work", () => model.open === 1);
    await herald.say("/new");
    const { text } = await herald.reply(/^✨ New conversation\. Stopped 1 sub-agent\. The old one is kept: /);
    const oldPath = /kept: (\S+)/.exec(text)?.[1] ?? "";
    expect(readFileSync(oldPath, "utf8")).toContain("send one out");
    await herald.say("fresh start");
    await herald.reply(/^1 messages$/);
    await waitFor("the child's end", () => model.open === 0);
    const sessions = herald.rows<{ ended_at: number | null }>(
      "SELECT ended_at FROM sessions WHERE key = 'agent:main:web:dm:main' ORDER BY created_at, ended_at IS NULL",
    );
    expect(sessions.map((row) => row.ended_at === null)).toEqual([false, true]);
    expect(readFileSync(oldPath, "utf8")).not.toContain("fresh start");
    expect(await herald.announcements()).toEqual([]);
  });

  it("[SE5] with session.reset.subagents: keep, a kept sub-agent announces into the chat but not into the new context", async () => {
    const door = Promise.withResolvers<void>();
    await using scene = await createScene(
      async (request) => {
        if (isChild(request)) {
          await door.promise;
          return { text: "SUMMARY: forty-two" };
        }
        if (question(request) === "send one out" && lastResult(request) === null)
          return { toolCalls: [{ name: "sessions_spawn", args: { task: "find the answer" } }] };
        return { text: `I know ${request.messages.length}: ${request.messages.map((message) => message.text).join(" | ")}` };
      },
      { rest: { session: { reset: { subagents: "keep" } } } },
    );
    const { herald, model } = scene;
    await herald.say("send one out");
    await herald.reply(/^I know/);
    await waitFor("the child at work", () => model.open === 1);
    await herald.say("/new");
    await herald.reply(/^✨ New conversation\. The old one is kept/);
    door.resolve();
    await waitFor("the announcement", async () => (await herald.announcements()).length === 1);
    await herald.say("what do you know?");
    await herald.reply(/^I know 1: what do you know\?$/);
  });

  it("[SE4] a conversation goes on after a restart with everything that was said", async () => {
    await using scene = await createScene((request) => ({ text: `heard ${request.messages.filter((one) => one.role === "user").length}` }));
    await scene.herald.say("one");
    await scene.herald.reply(/^heard 1$/);
    await scene.herald.stop();
    await scene.herald.restart();
    await scene.herald.say("two");
    await scene.herald.reply(/^heard 2$/);
    expect(scene.model.calls.at(-1)?.messages.map((message) => message.text)).toEqual(["one", "heard 1", "two"]);
  });
});

describe("secrets", () => {
  it("[SC4] a known secret shows as its name in transcript, page, model history and log", async () => {
    const secret = "scripted-key-0123456789";
    await using scene = await createScene((request) => ({ text: `you said: ${question(request)} and I say ${secret}` }), {
      rest: { logging: { level: "debug" } },
    });
    const { herald } = scene;
    const token = readFileSync(join(herald.stateDir, "web-token"), "utf8").trim();
    await herald.say(`is ${secret} my key, and ${token} my token?`);
    await herald.reply(/you said/);
    const page = await (await herald.request("/api/chats/main/messages")).text();
    for (const text of [transcripts(herald).join(""), page, herald.output(), (await herald.replies()).map((one) => one.text).join("")]) {
      expect(text).not.toContain(secret);
      expect(text).not.toContain(token);
    }
    expect((await herald.replies())[0]?.text).toContain("[web token]");
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
