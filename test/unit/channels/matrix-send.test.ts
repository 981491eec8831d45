// One attempt to send or edit on Matrix, and what its outcome means; answers that grow; settings that can't work.
import { describe, expect, it } from "vitest";
import { createMatrixChannel } from "../../../src/channels/matrix/channel.ts";
import { systemClock } from "../../../src/core/clock.ts";
import { AppError } from "../../../src/core/errors.ts";
import { silentLogger } from "../../../src/core/logger.ts";
import { draftBegun, type OutMessage, type SendResult } from "../../../src/core/message.ts";
import { PERSON } from "../../support/fake-matrix.ts";
import { createMatrixRig, DIRECT, type MatrixRig, OTHER, ROOM } from "../../support/matrix-rig.ts";
import { createMemoryAccounts } from "../../support/memory-accounts.ts";

const requestOf = ({ channel, at }: MatrixRig, message: OutMessage, chat = DIRECT, thread?: string) => {
  const address = at(chat, thread);
  return { address, part: channel.render(message, address)[0] ?? {}, key: `reply:${message.markdown}#0`, repeated: false };
};
const refOf = (result: SendResult | undefined): string => (result?.status === "sent" ? result.ref : "");

describe("sending", () => {
  it.each([
    ["not in the room", { status: 403, errcode: "M_FORBIDDEN" }, { status: "failed", reason: expect.stringContaining("M_FORBIDDEN") }],
    ["no such room", { status: 404, errcode: "M_NOT_FOUND" }, { status: "failed" }],
    ["a room whose thread takes nothing", { status: 400, errcode: "M_UNKNOWN_THREAD" }, { status: "retarget", address: { chat: ROOM } }],
    ["bad JSON", { status: 400, errcode: "M_BAD_JSON" }, { status: "rerender", part: { body: "bold" } }],
    ["the token", { status: 401, errcode: "M_UNKNOWN_TOKEN" }, { status: "retry", afterMs: 60_000 }],
    ["a limit without a time", { status: 429, errcode: "M_LIMIT_EXCEEDED" }, { status: "retry", afterMs: 5_000 }],
  ])("[DL3][MX1] %s", async (_what, fault, expected) => {
    await using rig = await createMatrixRig();
    rig.fake.faults.add("send", fault);
    expect(await rig.channel.send(requestOf(rig, { markdown: "**bold**" }, ROOM, "$root"))).toMatchObject(expected);
  });

  it("[DL3] nobody listens: surely not sent", async () => {
    await using rig = await createMatrixRig();
    await rig.fake.close();
    expect(await rig.channel.send(requestOf(rig, { markdown: "x" }))).toMatchObject({ status: "retry" });
  });

  it("[DL4][MX1] the same row twice is one event, also from another process, and is found when the server has forgotten it", async () => {
    await using rig = await createMatrixRig();
    const { channel, fake } = rig;
    const request = requestOf(rig, { markdown: "once" });
    const ref = refOf(await channel.send(request));
    expect(refOf(await channel.send(request))).toBe(ref);
    fake.forgetTransactions();
    expect(await channel.reconcile?.({ ...request, since: Date.now() })).toEqual({ status: "found", ref });
    expect(await channel.reconcile?.({ ...request, key: "reply:never#0", since: 0 })).toEqual({ status: "absent" });
    for (let n = 0; n < 250; n++) fake.say({ room: DIRECT, text: `chatter ${n}` });
    expect(await channel.reconcile?.({ ...request, since: Date.now() })).toEqual({ status: "found", ref });
    expect(fake.messages(DIRECT)).toHaveLength(1);
  });

  it("[DL1][MX1] a database that begins anew gives the same keys to other messages: a server that remembers them shows all the same", async () => {
    await using rig = await createMatrixRig();
    const { channel, fake } = rig;
    const drafts = channel.drafts;
    const send = (markdown: string, madeAt: number, ref?: string) =>
      channel.send({ ...requestOf(rig, { markdown }), key: "reply:1#0", madeAt, ...(ref === undefined ? {} : { ref }) });
    const begin = async (markdown: string): Promise<string> => {
      const shown = await drafts?.show({ ...requestOf(rig, { markdown }), id: 1, key: "reply:1#0", markdown, reader: PERSON, ref: null });
      return shown?.status === "shown" ? (shown.ref ?? "") : "";
    };
    const once = refOf(await send("plain", 1));
    expect(refOf(await send("plain", 1))).toBe(once);
    await send("other", 2);
    await send("the first answer", 3, await begin("the first"));
    await send("the second answer", 4, await begin("the second"));
    expect(fake.messages(DIRECT).map(({ text }) => text)).toEqual(["plain", "other", "the first answer", "the second answer"]);
    const { part, address } = requestOf(rig, { markdown: "other" });
    expect(await channel.reconcile?.({ address, part, key: "reply:1#0", madeAt: 9, since: Date.now() })).toEqual({ status: "absent" });
  });

  it("[DL4] absent counts only when no request can be on its way any more", async () => {
    await using rig = await createMatrixRig({ settleMs: 60_000 });
    const request = requestOf(rig, { markdown: "x" });
    expect(await rig.channel.reconcile?.({ ...request, since: Date.now() })).toMatchObject({ status: "unknown" });
    expect(await rig.channel.reconcile?.({ ...request, since: Date.now() - 61_000 })).toMatchObject({ status: "absent" });
  });

  it("[AN3] in a thread it names the thread; without it, it says that the thread is gone", async () => {
    await using rig = await createMatrixRig();
    const request = requestOf(rig, { markdown: "x", replyTo: "$asked" }, ROOM, "$root");
    await rig.channel.send(request);
    await rig.channel.send({ ...request, address: rig.at(ROOM), key: "moved" });
    expect(rig.fake.messages(ROOM).map(({ text, thread, replyTo }) => [text, thread, replyTo])).toEqual([
      ["x", "$root", "$asked"],
      ["(the thread this belongs to is gone)\n\nx", null, "$asked"],
    ]);
  });

  it("[AP1] a person's id is their direct room: the one that is known, or a new one", async () => {
    await using rig = await createMatrixRig();
    const { channel, fake, at } = rig;
    const to = (chat: string) => channel.send({ ...requestOf(rig, { markdown: "x" }), address: at(chat) });
    fake.accountData.set("m.direct", { [PERSON]: ["!left:home.test", DIRECT], broken: "x" });
    expect(await to(PERSON)).toMatchObject({ status: "retarget" });
    fake.accountData.set("m.direct", { [PERSON]: ["!left:home.test", DIRECT] });
    expect(await to(PERSON)).toMatchObject({ status: "retarget", address: { chat: DIRECT, kind: "dm" } });
    const made = await to(OTHER);
    expect(made).toMatchObject({ status: "retarget", address: { chat: expect.stringMatching(/^!made/) } });
    expect(await to(OTHER)).toEqual(made);
  });

  it("[AP1][SE1] a room the person has left, or where somebody else reads along, is not the one with them", async () => {
    await using rig = await createMatrixRig();
    const { channel, fake, at } = rig;
    const to = (chat: string) => channel.send({ ...requestOf(rig, { markdown: "x" }), address: at(chat) });
    fake.room("!theirs:home.test", [OTHER]);
    fake.accountData.set("m.direct", { [PERSON]: [DIRECT, ROOM], [OTHER]: ["!theirs:home.test"] });
    expect(await to(PERSON)).toMatchObject({ status: "retarget", address: { chat: DIRECT } });
    fake.enter(DIRECT, OTHER);
    expect(await to(PERSON)).toMatchObject({ status: "retarget", address: { chat: expect.stringMatching(/^!made/) } });
    fake.leave("!theirs:home.test", OTHER);
    expect(await to(OTHER)).toMatchObject({ status: "retarget", address: { chat: expect.stringMatching(/^!made/) } });
  });

  it("[AP1] a room that was made is used, whether or not the server takes the note of it", async () => {
    await using rig = await createMatrixRig();
    const { channel, fake, at } = rig;
    fake.faults.add("account_data", "500", { skip: 1, times: 2 });
    const sent = await channel.send({ ...requestOf(rig, { markdown: "x" }), address: at(OTHER) });
    expect(sent).toMatchObject({ status: "retarget", address: { chat: expect.stringMatching(/^!made/) } });
  });
});

