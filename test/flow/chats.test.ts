// The page's chats through its routes, against the whole process: other words for the last message, names, removal, search, export.
import { randomUUID } from "node:crypto";
import { existsSync, readdirSync } from "node:fs";
import { join } from "node:path";
import { afterAll, afterEach, beforeAll, describe, expect, it } from "vitest";
import { child, plan, spawns } from "../support/brain.ts";
import { openEvents } from "../support/event-stream.ts";
import { createFakeOpenAi } from "../support/fake-openai.ts";
import type { Harness } from "../support/harness.ts";
import { createHerald, isShared } from "../support/nodes.ts";
import { type Chat, createScene, type Scene } from "../support/scene.ts";
import { scriptedConfig } from "../support/scripted-model.ts";
import { waitFor } from "../support/wait.ts";

interface Shown {
  readonly id: string;
  readonly author: string;
  readonly text: string;
  readonly replacedBy?: string;
}

const post = (herald: Harness, path: string, body: unknown) => herald.request(path, { method: "POST", body: JSON.stringify(body) });
const errorOf = async (answer: Response): Promise<string> => ((await answer.json()) as { error: string }).error;
const resend = (herald: Harness, chat: string, replaces: string, text: string, id: string = randomUUID()) =>
  post(herald, `/api/chats/${chat}/resend`, { id, text, replaces });
/** What stands in a chat is also on record as sent: until then it is on its way, and nothing can take its place. */
const atRest = (herald: Harness): Promise<boolean> =>
  waitFor(
    "nothing to be on its way",
    () => herald.rows("SELECT 1 FROM outbox WHERE state IN ('queued', 'sending', 'unknown')").length === 0,
  );
/** What counts in a chat: who said what, without earlier versions. */
const standing = async (herald: Harness, chat: string): Promise<string[]> => {
  const { messages } = (await (await herald.request(`/api/chats/${chat}/messages`)).json()) as { messages: Shown[] };
  return messages.filter((one) => one.replacedBy === undefined).map((one) => `${one.author}: ${one.text}`);
};

