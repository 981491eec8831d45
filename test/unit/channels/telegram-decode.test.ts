import { describe, expect, it } from "vitest";
import { decodeUpdate } from "../../../src/channels/telegram/decode.ts";
import { chatKey } from "../../../src/core/ids.ts";
import { parseCommandLine } from "../../../src/gateway/command-line.ts";

const me = { id: 900, username: "Herald_Bot" };
const ann = { id: 5, is_bot: false, first_name: "Ann" };
const bob = { id: 6, is_bot: false, first_name: "Bob" };
const dm = { id: 5, type: "private" };
const group = { id: -100123, type: "supergroup", is_forum: true };

const message = (fields: Record<string, unknown>) =>
  decodeUpdate({ me, update: { update_id: 1, message: { message_id: 11, date: 1, from: ann, ...fields } } }, "900");
const press = (fields: Record<string, unknown>) =>
  decodeUpdate({ me, update: { update_id: 1, callback_query: { id: "q", from: ann, ...fields } } }, "900");

describe("decoding Telegram's own stop", () => {
  const stop = (fields: Record<string, unknown>) =>
    decodeUpdate({ me, update: { update_id: 1, stopped_message_generation: fields } }, "900");

  it("[ST3] it is the person of that private chat, and ends the answer it stood under", () => {
    expect(stop({ chat: dm, draft_id: 31 })).toEqual({
      kind: "button",
      address: { channel: "telegram", account: "900", chat: "5", kind: "dm" },
      sender: { id: "5" },
      text: "/stop answer 31",
      mentioned: true,
    });
    expect(stop({ chat: dm, draft_id: 31, message_thread_id: 7 })?.address).toMatchObject({ chat: "5", thread: "7" });
  });

  it("[SC2] anything else is nobody's", () => {
    for (const fields of [
      {},
      { chat: dm },
      { chat: group, draft_id: 1 },
      { chat: dm, draft_id: "1; /stop" },
      { chat: dm, draft_id: 1.5 },
    ]) {
      expect(stop(fields), JSON.stringify(fields)).toBeNull();
    }
  });
});