describe("files", () => {
  const file = { id: "f1", name: "cat.png", type: "image/png", size: 3, width: 2, height: 1 };

  it("[CH2][DL4] bytes first, then the event that names them: shown once", async () => {
    await using rig = await createMatrixRig({ readFile: async () => Buffer.from("png") });
    const { channel, fake } = rig;
    const request = requestOf(rig, { markdown: "A **cat**", file });
    fake.faults.add("upload", "drop_after");
    expect(await channel.send(request)).toMatchObject({ status: "retry" });
    const reserved = await channel.send(request);
    expect(reserved).toMatchObject({ status: "reserved", ref: expect.stringMatching(/^mxc:/) });
    expect(await channel.reconcile?.({ ...request, since: 0 })).toEqual({ status: "absent" });
    const placed = { ...request, ref: reserved.status === "reserved" ? reserved.ref : "" };
    fake.faults.add("send", "drop_after");
    expect(await channel.send(placed)).toMatchObject({ status: "unknown" });
    expect(await channel.reconcile?.({ ...placed, since: 0 })).toMatchObject({ status: "found" });
    expect(fake.messages(DIRECT)).toMatchObject([
      { type: "m.image", text: "A cat", html: "A <strong>cat</strong>", file: { name: "cat.png" } },
    ]);
  });

  it("[CH2][AN10] a file that is gone or refused becomes a sentence", async () => {
    await using rig = await createMatrixRig({ readFile: async () => null });
    const gone = await rig.channel.send(requestOf(rig, { markdown: "", file }));
    expect(gone).toMatchObject({ status: "rerender", part: { body: "⚠️ The file “cat.png” could not be sent (it is no longer kept)." } });
    const long = { ...requestOf(rig, { markdown: "x" }), part: { body: "The whole text", file: { name: "r.md", content: "x" } } };
    // What stands before a server knows no codes.
    for (const errcode of ["M_TOO_LARGE", ""]) {
      rig.fake.faults.add("upload", { status: 413, errcode });
      expect(await rig.channel.send(long)).toMatchObject({ status: "rerender", part: { body: expect.stringContaining("M_TOO_LARGE") } });
    }
  });
});

