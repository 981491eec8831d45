// What Discord sends → what was said: mentions, replies, threads, forwards, files, commands and presses; and what is nobody's message.
import { describe, expect, it } from "vitest";
import { decodePayload } from "../../../src/channels/discord/decode.ts";
import type { Inbound } from "../../../src/core/message.ts";

const ME = "1000000000000000001";
const ANN = { id: "42", username: "ann", global_name: "Ann" };
const CHANNEL = { kind: "channel" } as const;

const decode = (payload: Record<string, unknown>, place: object = { kind: "dm" }, kind = "message"): Inbound | null =>
  decodePayload({ me: ME, kind, place, payload }, ME);
const said = (more: Record<string, unknown> = {}): Record<string, unknown> => ({
  ...{ id: "900", channel_id: "500", type: 0, author: ANN, content: "hello", attachments: [], mentions: [] },
  ...more,
});

describe("messages", () => {
  it("[DC1] a direct message, a channel, and a thread of a channel have their own addresses", () => {
    const base = { channel: "discord", account: ME };
    expect(decode(said())).toMatchObject({
      address: { ...base, chat: "500", kind: "dm" },
      mentioned: true,
      sender: { id: "42", name: "Ann" },
    });
    expect(decode(said(), CHANNEL)?.address).toEqual({ ...base, chat: "500", kind: "channel" });
    expect(decode(said(), { kind: "channel", parent: "400" })?.address).toEqual({ ...base, chat: "400", thread: "500", kind: "channel" });
  });

  it("[DC1] a mention or a reply to us is said to us, and our name is no part of the words; other names read as names", () => {
    const bob = { id: "43", username: "bob" };
    const named = decode(said({ content: `<@${ME}> ask <@43> and <:wave:77>`, mentions: [{ id: ME }, bob] }), CHANNEL);
    expect(named).toMatchObject({ text: "ask @bob and :wave:", mentioned: true });
    expect(decode(said({ content: "so what" }), CHANNEL)?.mentioned).toBe(false);
    const reply = { type: 19, message_reference: { message_id: "800" } };
    const toUs = decode(said({ ...reply, referenced_message: { id: "800", author: { id: ME }, content: "Which?" } }), CHANNEL);
    expect(toUs).toMatchObject({ mentioned: true, repliesTo: "800" });
    const toBob = decode(said({ ...reply, referenced_message: { id: "800", author: bob, content: "blue" } }), CHANNEL);
    expect(toBob).toMatchObject({ mentioned: false, quoted: { source: "the message being answered, of bob", text: "blue" } });
    expect(decode(said({ content: `<@${ME}>` }), CHANNEL)?.text).toContain(ME);
  });

  it("[SC5] bots, webhooks, ourselves and what Discord says itself are nobody's message", () => {
    for (const more of [
      { author: { ...ANN, bot: true } },
      { author: { ...ANN, system: true } },
      { author: { ...ANN, id: ME } },
      { webhook_id: "7" },
      { type: 7 },
      { type: 20 },
      { content: "" },
      { id: "../../x" },
      { author: { id: "42; drop" } },
    ])
      expect(decode(said(more)), JSON.stringify(more)).toBeNull();
  });

  it("[CM1] a command typed as text; among people only ours without our name", () => {
    expect(decode(said({ content: "/Subagents list" }))).toMatchObject({ kind: "command", text: "/subagents list" });
    expect(decode(said({ content: "/stop" }), CHANNEL)).toMatchObject({ kind: "command", mentioned: true });
    expect(decode(said({ content: "/shrug" }), CHANNEL)).toMatchObject({ kind: "message", mentioned: false });
    expect(decode(said({ content: `<@${ME}> /shrug` }), CHANNEL)).toMatchObject({ kind: "command", text: "/shrug" });
    expect(decode(said({ content: "`/stop`" }))).toMatchObject({ kind: "message", text: "`/stop`" });
  });

  it("[IN4] forwarded words are quoted and run nothing", () => {
    const snapshots = [{ message: { content: "/stop", attachments: [] } }];
    const forwarded = decode(said({ content: "", message_reference: { type: 1, message_id: "1" }, message_snapshots: snapshots }));
    expect(forwarded).toMatchObject({ kind: "message", text: "[forwarded message]", isWordless: true, quoted: { text: "/stop" } });
  });

  it("[CH2] files are named by where they stand, and their names can't forge a note", () => {
    const attachments = [
      { id: "71", filename: "a]\n[file b.txt", size: 2048, content_type: "text/plain", url: "https://cdn.discordapp.com/a" },
      { id: "72", filename: "v.ogg", size: 9, content_type: "audio/ogg", waveform: "AA" },
    ];
    const inbound = decode(said({ content: "look", attachments, sticker_items: [{ name: "Wave" }] }));
    expect(inbound?.text).toBe("[file a file b.txt 2 KB]\n[voice message v.ogg 9 B]\n[sticker Wave]\nlook");
    expect(inbound?.files).toMatchObject([
      { source: { remote: "500/900/71" }, kind: "file", size: 2048 },
      { source: { remote: "500/900/72" }, kind: "voice message" },
    ]);
  });

  it("[CH2][CM1] a command keeps its file, and its words stand apart", () => {
    const attachments = [{ id: "71", filename: "a.txt", url: "https://cdn.discordapp.com/a" }];
    const [known, other] = ["/status", "!status"].map((content) => decode(said({ content, attachments })));
    expect(known).toMatchObject({ kind: "command", text: "/status", files: [{ name: "a.txt" }] });
    expect(other).toMatchObject({ text: "[file a.txt]\n!status", words: "!status", files: [{ name: "a.txt" }] });
  });
});

describe("interactions", () => {
  const interaction = (more: Record<string, unknown>): Record<string, unknown> => ({
    ...{ id: "901", application_id: "9", type: 2, token: "tok_1", channel_id: "500", member: { user: ANN } },
    data: { name: "subagents", options: [{ name: "words", value: "stop 1" }] },
    ...more,
  });

  it("[CM1] a slash command is the line that would be typed, answered by its token", () => {
    expect(decode(interaction({}), CHANNEL, "interaction")).toMatchObject({
      ...{ kind: "command", text: "/subagents stop 1", sender: { id: "42" }, mentioned: true },
      onlyTo: { id: "901", app: "9", token: "tok_1", way: "command" },
    });
    expect(decode(interaction({ member: undefined, user: ANN }), { kind: "dm" }, "interaction")?.onlyTo).toMatchObject({ way: "command" });
  });

  it("[LV4] a press carries the command of its button; one made by hand means nothing; in a direct chat its answer is a message", () => {
    const press = (custom: string, place: object = CHANNEL) =>
      decode(interaction({ type: 3, data: { custom_id: custom } }), place, "interaction");
    expect(press("/subagents stop x@1")).toMatchObject({ kind: "button", text: "/subagents stop x@1", onlyTo: { way: "press" } });
    expect(press("rm -rf")).toMatchObject({ kind: "button", text: "" });
    expect(press("/stop", { kind: "dm" })?.onlyTo).toBeUndefined();
  });

  it("[SC2] a message's fields make no command of it, nor the other way round", () => {
    expect(decode(interaction({}), CHANNEL, "message")).toBeNull();
    expect(decode(said(), CHANNEL, "interaction")).toBeNull();
    expect(decode(interaction({ member: { user: { ...ANN, bot: true } } }), CHANNEL, "interaction")).toBeNull();
  });
});
