// Approvals, against the real process: a call that the settings name waits for a person's yes, which is for that one call as it was
// shown; also over kill -9.
import { existsSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterAll, afterEach, beforeAll, describe, expect, it } from "vitest";
import { calls, child, plan, type Step, spawns } from "../support/brain.ts";
import { createChannelScene } from "../support/channel-scene.ts";
import type { SeenMessage } from "../support/fake-telegram.ts";
import { type Chat, createScene, type Scene } from "../support/scene.ts";
import { waitFor } from "../support/wait.ts";

let scene: Scene;
beforeAll(async () => {
  // One slot only: whoever waits for a person must have given it back.
  scene = await createScene({
    subagents: { maxConcurrent: 1 },
    config: { tools: { approve: ["write", "edit", "exec", "scratchpad"], exec: { unsandboxed: true } } },
  });
});
afterEach(async () => scene.calm());
afterAll(async () => scene[Symbol.asyncDispose]());

interface QuestionRow {
  readonly id: string;
  readonly state: string;
  readonly kind: string;
  readonly text: string;
  readonly tool: string | null;
  readonly verdict: string | null;
  readonly used_at: number | null;
  readonly late: string | null;
}

const questionsOf = ({ key }: Chat): QuestionRow[] =>
  scene.herald.rows<QuestionRow>("SELECT * FROM questions WHERE root_key = ? ORDER BY created_at, id", key);
const openOf = (chat: Chat): QuestionRow[] => questionsOf(chat).filter(({ state }) => state === "open");
const opened = (chat: Chat, count = 1): Promise<QuestionRow[]> =>
  waitFor(`${count} open questions`, () => (openOf(chat).length >= count ? openOf(chat) : null));
const first = async (chat: Chat): Promise<QuestionRow> => (await opened(chat))[0] as QuestionRow;
const fileOf = (name: string): string => join(scene.herald.stateDir, "workspace", name);
const writes = (path: string, content: string): Step => calls(["write", { path, content }]);
const answered = (chat: Chat, { id }: { id: string }, words: string): Promise<string> => chat.ask(`/subagents answer ${id} ${words}`);