describe("a file that is refused", () => {
  it("[CH2][AN10] the sentence about it is words and nothing else, also when its bytes were taken", async () => {
    await using rig = await createMatrixRig();
    const { channel, fake } = rig;
    const request = { ...requestOf(rig, { markdown: "x" }), part: { body: "The whole text", file: { name: "r.md", content: "x" } } };
    const reserved = await channel.send(request);
    const ref = reserved.status === "reserved" ? reserved.ref : "";
    fake.faults.add("send", { status: 400, errcode: "M_BAD_JSON" });
    const refused = await channel.send({ ...request, ref });
    const part = refused.status === "rerender" ? refused.part : {};
    expect(await channel.send({ ...request, part, ref })).toMatchObject({ status: "sent" });
    expect(fake.messages(DIRECT)).toMatchObject([{ type: "m.text", text: expect.stringContaining("could not be sent"), file: null }]);
  });
});

describe("editing", () => {
  it("[LV2][MX1] words change in place, A, B, A too; a message that somebody removed is gone", async () => {
    await using rig = await createMatrixRig();
    const { channel, fake } = rig;
    const { address } = requestOf(rig, { markdown: "A" });
    const ref = refOf(await channel.send(requestOf(rig, { markdown: "A" })));
    const edit = async (markdown: string) => channel.edit?.({ address, ref, part: channel.render({ markdown }, address)[0] ?? {} });
    for (const words of ["B", "A"]) expect(await edit(words)).toEqual({ status: "shown" });
    expect(fake.messages(DIRECT)).toMatchObject([{ text: "A", versions: ["A", "B", "A"] }]);
    fake.faults.add("edit", "drop_after");
    expect(await edit("C")).toMatchObject({ status: "retry" });
    fake.faults.add("edit", { status: 429, errcode: "M_LIMIT_EXCEEDED", retry_after_ms: 7_000 });
    expect(await edit("D")).toMatchObject({ status: "retry", afterMs: 7_000 });
    await rig.started();
    fake.redact(DIRECT, ref);
    fake.say({ room: DIRECT, text: "removed" });
    await fake.until(() => rig.heard().some(({ text }) => text === "removed"), "the removal");
    expect(await edit("E")).toMatchObject({ status: "gone" });
    fake.break(DIRECT, { status: 403, errcode: "M_FORBIDDEN" });
    expect(await edit("F")).toMatchObject({ status: "gone" });
  });
});