describe("other words for the last message", () => {
  let scene: Scene;
  beforeAll(async () => {
    scene = await createScene();
  });
  afterEach(async () => scene.calm());
  afterAll(async () => scene[Symbol.asyncDispose]());

  const asked = () => scene.model.calls.at(-1)?.messages.map((message) => message.text) ?? [];

  it("[WB3] sets the earlier exchange aside: the model reads nothing of it, the page keeps it, a repeated post adds nothing", async () => {
    const chat = scene.chat();
    await chat.ask(plan([{ text: "kept answer" }]));
    const first = await chat.say(plan([{ text: "unwanted answer" }]));
    await scene.herald.reply(/^unwanted answer$/, chat.id);
    await atRest(scene.herald);
    const id = randomUUID();
    const better = plan([{ text: "better answer" }]);
    const answers = await Promise.all([1, 2].map(() => resend(scene.herald, chat.id, first, better, id)));
    expect(answers.map(({ status }) => status)).toEqual([202, 202]);
    await scene.herald.reply(/^better answer$/, chat.id);
    expect(asked().join("\n")).toContain("kept answer");
    expect(asked().join("\n")).not.toContain("unwanted");
    expect((await standing(scene.herald, chat.id)).map((line) => line.replace(/!plan.*/, "…"))).toEqual([
      "user: …",
      "agent: kept answer",
      "user: …",
      "agent: better answer",
    ]);
    expect((await scene.herald.messages(chat.id)).map(({ text }) => text)).toContain("unwanted answer");
    // The next turn, and a summary, read the same.
    await chat.ask(plan([{ text: "third" }]));
    expect(asked().join("\n")).not.toContain("unwanted");
    expect(asked().join("\n")).toContain("better answer");
    await chat.ask("/compact");
    const summed = scene.model.calls.at(-1);
    expect(JSON.stringify(summed)).not.toContain("unwanted");
  });

  it("[WB3] of two tabs one wins, and the other is told; an old message can't be replaced", async () => {
    const chat = scene.chat();
    const old = await chat.say(plan([{ text: "one" }]));
    await scene.herald.reply(/^one$/, chat.id);
    const last = await chat.say(plan([{ text: "two" }]));
    await scene.herald.reply(/^two$/, chat.id);
    await atRest(scene.herald);
    const both = await Promise.all(["A", "B"].map((text) => resend(scene.herald, chat.id, last, plan([{ text }]))));
    expect(both.map(({ status }) => status).sort()).toEqual([202, 409]);
    const refused = both.find(({ status }) => status === 409) as Response;
    expect(await errorOf(refused)).toBe("This is not the last message of this chat any more. Write a new one.");
    await waitFor("the new answer", async () => (await standing(scene.herald, chat.id)).length === 4);
    expect(await errorOf(await resend(scene.herald, chat.id, old, "again"))).toContain("not the last message");
  });

  it("[WB3] is refused in words: while it is answered, with sub-agents of it at work, behind an announcement, as a command", async () => {
    const chat = scene.chat();
    const slow = await chat.say(plan([{ text: "slow", hold: "slowly" }]));
    await waitFor("the turn", () => scene.model.calls.some((request) => JSON.stringify(request).includes("slowly")));
    expect(await errorOf(await resend(scene.herald, chat.id, slow, "other"))).toBe(
      "An answer is being written in this chat. Stop it first.",
    );
    scene.release("slowly");
    await scene.herald.reply(/^slow$/, chat.id);
    expect(await errorOf(await resend(scene.herald, chat.id, slow, "/help"))).toContain("A command can't take the place of a message");
    const sending = await chat.say(plan([spawns(child("helper", [{ text: "done", hold: "helping" }])), { text: "sent out" }]));
    await scene.herald.reply(/^sent out$/, chat.id);
    await atRest(scene.herald);
    const why = "1 sub-agent that this message sent out is still at work. Stop it first, or write a new message.";
    expect(await errorOf(await resend(scene.herald, chat.id, sending, "other"))).toBe(why);
    scene.release("helping");
    await chat.announced("helper");
    await atRest(scene.herald);
    expect(await errorOf(await resend(scene.herald, chat.id, sending, "other"))).toContain("Something newer stands behind this message");
    const command = await chat.say("/status");
    await scene.herald.reply(/^\*\*Herald/, chat.id);
    await atRest(scene.herald);
    expect(await errorOf(await resend(scene.herald, chat.id, command, "other"))).toBe(
      "That was no message to the agent. Send it again as a new one.",
    );
  });

  it("[WB3] a stopped answer is made anew, and nothing tells the model of the stop", async () => {
    const chat = scene.chat();
    const first = await chat.say(plan([{ text: "half", hold: "never" }]));
    await waitFor("the turn", () => scene.model.calls.some((request) => JSON.stringify(request).includes("never")));
    await scene.herald.say("/stop answer", { chat: chat.id, kind: "button" });
    await scene.herald.reply(/Stopped/, chat.id);
    const again = plan([{ text: "whole" }]);
    await waitFor("its place", async () => (await resend(scene.herald, chat.id, first, again)).status === 202);
    await scene.herald.reply(/^whole$/, chat.id);
    expect(asked().join("\n")).not.toMatch(/person stopped|person ended/);
    expect(asked().join("\n")).not.toContain("half");
  });
});