describe("a sub-agent's call that needs a yes", () => {
  it("[QA4] waits without a slot, shows what would happen, and is carried out once after a Yes", async () => {
    const chat = scene.chat();
    await chat.act([spawns(child("writer", [writes("one.txt", "first line\n")]))]);
    const question = await first(chat);
    await chat.reached("writer", "waiting");
    expect(question).toMatchObject({ kind: "approve", tool: "write" });
    expect(question.text).toContain("makes the file `one.txt`");
    expect(question.text).toContain("+first line");
    expect(existsSync(fileOf("one.txt"))).toBe(false);
    await chat.act([spawns(child("other", "other work"))]);
    expect(await chat.announced("other")).toContain("other work");
    expect(await answered(chat, question, "yes")).toBe("✅ Allowed, this once; it goes on.");
    expect(await chat.announced("writer")).toContain("Created");
    expect(readFileSync(fileOf("one.txt"), "utf8")).toBe("first line\n");
    expect(questionsOf(chat)).toMatchObject([{ state: "answered", verdict: "yes", used_at: expect.any(Number) }]);
  });

  it("[QA4] a No with its reason is what its model reads, and nothing is done", async () => {
    const chat = scene.chat();
    await chat.act([spawns(child("refused", [writes("refused.txt", "x")]))]);
    expect(await answered(chat, await first(chat), "no, not on a Friday")).toBe("✖ Refused; it is told so.");
    const text = await chat.announced("refused");
    expect(text).toContain("the reason of the page");
    expect(text).toContain("not on a Friday");
    expect(existsSync(fileOf("refused.txt"))).toBe(false);
  });

  it("[QA4] APPR-001 the file changes between the question and the Yes: nothing is written, and the repeated call asks with the new diff", async () => {
    const chat = scene.chat();
    writeFileSync(fileOf("plan.txt"), "alpha\nbeta\n");
    const edit = calls(["edit", { path: "plan.txt", oldText: "beta", newText: "gamma" }]);
    await chat.act([spawns(child("editor", [edit, edit]))]);
    const asked = await first(chat);
    expect(asked.text).toMatch(/changes the file `plan\.txt`[\s\S]*-beta\n\+gamma/);
    writeFileSync(fileOf("plan.txt"), "alpha, changed by hand\nbeta\n");
    await answered(chat, asked, "yes");
    const again = await waitFor("it to ask anew", () => openOf(chat)[0]);
    expect(readFileSync(fileOf("plan.txt"), "utf8")).toBe("alpha, changed by hand\nbeta\n");
    expect(again.text).toContain(" alpha, changed by hand");
    expect(questionsOf(chat).find(({ id }) => id === asked.id)).toMatchObject({ verdict: "yes", used_at: expect.any(Number) });
    await answered(chat, again, "yes");
    expect(await chat.announced("editor")).toContain("the file changed since you were asked");
    expect(readFileSync(fileOf("plan.txt"), "utf8")).toBe("alpha, changed by hand\ngamma\n");
  });

  it("[QA4] APPR-009 a Yes to the tool ask allows nothing: the command still asks, exactly as it would run", async () => {
    const chat = scene.chat();
    const command = "rm -rf build && echo gone";
    const asks = calls(["ask", { question: "May I run rm -rf build?", options: ["Yes", "No"] }]);
    mkdirSync(fileOf("build"), { recursive: true });
    await chat.act([spawns(child("cleaner", [asks, calls(["exec", { command }])]))]);
    await answered(chat, await first(chat), "#1");
    const approval = await waitFor("the approval", () => openOf(chat).find(({ kind }) => kind === "approve"));
    expect(approval).toMatchObject({ tool: "exec" });
    expect(approval.text).toContain("\nrm -rf build && echo gone\n");
    expect(approval.text).toMatch(/folder `\.`; at most 120 s/);
    await answered(chat, approval, "no");
    await chat.announced("cleaner");
    expect(existsSync(fileOf("build"))).toBe(true);
  });

  it("[QA4] APPR-007 stopped while it is asked about: the question is closed at once, and a late Yes is told so, does nothing and is on record", async () => {
    const chat = scene.chat();
    await chat.act([spawns(child("halted", [writes("halted.txt", "x")]))]);
    const question = await first(chat);
    await chat.reached("halted", "waiting");
    expect(await chat.ask("/stop")).toBe("⚙️ Agent was aborted. Stopped 1 sub-agent.");
    expect(openOf(chat)).toEqual([]);
    expect(await answered(chat, question, "always")).toBe("This question is closed: what asked it has ended.");
    const row = questionsOf(chat).find(({ id }) => id === question.id);
    expect([row?.state, JSON.parse(row?.late ?? "[]")]).toEqual([
      "void",
      [expect.stringMatching(/the page: always; This question is closed/)],
    ]);
    expect(await chat.ask("/approvals")).toContain("Nothing is always allowed in this chat");
    expect(existsSync(fileOf("halted.txt"))).toBe(false);
  });

  it("[QA4] a plain yes is for the agent, and allows nothing; with one approval open it is said how to answer that", async () => {
    const chat = scene.chat();
    await chat.act([spawns(child("beside", [writes("beside.txt", "x")]))]);
    await first(chat);
    await chat.say("yes");
    const told = await scene.herald.reply(/beside still waits for a Yes or No/, chat.id);
    const typed = /`(\/subagents answer [\w-]{6} yes)`/.exec(told.text)?.[1] ?? "";
    const answers = async () => (await scene.herald.replies(chat.id)).filter(({ text }) => text.startsWith("results: "));
    await waitFor("the agent to answer it", async () => (await answers()).length === 2);
    expect([openOf(chat).length, existsSync(fileOf("beside.txt"))]).toEqual([1, false]);
    expect(await chat.ask("yes, it is a nice day")).toMatch(/^results: /);
    expect((await scene.herald.replies(chat.id)).filter(({ text }) => text.includes("still waits"))).toHaveLength(1);
    expect(await chat.ask(typed)).toBe("✅ Allowed, this once; it goes on.");
    expect(await chat.announced("beside")).toContain("Created");
  });

  it("[QA4] APPR-007 stopped by its name: the same", async () => {
    const chat = scene.chat();
    await chat.act([spawns(child("named", [writes("named.txt", "x")]))]);
    const question = await first(chat);
    await chat.reached("named", "waiting");
    await chat.ask("/subagents stop named");
    expect(openOf(chat)).toEqual([]);
    expect(await answered(chat, question, "yes")).toBe("This question is closed: what asked it has ended.");
    expect(existsSync(fileOf("named.txt"))).toBe(false);
  });
});