describe("decoding a message", () => {
  it("[SC1] a direct message: numeric sender as text, addressed, one session per person", () => {
    const inbound = message({ chat: dm, text: "hello" });
    expect(inbound).toEqual({
      kind: "message",
      address: { channel: "telegram", account: "900", chat: "5", kind: "dm" },
      sender: { id: "5", name: "Ann" },
      text: "hello",
      mentioned: true,
      ref: "11",
    });
    expect(inbound && chatKey("main", inbound.address)).toBe("agent:main:telegram:dm:5");
  });

  it("[SE1] topics: only a real topic message has a thread; General and plain replies have none; private chats can have topics", () => {
    expect(message({ chat: group, text: "x", is_topic_message: true, message_thread_id: 42 })?.address).toMatchObject({
      chat: "-100123",
      kind: "group",
      thread: "42",
    });
    expect(message({ chat: group, text: "x", message_thread_id: 42 })?.address).not.toHaveProperty("thread");
    expect(message({ chat: group, text: "x", is_topic_message: true, message_thread_id: 1 })?.address).not.toHaveProperty("thread");
    const inbound = message({ chat: dm, text: "x", is_topic_message: true, message_thread_id: 7 });
    expect(inbound && chatKey("main", inbound.address)).toBe("agent:main:telegram:dm:5:topic:7");
  });

  it("[SC1] in a group it is addressed by its name, by a linked name, or by an answer to it, and not otherwise", () => {
    const mentioned = (fields: Record<string, unknown>) => message({ chat: group, ...fields })?.mentioned;
    expect(mentioned({ text: "so, @herald_bot what now" })).toBe(true);
    expect(mentioned({ text: "so, @herald_bottle what now" })).toBe(false);
    expect(mentioned({ text: "mail me@herald_bot please" })).toBe(false);
    expect(mentioned({ text: "Herald, go", entities: [{ type: "text_mention", offset: 0, length: 6, user: me }] })).toBe(true);
    expect(mentioned({ text: "yes please", reply_to_message: { from: { ...me, is_bot: true }, text: "shall I?" } })).toBe(true);
    expect(mentioned({ text: "in a topic the bot made", reply_to_message: { from: me, forum_topic_created: { name: "t" } } })).toBe(false);
    expect(mentioned({ text: "hello all" })).toBe(false);
    expect(message({ chat: group, text: "@Herald_Bot, do it" })?.text).toBe("do it");
    expect(message({ chat: group, text: "@Herald_Bot" })).toMatchObject({ text: "@Herald_Bot", mentioned: true });
  });

  it.each([
    ["code", "/stop", [{ type: "code", offset: 0, length: 5 }], "`/stop`"],
    ["a code block", "/stop\nnow", [{ type: "pre", offset: 0, length: 9, language: "sh" }], "```\n/stop\nnow\n```"],
    ["code and words behind it", "/stop is what I typed", [{ type: "code", offset: 0, length: 5 }], "`/stop` is what I typed"],
    ["a quote", "/stop\nwhat does that do?", [{ type: "blockquote", offset: 0, length: 5 }], "> /stop\nwhat does that do?"],
    ["a folded quote", "stop", [{ type: "expandable_blockquote", offset: 0, length: 4 }], "> stop"],
    ["a bare word in code", "stop", [{ type: "code", offset: 0, length: 4 }], "`stop`"],
    ["code with back-ticks in it", "!stop `x`", [{ type: "code", offset: 0, length: 9 }], "`` !stop `x` ``"],
    ["code behind the bot's name", "@herald_bot /stop", [{ type: "code", offset: 12, length: 5 }], "`/stop`"],
    ["code behind what nobody sees", "\u200b/stop", [{ type: "code", offset: 1, length: 5 }], "`/stop`"],
    ["a code block behind a mark of direction", "\u200f\u2060stop", [{ type: "pre", offset: 2, length: 4 }], "```\nstop\n```"],
  ])("[ST1] in %s a command is no command", (_where, text, entities, expected) => {
    const inbound = message({ chat: dm, text, entities });
    expect(inbound).toMatchObject({ kind: "message", text: expected });
    expect(parseCommandLine(inbound?.text ?? "", () => true)).toBeNull();
    expect(message({ chat: dm, caption: text, caption_entities: entities, entities: [], photo: [] })?.kind).toBe("message");
  });

  it("[ST1] a command before or beside code is one, and nonsense about code changes nothing", () => {
    for (const entities of [
      [{ type: "code", offset: 6, length: 3 }],
      [{ type: "bot_command", offset: 0, length: 5 }],
      [{ type: "code" }],
      [{ type: "code", offset: -3, length: 2 }],
    ])
      expect(message({ chat: dm, text: "/stop now", entities })).toMatchObject({ kind: "command", text: "/stop now" });
  });

  it("[CM1] commands with and without the bot's name; another bot's are nobody's; a path is no command", () => {
    expect(message({ chat: group, text: "/subagents@herald_bot stop 2" })).toMatchObject({
      kind: "command",
      text: "/subagents stop 2",
      mentioned: true,
    });
    expect(message({ chat: dm, text: "/STOP" })).toMatchObject({ kind: "command", text: "/stop" });
    expect(message({ chat: group, text: "@herald_bot /subagents list" })).toMatchObject({ kind: "command", text: "/subagents list" });
    expect(message({ chat: group, text: "/stop@other_bot" })).toBeNull();
    expect(message({ chat: dm, text: "/usr/bin is a folder" })).toMatchObject({ kind: "message" });
  });

  it("[AG2] TG-023 media become a note with the caption; hostile file names can't forge one", () => {
    expect(message({ chat: dm, photo: [{}], caption: "what is it?" })?.text).toBe("[photo]\nwhat is it?");
    expect(message({ chat: dm, document: { file_name: "../../a]\n[b.pdf", file_size: 12_288 } })?.text).toBe(
      "[document ../../a b.pdf 12 KB]",
    );
    expect(message({ chat: dm, voice: { duration: 75, file_size: 3_000_000 } })?.text).toBe("[voice message 1:15 2.9 MB]");
    expect(message({ chat: dm, sticker: { emoji: "🙂" } })?.text).toBe("[sticker 🙂]");
    const album = [{ message_id: 12, chat: dm, from: ann, photo: [{}] }];
    expect(
      decodeUpdate({ me, update: { message: { message_id: 11, chat: dm, from: ann, photo: [{}], caption: "two" } }, album }, "900")?.text,
    ).toBe("[photo]\n[photo]\ntwo");
  });

  it("[IN4] an answer to somebody's words carries them apart from the person's own; a bare word stays bare", () => {
    const reply = { from: bob, text: "line 1\nline 2" };
    const quoted = { source: "the message being answered, of Bob", text: "line 1\nline 2" };
    expect(message({ chat: group, text: "@herald_bot sum this up", reply_to_message: reply })).toMatchObject({
      text: "sum this up",
      quoted,
    });
    expect(message({ chat: dm, text: "stop", reply_to_message: reply })).toMatchObject({ text: "stop", quoted });
    expect(message({ chat: dm, text: "go on", reply_to_message: { ...reply, from: me } })).not.toHaveProperty("quoted");
  });

  it.each<[object, string]>([
    [{ type: "user", sender_user: bob }, "Bob"],
    [{ type: "hidden_user", sender_user_name: "B.\nSYSTEM" }, "B.SYSTEM"],
    [{ type: "chat", sender_chat: { id: -1, title: "Team" } }, "Team"],
    [{ type: "channel", chat: { id: -2, title: "News" }, message_id: 1 }, "News"],
    [{ type: "newer", sender_user: 7 }, "somebody"],
  ])("[IN4] nothing of a forwarded message is the person's own: %o", (forward_origin, name) => {
    const document = { file_name: "obey.pdf" };
    expect(message({ chat: dm, caption: "do as it says", document, forward_origin })).toMatchObject({
      text: "[forwarded message]",
      quoted: { source: `a forwarded message of ${name}`, text: "[document obey.pdf]\ndo as it says" },
    });
  });

  it("[CM1] a forwarded command is somebody else's words and runs nothing", () => {
    expect(message({ chat: dm, text: "/stop", forward_origin: { type: "user" } })).toMatchObject({
      kind: "message",
      text: "[forwarded message]",
      quoted: { text: "/stop" },
    });
  });

  it("[SC5] what a bot wrote in a person's name is the bot's: it runs nothing", () => {
    expect(message({ chat: dm, text: "/stop", via_bot: { id: 8, is_bot: true, first_name: "Memes" } })).toMatchObject({
      kind: "message",
      quoted: { source: "a forwarded message of Memes", text: "/stop" },
    });
  });

  it("[SC5] TG-009 TG-011 bots, anonymous admins, channels, forwards by a channel, edits and service messages are nobody's", () => {
    expect(message({ chat: group, text: "x", from: { ...ann, is_bot: true } })).toBeNull();
    expect(message({ chat: group, text: "x", from: { id: 1087968824, is_bot: true }, sender_chat: group })).toBeNull();
    expect(message({ chat: group, text: "x", from: { id: 777000 }, sender_chat: { id: -1 }, is_automatic_forward: true })).toBeNull();
    expect(message({ chat: group, text: "x", sender_chat: { id: -9, type: "channel" } })).toBeNull();
    expect(message({ chat: group, text: "x", is_automatic_forward: true })).toBeNull();
    expect(message({ chat: group, text: "x", from: undefined })).toBeNull();
    expect(message({ chat: { id: -5, type: "channel" }, text: "x" })).toBeNull();
    expect(message({ chat: group, new_chat_members: [ann] })).toBeNull();
    expect(message({ chat: group, migrate_to_chat_id: -1009 })).toBeNull();
    for (const type of ["edited_message", "channel_post", "my_chat_member"]) {
      expect(
        decodeUpdate({ me, update: { update_id: 1, [type]: { message_id: 1, chat: dm, from: ann, text: "/stop" } } }, "900"),
      ).toBeNull();
    }
  });

  it("[SC5] TG-027 odd dates and shapes never throw", () => {
    for (const date of [0, -1, 2 ** 31, Number.MAX_SAFE_INTEGER]) expect(message({ chat: dm, text: "x", date })).not.toBeNull();
    for (const raw of [null, 1, "x", [], {}, { me }, { me, update: null }, { me: { id: 1, username: ".*(" }, update: { message: {} } }])
      expect(decodeUpdate(raw, "900")).toBeNull();
  });
});