describe("other words that are stopped before the agent has read them", () => {
  const NEW_WORDS = plan([{ text: "never said" }]);
  const bare = async (scene: Scene, { id }: Chat) => (await standing(scene.herald, id)).map((line) => line.replace(/!plan.*/, "…"));
  /** An exchange, and behind it other words for it that wait: the one place of the lane is somebody else's. */
  async function replaceInFullLane(scene: Scene): Promise<Chat> {
    const chat = scene.chat();
    const first = await chat.say(plan([{ text: "first answer" }]));
    await scene.herald.reply(/^first answer$/, chat.id);
    await scene.chat().say(plan([{ text: "at last", hold: "full" }]));
    await waitFor("the lane to be full", () => scene.model.calls.some((request) => JSON.stringify(request).includes("full")));
    await waitFor("the post", async () => (await resend(scene.herald, chat.id, first, NEW_WORDS)).status === 202);
    expect(await bare(scene, chat)).toEqual(["user: …"]);
    const waiting = "SELECT 1 FROM inbox WHERE state = 'waiting' AND session_key = ?";
    await waitFor("its place in the lane", () => scene.herald.rows(waiting, chat.key).length === 1);
    return chat;
  }
  /** What the next turn reads. */
  async function heard(scene: Scene, chat: Chat): Promise<string> {
    await chat.say(plan([{ text: "and then" }]));
    await scene.herald.reply(/^and then$/, chat.id);
    return JSON.stringify(scene.model.calls.findLast((request) => JSON.stringify(request).includes("and then"))?.messages);
  }

  it.each(["/stop", "/new"])("[WB3] [ST1] [SE5] %s: the earlier exchange counts again, in every tab and for the model", async (command) => {
    await using scene = await createScene({ mainConcurrent: 1 });
    const chat = await replaceInFullLane(scene);
    await using tab = await openEvents(scene.herald, `chat=${chat.id}`);
    await scene.herald.say(command, { chat: chat.id, kind: "button" });
    await scene.herald.reply(/Agent was aborted|New conversation/, chat.id);
    await waitFor("the tab", () => tab.of("edited").length === 2);
    expect(tab.of("edited").map(({ data }) => data.replacedBy)).toEqual([undefined, undefined]);
    expect((await bare(scene, chat)).slice(0, 3)).toEqual(["user: …", "agent: first answer", "user: …"]);
    scene.release("full");
    const read = await heard(scene, chat);
    expect(read.includes("first answer")).toBe(command === "/stop");
    expect(read).not.toContain("never said");
  });

  it("[WB3] [ST4] the earlier request was stopped, too: that is still said of it", async () => {
    await using scene = await createScene({ mainConcurrent: 1 });
    const chat = scene.chat();
    const first = await chat.say(plan([{ text: "half", hold: "never" }]));
    await waitFor("the turn", () => scene.model.calls.some((request) => JSON.stringify(request).includes("never")));
    await scene.herald.say("/stop answer", { chat: chat.id, kind: "button" });
    await scene.herald.reply(/Stopped/, chat.id);
    await scene.chat().say(plan([{ text: "at last", hold: "full" }]));
    await waitFor("the lane to be full", () => scene.model.calls.some((request) => JSON.stringify(request).includes("full")));
    await waitFor("the post", async () => (await resend(scene.herald, chat.id, first, NEW_WORDS)).status === 202);
    await scene.herald.say("/stop", { chat: chat.id, kind: "button" });
    await scene.herald.reply(/Agent was aborted/, chat.id);
    scene.release("full");
    expect(await heard(scene, chat)).toContain("the person stopped the answer above");
  });

  it.concurrent.each(["command.before-commit", "command.committed", "turn.claimed:3", "turn.input-appended:3"])(
    "[WB3] [RC1] killed at %s: the page and the model remember the same",
    { timeout: 60_000 },
    async (failpoint) => {
      await using scene = await createScene({ mainConcurrent: 1, failpoint });
      const chat = await replaceInFullLane(scene);
      const stop = (): Promise<unknown> => scene.herald.say("/stop", { chat: chat.id, kind: "button" });
      // The third turn is that of the new words, once there is room; stopped before, there would be none.
      const isTurn = failpoint.startsWith("turn.");
      const stopping = isTurn ? null : stop();
      if (isTurn) scene.release("full");
      await scene.herald.exited();
      await scene.herald.restart();
      await (stopping ?? stop());
      scene.release("full");
      const read = await heard(scene, chat);
      expect(read.includes("first answer")).toBe((await bare(scene, chat)).includes("agent: first answer"));
    },
  );
});

describe("kill -9 while the last message is replaced", () => {
  const POINTS = ["inbox.before-put", "gateway.routed", "turn.claimed", "turn.input-appended", "turn.reply-appended", "turn.before-commit"];
  it.concurrent.each(POINTS)(
    "[WB3] [RC1] at %s: the old exchange stands or the new one, never half of each",
    { timeout: 60_000 },
    async (point) => {
      const seen: string[][] = [];
      await using model = {
        server: await createFakeOpenAi({
          respond(request) {
            seen.push(request.messages.filter(({ role }) => role === "user").map(({ text }) => text));
            return { text: `answer to ${request.messages.findLast(({ role }) => role === "user")?.text}` };
          },
        }),
        [Symbol.asyncDispose]: () => model.server.close(),
      };
      await using herald = await createHerald({ config: scriptedConfig(model.server.url) });
      const replaced = await herald.say("old words");
      await herald.reply(/^answer to old words$/);
      await herald.crash();
      await herald.restart({ failpoint: point });
      const id = randomUUID();
      const first = await resend(herald, "main", replaced, "new words", id).then(
        ({ status }) => status,
        () => 0,
      );
      await herald.exited();
      await herald.restart();
      const counted = await standing(herald, "main");
      // Before it was on record nothing has changed; afterwards all of it has.
      expect(counted.slice(0, 1)).toEqual([point === "inbox.before-put" ? "user: old words" : "user: new words"]);
      expect([0, 202]).toContain(first);
      await waitFor("the post", async () => (await resend(herald, "main", replaced, "new words", id)).status === 202);
      await herald.reply(/^answer to new words$/);
      expect(await standing(herald, "main")).toEqual(["user: new words", "agent: answer to new words"]);
      expect(seen.slice(1).every((texts) => !texts.includes("old words"))).toBe(true);
    },
  );
});