describe("the agent's own call that needs a yes", () => {
  it("[QA4] Yes for this turn covers its later calls, the next turn asks again", async () => {
    const chat = scene.chat();
    await chat.say(plan([writes("t1.txt", "1"), writes("t2.txt", "2")]));
    await answered(chat, await first(chat), "run");
    await scene.herald.reply(/^results: .*Created.*Created/, chat.id);
    expect([existsSync(fileOf("t1.txt")), existsSync(fileOf("t2.txt")), questionsOf(chat).length]).toEqual([true, true, 1]);
    await chat.say(plan([writes("t3.txt", "3")]));
    await answered(chat, await first(chat), "no");
    await scene.herald.reply(/Denied by the page/, chat.id);
    expect(existsSync(fileOf("t3.txt"))).toBe(false);
  });

  it("[QA4] Always in this chat is a rule that outlives a restart; /approvals lists it and takes it back", async () => {
    const chat = scene.chat();
    await chat.say(plan([writes("a1.txt", "1")]));
    await answered(chat, await first(chat), "always");
    await scene.herald.reply(/^results: .*Created/, chat.id);
    await scene.herald.crash();
    await scene.herald.restart();
    expect(await chat.act([writes("a2.txt", "2")])).toEqual([expect.stringContaining("Created")]);
    expect(await chat.ask("/approvals")).toMatch(/Always allowed in this chat: 1 tool\n1\) `write` · by the page · \d+s ago/);
    expect(await scene.chat().ask("/approvals")).toContain("Nothing is always allowed in this chat");
    expect(await chat.ask("/approvals revoke 2")).toContain('There is no approval "2"');
    expect(await chat.ask("/approvals revoke 1")).toContain("Taken back: `write`");
    await chat.say(plan([writes("a3.txt", "3")]));
    await answered(chat, await first(chat), "no");
    await scene.herald.reply(/Denied by the page/, chat.id);
    expect(existsSync(fileOf("a3.txt"))).toBe(false);
  });

  it.each(["yes", "No.", "ok!"])(
    "[QA4] a plain %s is no answer: it is read afterwards, and whoever said it is told how to answer",
    async (word) => {
      const chat = scene.chat();
      await chat.say(plan([writes("plain.txt", "x")]));
      const { id } = await first(chat);
      const before = scene.model.calls.length;
      await chat.say(word);
      const told = await scene.herald.reply(/still waits for a Yes or No/, chat.id);
      expect(told.text).toContain("to use `write`, asked above: press a button there, reply to it, or write");
      expect(told.text).toMatch(/What you say here allows nothing; it comes right after that\./);
      const typed = /`(\/subagents answer [\w-]{6} yes)`/.exec(told.text)?.[1] ?? "";
      expect(openOf(chat)).toMatchObject([{ id, verdict: null }]);
      expect([existsSync(fileOf("plain.txt")), scene.model.calls.length]).toEqual([false, before]);
      expect(await chat.ask(typed.replace(/yes$/, "no"))).toBe("✖ Refused; it is told so.");
      await waitFor("it to be read", () => scene.model.calls.some(({ messages }) => messages.at(-1)?.text === word));
      expect(existsSync(fileOf("plain.txt"))).toBe(false);
    },
  );

  it.each(["/stop", "/new"])(
    "[QA4] APPR-007 %s while it is asked about closes the question, and a late Yes does nothing",
    async (command) => {
      const chat = scene.chat();
      await chat.say(plan([writes("late.txt", "x")]));
      const question = await first(chat);
      await chat.ask(command);
      expect(openOf(chat)).toEqual([]);
      expect(await answered(chat, question, "yes")).toBe("This question is closed: what asked it has ended.");
      expect(existsSync(fileOf("late.txt"))).toBe(false);
    },
  );
});

describe("an MCP server that asks back", () => {
  const SHOP = { command: process.execPath, args: [fileURLToPath(new URL("../support/fake-mcp.mjs", import.meta.url)), "asks"] };
  const isReady = async (scene: Scene): Promise<void> => {
    const chat = scene.chat();
    await waitFor("the server", async () => /shop.*3 tools/.test(await chat.ask("/status")));
  };
  const open = ({ herald }: Scene, { key }: Chat) =>
    waitFor("a question", () => herald.rows<QuestionRow>("SELECT * FROM questions WHERE root_key = ? AND state = 'open'", key)[0]);

  it("[QA5] each field is a question in the asking chat; a person's answers are what the server gets; killed, they are void and the outcome unknown", async () => {
    await using scene = await createScene({ config: { mcp: { servers: { shop: SHOP } } } });
    await isReady(scene);
    const chat = scene.chat();
    await chat.act([spawns(child("buyer", [calls(["shop__book", {}])]))]);
    const seat = await open(scene, chat);
    expect(seat).toMatchObject({ kind: "ask", text: "The MCP server shop asks: Which seat?\n\n**Seat**" });
    await answered(chat, seat, "#2");
    const bags = await waitFor("the next field", async () => ((await open(scene, chat)).id === seat.id ? null : open(scene, chat)));
    await answered(chat, bags, "two");
    const again = await waitFor("it to ask again", async () => ((await open(scene, chat)).id === bags.id ? null : open(scene, chat)));
    expect(again.text).toContain('"two" does not fit: it must be a whole number');
    await answered(chat, again, "2");
    expect(await chat.announced("buyer")).toContain('{\\"action\\":\\"accept\\",\\"content\\":{\\"seat\\":\\"window\\",\\"bags\\":2}}');

    await chat.act([spawns(child("killed", [calls(["shop__confirm", {}])]))]);
    const left = await open(scene, chat);
    await scene.herald.crash();
    await scene.herald.restart();
    expect(await chat.announced("killed")).toContain("Whether it took effect is unknown");
    expect(scene.herald.rows("SELECT state FROM questions WHERE id = ?", left.id)).toEqual([{ state: "void" }]);
    expect(await answered(chat, left, "#1")).toBe("This question is closed: what asked it has ended.");
  });
});