describe("numbers", () => {
  it("[LV4][MX1] one that was given out by an edit nobody heard of again is never another choice's", async () => {
    await using rig = await createMatrixRig();
    const { channel, fake } = rig;
    const { address } = requestOf(rig, { markdown: "runs" });
    const partOf = (...labels: string[]) =>
      channel.render({ markdown: "runs", buttons: labels.map((label) => ({ label, command: `/subagents stop ${label}` })) }, address)[0] ??
      {};
    const ref = refOf(await channel.send({ address, part: partOf("a", "b"), key: "live:1#0", repeated: false }));
    fake.faults.add("edit", "drop_after");
    expect(await channel.edit?.({ address, ref, part: partOf("a", "b", "c") })).toMatchObject({ status: "retry" });
    // A person reads "3 c" by now.
    expect(await channel.edit?.({ address, ref, part: partOf("a", "b", "d") })).toEqual({ status: "shown" });
    expect(fake.messages(DIRECT)[0]?.buttons).toMatchObject([
      { n: 1, command: "/subagents stop a" },
      { n: 2, command: "/subagents stop b" },
      { n: 3, command: "/subagents stop c", isOver: true },
      { n: 4, command: "/subagents stop d", isOver: false },
    ]);
  });
});

describe("an answer while it is written", () => {
  const draft = (rig: MatrixRig, markdown: string, ref: string | null) =>
    rig.channel.drafts?.show({ address: rig.at(DIRECT), id: 1, key: "reply:1#0", markdown, reader: null, ref });
  const answer = (rig: MatrixRig, ref?: string) =>
    rig.channel.send({ ...requestOf(rig, { markdown: "One two **three**" }), key: "reply:1#0", ...(ref === undefined ? {} : { ref }) });

  it("[LV6][MX1] it grows in one message, at a slow pace, and is the answer in the end; also where only the room knows of it", async () => {
    await using rig = await createMatrixRig();
    const shown = await draft(rig, "One", null);
    expect(shown).toMatchObject({ status: "shown", againMs: 5_000 });
    const ref = shown?.status === "shown" ? (shown.ref ?? "") : "";
    expect(await draft(rig, "One two", ref)).toMatchObject({ status: "shown", ref });
    expect(await answer(rig, draftBegun(Date.now()))).toEqual({ status: "sent", ref });
    expect(rig.fake.messages(DIRECT)).toMatchObject([{ text: "One two three", versions: ["One", "One two", "One two three"] }]);
    expect(await rig.channel.reconcile?.({ ...requestOf(rig, { markdown: "x" }), key: "reply:1#0", since: 0 })).toEqual({
      status: "found",
      ref,
    });
  });

  it("[LV6] nothing stands there: it is sent like any other; what was removed meanwhile too; and a stopped one without a draft is not said", async () => {
    await using rig = await createMatrixRig();
    const { channel, fake } = rig;
    expect(await answer(rig, draftBegun(0))).toMatchObject({ status: "sent" });
    fake.forgetTransactions();
    const shown = await draft(rig, "One", null);
    const ref = shown?.status === "shown" ? (shown.ref ?? "") : "";
    expect(await channel.drafts?.remove?.({ address: rig.at(DIRECT), key: "reply:1#0", ref })).toBe(true);
    expect(await answer(rig, ref)).toMatchObject({ status: "sent" });
    expect(fake.messages(DIRECT).map(({ text }) => text)).toEqual(["One two three", "One two three"]);
    expect(await channel.send(requestOf(rig, { markdown: "Stopped.", onlyDrafted: true }))).toEqual({ status: "sent", ref: "" });
    expect(fake.messages(DIRECT)).toHaveLength(2);
  });

  it("[LV6] a lost edit may arrive late: the answer waits until it can't cover it", async () => {
    await using rig = await createMatrixRig({ settleMs: 60_000 });
    const shown = await draft(rig, "One", null);
    const ref = shown?.status === "shown" ? (shown.ref ?? "") : "";
    rig.fake.faults.add("edit", "drop");
    expect(await draft(rig, "One two", ref)).toMatchObject({ status: "retry" });
    expect(await answer(rig, ref)).toMatchObject({ status: "retry", reason: expect.stringContaining("on its way") });
  });
});

describe("settings", () => {
  it.each([
    ["homeserver", { homeserver: "matrix.example.org" }],
    ["accessToken", { accessToken: "two words" }],
  ])("[SC5] a wrong %s is refused by name", async (setting, wrong) => {
    const base = {
      homeserver: "https://home.test",
      accessToken: "syt",
      accounts: createMemoryAccounts(),
      clock: systemClock,
      log: silentLogger,
    };
    const made = createMatrixChannel({ ...base, mayInvite: async () => false, isListed: () => false, ...wrong });
    await expect(made).rejects.toThrow(AppError);
    await expect(made).rejects.toThrow(`channels.matrix.${setting}`);
  });
});