it("[WB3] kill -9 right behind a deletion: the messages are gone, and the transcript is archived at the next start", async () => {
  await using model = {
    server: await createFakeOpenAi({ respond: () => ({ text: "said" }) }),
    [Symbol.asyncDispose]: () => model.server.close(),
  };
  await using herald = await createHerald({ config: scriptedConfig(model.server.url), failpoint: "chat.deleted" });
  await herald.say("words");
  await herald.reply(/^said$/);
  // Its answer is on the page before its row says so.
  const deleting = waitFor("the deletion", async () => (await post(herald, "/api/chats/main/delete", {})).status === 200).catch(() => {});
  await herald.exited();
  await herald.restart();
  await deleting;
  expect(await herald.messages()).toEqual([]);
  await waitFor("nothing to be left", () => herald.rows("SELECT 1 FROM sessions WHERE to_archive IS NOT NULL").length === 0);
  if (isShared) return;
  const names = readdirSync(join(herald.stateDir, "agents/main/sessions"));
  expect(names.filter((name) => name.includes(".jsonl"))).toEqual([expect.stringMatching(/\.jsonl\.deleted\./)]);
});

describe("names, removal, search and export", () => {
  let scene: Scene;
  beforeAll(async () => {
    scene = await createScene();
  });
  afterEach(async () => scene.calm());
  afterAll(async () => scene[Symbol.asyncDispose]());
  const chats = async () =>
    ((await (await scene.herald.request("/api/chats")).json()) as { chats: { id: string; title: string | null }[] }).chats;
  const titleOf = async (id: string) => (await chats()).find((chat) => chat.id === id)?.title;

  it("[WB3] a chat has the name it was given, on one line, until that is taken away", async () => {
    const chat = scene.chat();
    await chat.ask("hello there");
    expect(await titleOf(chat.id)).toBe("hello there");
    await post(scene.herald, `/api/chats/${chat.id}/title`, { title: "  My\nplans\u202e \u0007" });
    expect(await titleOf(chat.id)).toBe("My plans");
    await post(scene.herald, `/api/chats/${chat.id}/title`, { title: " " });
    expect(await titleOf(chat.id)).toBe("hello there");
    expect((await post(scene.herald, "/api/chats/nonsense/title", { title: "x" })).status).toBe(404);
    expect((await post(scene.herald, `/api/chats/${chat.id}/title`, { title: 7 })).status).toBe(400);
  });

  it("[WB3] is not deleted while anything of it works; then its messages are gone and its transcripts archived", async () => {
    const chat = scene.chat();
    await chat.act([spawns(child("worker", [{ text: "done", hold: "working" }]))]);
    const about = async () => (await scene.herald.request(`/api/chats/${chat.id}/about`)).json();
    expect(await about()).toMatchObject({ isAtWork: false, running: 1 });
    const refused = await post(scene.herald, `/api/chats/${chat.id}/delete`, {});
    expect(await errorOf(refused)).toBe("1 sub-agent of this chat is still at work. Stop it first: /stop in that chat ends all of it.");
    scene.release("working");
    await chat.announced("worker");
    const [session] = scene.herald.rows<{ id: string }>("SELECT id FROM sessions WHERE key = ? AND ended_at IS NULL", chat.key);
    await waitFor("the deletion", async () => (await post(scene.herald, `/api/chats/${chat.id}/delete`, {})).status === 200);
    expect(await scene.herald.messages(chat.id)).toEqual([]);
    expect(await titleOf(chat.id)).toBeUndefined();
    expect(scene.herald.rows("SELECT id FROM sessions WHERE key = ? AND ended_at IS NULL", chat.key)).toEqual([]);
    if (!isShared) {
      const folder = join(scene.herald.stateDir, "agents/main/sessions");
      await waitFor("the archived name", () => readdirSync(folder).some((name) => name.startsWith(`${session?.id}.jsonl.deleted.`)));
      expect(existsSync(join(folder, `${session?.id}.jsonl`))).toBe(false);
    }
    // A new word begins a new conversation there.
    expect(await chat.ask(plan([{ text: "begun anew" }]))).toBe("begun anew");
    expect(scene.model.calls.at(-1)?.messages.some(({ text }) => text.includes("worker"))).toBe(false);
  });

  it("[WB3] search finds words in all chats as they are, newest first, with what stands around them", async () => {
    const [one, other] = [scene.chat(), scene.chat()];
    await one.ask(plan([{ text: "The 100%_sure Kingfisher sat on a branch." }]));
    await other.ask("Did you see the kingFISHER?");
    const search = async (q: string) =>
      (await (await scene.herald.request(`/api/search?q=${encodeURIComponent(q)}`)).json()) as {
        hits: { chat: string; before: string; hit: string; after: string; seq: number }[];
        chats: { id: string }[];
      };
    const { hits, chats: named } = await search("kingfisher");
    expect(hits.filter(({ chat }) => chat === other.id)[0]).toMatchObject({ before: "Did you see the ", hit: "kingFISHER", after: "?" });
    expect(hits.map(({ chat }) => chat)).toContain(one.id);
    expect(hits.map(({ seq }) => seq)).toEqual(hits.map(({ seq }) => seq).sort((a, b) => b - a));
    expect(named.map(({ id }) => id)).toContain(other.id);
    expect((await search("100%_sure")).hits.some(({ chat }) => chat === one.id)).toBe(true);
    // Signs that LIKE reads otherwise are signs.
    expect((await search("100__sure")).hits).toEqual([]);
    expect((await search("Kingf%branch")).hits).toEqual([]);
    expect((await scene.herald.request("/api/search?q=x")).status).toBe(400);
  });

  it("[WB3] PAGE-008 a chat is exported as Markdown and JSON: all that was said, as text, under a safe name", async () => {
    const chat = scene.chat();
    const attack = `"><img src=x onerror=alert(1)> [x](javascript:alert(1))`;
    await chat.ask(plan([{ text: `${attack}\n\n\`\`\`html\n<b>code</b>` }]));
    await post(scene.herald, `/api/chats/${chat.id}/title`, { title: `../${attack}` });
    const markdown = await scene.herald.request(`/api/chats/${chat.id}/export?as=markdown`);
    expect(markdown.headers.get("content-type")).toBe("text/markdown; charset=utf-8");
    const name = decodeURIComponent(/filename\*=UTF-8''(.+)$/.exec(markdown.headers.get("content-disposition") ?? "")?.[1] ?? "");
    expect(name).toMatch(/^[\p{L}\p{N}-]+\.md$/u);
    const text = await markdown.text();
    expect(text).toContain("\\<img src=x onerror=alert(1)>");
    expect(text).toContain("[x\\](javascript:alert(1))");
    expect(text).toContain("```html\n<b>code</b>\n```");
    expect(text.replace(/^```[\s\S]*?^```/gm, "")).not.toMatch(/(?<!\\)<[a-z]/i);
    const json = await scene.herald.request(`/api/chats/${chat.id}/export?as=json`);
    const { messages } = JSON.parse(await json.text()) as { messages: { author: string; text: string }[] };
    expect(messages.map(({ author }) => author)).toEqual(["user", "agent"]);
    expect(messages[1]?.text).toContain(attack);
    expect((await scene.herald.request(`/api/chats/${chat.id}/export?as=pdf`)).status).toBe(400);
  });

  it("[WB3] the commands to complete are those of /help, with what can follow them", async () => {
    const { commands } = (await (await scene.herald.request("/api/commands")).json()) as { commands: { text: string; summary: string }[] };
    const texts = commands.map(({ text }) => text);
    expect(texts).toEqual(expect.arrayContaining(["/help", "/stop", "/new", "/subagents", "/subagents stop", "/subagents rerun"]));
    expect(texts).not.toContain("/start");
    expect(commands.every(({ summary }) => summary !== "")).toBe(true);
  });
});