describe("on Telegram", () => {
  const PERSON = 42;
  const GROUP = -1001;
  const label = (message: SeenMessage): string[] => message.buttons.map(({ text }) => text);

  it("[QA3][QA4] APPR-007 buttons: a stranger's press does nothing, Yes runs it once and is shown in place; a stop takes the buttons away", async () => {
    await using scene = await createChannelScene({
      telegram: { allowFrom: [String(PERSON)], groups: { [GROUP]: { requireMention: false } } },
      slack: null,
      config: { tools: { approve: ["write"] } },
    });
    await scene.connected();
    const { telegram, herald } = scene;
    const path = (name: string): string => join(herald.stateDir, "workspace", name);
    const asks = async (name: string): Promise<number> => {
      telegram.say({ chat: GROUP, thread: 5, from: PERSON, text: plan([spawns(child(name, [writes(`${name}.txt`, "x")]))]) });
      const found = (): SeenMessage | undefined =>
        telegram.messages(GROUP, 5).find(({ text }) => text.includes(`${name} wants to use`) || text.includes(`${name}** wants to use`));
      return (await telegram.until(found, "the question")).id;
    };
    const shown = (id: number): SeenMessage => telegram.messages(GROUP, 5).find((message) => message.id === id) as SeenMessage;

    const first = await asks("first");
    expect(label(shown(first))).toEqual(["Yes", "Yes for this run", "Always in this chat", "No"]);
    expect(shown(first).text).toContain("makes the file first.txt");
    telegram.press({ chat: GROUP, message: first, label: "Yes", from: 666 });
    telegram.press({ chat: GROUP, message: first, label: "Yes", from: PERSON });
    telegram.press({ chat: GROUP, message: first, label: "No", from: PERSON });
    await telegram.until(() => existsSync(path("first.txt")), "the file");
    await telegram.until(() => shown(first).buttons.length === 0, "the buttons to go");
    expect(shown(first).text).toContain("Allowed, this once, by User 42");

    const second = await asks("second");
    telegram.say({ chat: GROUP, thread: 5, from: PERSON, text: "/stop" });
    await telegram.until(() => shown(second).buttons.length === 0, "the buttons to go");
    expect(shown(second).text).toContain("This question is closed");
    expect(existsSync(path("second.txt"))).toBe(false);
  });
});

describe("on Slack", () => {
  it("[QA4] a long one is allowed by a reply to any of its messages; late presses read in words how it ended", async () => {
    const DIRECT = "D0PERSON";
    await using scene = await createChannelScene({
      ...{ telegram: null, slack: { allowFrom: ["U0PERSON"] }, config: { tools: { approve: ["write"] } } },
    });
    await scene.connected();
    const { slack, herald } = scene;
    slack.channels.add(DIRECT);
    const content = Array.from({ length: 900 }, (_, n) => `line ${n} of a long file`).join("\n");
    const name = "long.txt";
    slack.say({ channel: DIRECT, text: plan([spawns(child("scribe", [writes(name, content)]))]) });
    const buttons = await slack.until(
      () => slack.messages(DIRECT).find((message) => /scribe.* wants to use.*all of it stands above/s.test(message.text)),
      "the buttons",
    );
    const top = slack.messages(DIRECT).find((message) => message.text.includes("line 0 of a long file"));
    expect(top?.ts).toBeDefined();
    expect(top?.ts).not.toBe(buttons.ts);
    slack.say({ channel: DIRECT, thread: top?.ts ?? "", text: "yes" });
    await slack.until(() => existsSync(join(herald.stateDir, "workspace", name)), "the file");
    await slack.until(
      () => slack.messages(DIRECT, top?.ts).find(({ text }) => text.includes("Allowed, this once; it goes on.")),
      "what the reply is told",
    );
    const [question] = herald.rows<QuestionRow>("SELECT * FROM questions WHERE asker = 'scribe'");
    slack.say({ channel: DIRECT, text: `!subagents answer ${question?.id} no` });
    await slack.until(
      () => slack.messages(DIRECT).find(({ text }) => /^Already answered by .*: allowed, this once$/.test(text)),
      "what the late one is told",
    );
  });
});