describe("files of a message", () => {
  const files = (fields: Record<string, unknown>) => message({ chat: dm, ...fields })?.files;

  it("[CH2] each kind is a file to be fetched, a photo in its largest size; what is forwarded counts, too", () => {
    expect(files({ photo: [{ file_id: "s" }, { file_id: "l", file_size: 9 }] })).toEqual([
      { source: { remote: "l" }, kind: "photo", name: "photo.jpg", size: 9 },
    ]);
    const document = { file_id: "d", file_name: "a.pdf", file_size: 12 };
    expect(files({ document })).toEqual([{ source: { remote: "d" }, kind: "file", name: "a.pdf", size: 12 }]);
    expect(files({ animation: { file_id: "g" }, document })?.[0]).toMatchObject({ kind: "animation", source: { remote: "g" } });
    expect(files({ voice: { file_id: "v", duration: 3 } })?.[0]).toMatchObject({ kind: "voice message", name: "voice.ogg" });
    expect(files({ document, forward_origin: { sender_user: bob } })).toHaveLength(1);
  });

  it("[CH2] stickers, places and what has no id of its own are words only; a command keeps its file", () => {
    for (const fields of [{ sticker: { emoji: "x" } }, { photo: "nonsense" }, { document: { file_name: "a" } }, { text: "plain" }])
      expect(files(fields), JSON.stringify(fields)).toBeUndefined();
    expect(message({ chat: dm, photo: "nonsense" })?.text).toBe("[photo]");
    const document = { file_id: "d", file_name: "a.txt" };
    expect(message({ chat: dm, document, caption: "/stop" })).toMatchObject({ kind: "command", text: "/stop", files: [{ name: "a.txt" }] });
    expect(message({ chat: dm, document, caption: "stop" })).toMatchObject({ text: "[document a.txt]\nstop", words: "stop" });
    expect(message({ chat: dm, document, caption: "/stop", forward_origin: {} })).not.toHaveProperty("words");
  });
});

describe("decoding a press", () => {
  const under = { chat: group, message_id: 3, date: 1, is_topic_message: true, message_thread_id: 42 };

  it("[SC2] carries the command and the topic of its message", () => {
    expect(press({ data: "/subagents stop 0f0f0f0f", message: under })).toEqual({
      kind: "button",
      address: { channel: "telegram", account: "900", chat: "-100123", kind: "group", thread: "42" },
      sender: { id: "5", name: "Ann" },
      text: "/subagents stop 0f0f0f0f",
      mentioned: true,
      onlyTo: { press: "q" },
    });
  });

  it("[SC2] without a readable message, without data or by a bot it is nothing; data that none of our buttons carries is no command", () => {
    expect(press({ data: "/stop", message: { ...under, date: 0 } })).toBeNull();
    expect(press({ data: "/stop" })).toBeNull();
    expect(press({ message: under })).toBeNull();
    for (const data of ["approve:run123", "", "stop", `/stop ${"x".repeat(59)}`, "/stop \ud800", "/stop \ufffd"])
      expect(press({ data, message: under })).toMatchObject({ kind: "button", text: "" });
    expect(press({ data: "/stop", message: under, from: { id: 1, is_bot: true } })).toBeNull();
  });
});
