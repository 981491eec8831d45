// Bad inputs on Matrix, against the channel itself and a homeserver that behaves as badly: gaps, sign-ins that end, signs that are no
// buttons, invitations and events of strange shapes.
import { describe, expect, it } from "vitest";
import { PERSON } from "../support/fake-matrix.ts";
import { createMatrixRig, DIRECT, type MatrixRig, OTHER, ROOM } from "../support/matrix-rig.ts";
import { waitFor } from "../support/wait.ts";

const textsOf = (rig: MatrixRig): string[] => rig.heard().map(({ text }) => text);
const SIGN = "1\ufe0f\u20e3";

describe("a gap", () => {
  it("[MX1][RC3] MTX-001 300 events during an outage, 20 of them to us: each is heard once, in order, before the token is stored", async () => {
    await using rig = await createMatrixRig();
    const { fake, channel, inbox } = rig;
    await rig.started();
    fake.say({ room: ROOM, text: "Herald: before" });
    await fake.until(() => textsOf(rig).includes("before"), "the first one");
    await channel.stop();
    for (let n = 0; n < 300; n++) fake.say({ room: ROOM, text: n % 15 === 0 ? `Herald: call ${n / 15}` : `chatter ${n}` });
    // What is needed to fill the gap can't be had at first: then nothing of it is confirmed.
    fake.faults.add("messages", "500", { times: 2 });
    const stored = (await inbox.cursor())?.value;
    fake.replay();
    await channel.start(inbox);
    await fake.until(() => fake.calls.filter(({ method }) => method === "messages").length >= 2, "the refused look back");
    expect((await inbox.cursor())?.value).toBe(stored);
    await fake.until(() => textsOf(rig).includes("call 19"), "the last one");
    const calls = rig
      .heard()
      .filter(({ mentioned }) => mentioned)
      .map(({ text }) => text);
    expect(calls).toEqual(["before", ...Array.from({ length: 20 }, (_, n) => `call ${n}`)]);
    // The same token again.
    fake.replay();
    fake.say({ room: ROOM, text: "Herald: after" });
    await fake.until(() => textsOf(rig).includes("after"), "what came after it");
    expect(rig.heard().filter(({ mentioned }) => mentioned)).toHaveLength(22);
  });

  it("[MX1][RC4] MTX-001 a gap that the server refuses to show keeps nobody else waiting", async () => {
    await using rig = await createMatrixRig();
    const { fake, channel, inbox } = rig;
    await rig.started();
    await waitFor("the first token", () => inbox.cursor());
    await channel.stop();
    for (let n = 0; n < 60; n++) fake.say({ room: ROOM, text: `Herald: ${n}` });
    fake.say({ room: DIRECT, text: "elsewhere" });
    fake.faults.add("messages", { status: 400, errcode: "M_INVALID_PARAM" });
    await channel.start(inbox);
    await fake.until(() => textsOf(rig).includes("elsewhere"), "the other room");
    expect(textsOf(rig)).toContain("59");
    expect(channel.health().state).toBe("on");
  });

  it("[MX1] what was said before the bot came, or before its first start, is not for it", async () => {
    await using rig = await createMatrixRig({ accounts: { last: async () => null, adopt: async () => {} } });
    const { fake } = rig;
    fake.say({ room: DIRECT, text: "long ago" });
    await rig.started();
    fake.enter("!old:home.test", OTHER);
    fake.say({ room: "!old:home.test", from: OTHER, text: "Herald: before it was asked" });
    fake.invite("!old:home.test", PERSON);
    fake.say({ room: "!old:home.test", text: "Herald: after it was asked" });
    await fake.until(() => rig.heard().length > 0, "what came after the invitation");
    fake.say({ room: DIRECT, text: "now" });
    await fake.until(() => textsOf(rig).includes("now"), "what is said now");
    expect(textsOf(rig)).toEqual(["after it was asked", "now"]);
    expect(rig.channel.account).toBe(fake.bot);
  });

  it("[MX1][RC4] a token that the server does not know any more: it is said in the log, and what comes next is heard", async () => {
    await using rig = await createMatrixRig();
    const { fake } = rig;
    await rig.started();
    fake.faults.add("sync", { status: 400, errcode: "M_UNKNOWN_POS" });
    fake.say({ room: DIRECT, text: "one" });
    const before = fake.calls.length;
    await fake.until(() => fake.calls.slice(before).some(({ method, query }) => method === "sync" && query.since !== undefined), "a sync");
    await fake.until(
      () => fake.calls.filter(({ method, query }) => method === "sync" && query.since === undefined).length >= 2,
      "a new beginning",
    );
    fake.say({ room: DIRECT, text: "two" });
    await fake.until(() => textsOf(rig).includes("two"), "what comes next");
  });
});

describe("a server that refuses", () => {
  it.each([true, false])(
    "[MX1][DL3] MTX-003 the sign-in ends between a send and its answer (soft_logout %s): no other one is made, it is said, and the message is looked up later",
    async (soft_logout) => {
      await using rig = await createMatrixRig();
      const { fake, channel } = rig;
      await rig.started();
      const request = {
        address: rig.at(DIRECT),
        part: channel.render({ markdown: "once" }, rig.at(DIRECT))[0] ?? {},
        key: "reply:1#0",
        repeated: false,
      };
      fake.faults.add("send", "drop_after");
      expect(await channel.send(request)).toMatchObject({ status: "unknown" });
      const { token } = fake;
      fake.signOut("another");
      fake.faults.add("messages", { status: 401, errcode: "M_UNKNOWN_TOKEN", soft_logout });
      expect(await channel.reconcile?.({ ...request, since: Date.now() })).toMatchObject({ status: "unknown" });
      expect(await channel.send(request)).toMatchObject({ status: "retry", afterMs: 60_000 });
      expect(channel.health()).toMatchObject({ state: "failed", detail: expect.stringContaining("the sign-in is no longer valid") });
      fake.signOut(token);
      fake.forgetTransactions();
      expect(await channel.reconcile?.({ ...request, since: Date.now() })).toMatchObject({ status: "found" });
      expect(fake.messages(DIRECT).map(({ text }) => text)).toEqual(["once"]);
      expect(fake.calls.filter(({ method }) => method === "unknown")).toEqual([]);
    },
  );

  it("[MX1][DL3] MTX-003 429 is waited for as long as it says; a page instead of an answer is no answer", async () => {
    await using rig = await createMatrixRig();
    const { fake, channel } = rig;
    const request = {
      address: rig.at(DIRECT),
      part: channel.render({ markdown: "hello" }, rig.at(DIRECT))[0] ?? {},
      key: "reply:2#0",
      repeated: false,
    };
    fake.faults.add("send", { status: 429, errcode: "M_LIMIT_EXCEEDED", retry_after_ms: 60_000 });
    expect(await channel.send(request)).toEqual({ status: "retry", afterMs: 60_000, reason: "M_LIMIT_EXCEEDED" });
    fake.faults.add("send", "html_200");
    expect(await channel.send(request)).toMatchObject({ status: "unknown" });
    expect(await channel.reconcile?.({ ...request, since: 0 })).toMatchObject({ status: "found" });
    fake.faults.add("sync", "html_200", { times: 2 });
    await rig.started();
    fake.say({ room: DIRECT, text: "still here" });
    await fake.until(() => textsOf(rig).includes("still here"), "the next answer");
    expect(channel.health().state).toBe("on");
  });
});

describe("signs below a message", () => {
  it("[MX1][LV4] MTX-005 strangers' and other signs, variants, signs taken back, 500 at once: one press of each who presses, never another button", async () => {
    await using rig = await createMatrixRig();
    const { fake, channel, inbox } = rig;
    await rig.started();
    const buttons = [
      { label: "Stop A", command: "/subagents stop a@1" },
      { label: "Stop B", command: "/subagents stop b@1" },
    ];
    const address = rig.at(ROOM);
    const render = (shown: typeof buttons) => channel.render({ markdown: "**two**", buttons: shown }, address)[0] ?? {};
    const sent = await channel.send({ address, part: render(buttons), key: "live:1#0", repeated: false });
    const ref = sent.status === "sent" ? sent.ref : "";
    await fake.until(() => fake.messages(ROOM)[0]?.signs.length === 2, "the signs");
    fake.react(ROOM, ref, "1\u20e3");
    const withdrawn = fake.react(ROOM, ref, SIGN);
    fake.redact(ROOM, withdrawn);
    for (let n = 0; n < 500; n++) fake.react(ROOM, ref, SIGN);
    for (const sign of ["👍🏽", "👍", "1\ufe0f\u20e3🏽", "0\ufe0f\u20e3", "9\ufe0f\u20e3", "①", "", "1\u20e32\u20e3"])
      fake.react(ROOM, ref, sign);
    fake.react(ROOM, ref, "2\ufe0f\u20e3", OTHER);
    fake.react(ROOM, "$nowhere", SIGN);
    await fake.until(() => rig.heard().length === 2, "both presses");
    expect(await channel.edit?.({ address, ref, part: render(buttons.slice(1)) })).toEqual({ status: "shown" });
    // Numbers keep their meaning: what is pressed late is what was shown.
    fake.react(ROOM, ref, SIGN, OTHER);
    fake.react(ROOM, ref, "2\ufe0f\u20e3", PERSON);
    await fake.until(() => rig.heard().length === 4, "the late ones");
    expect(rig.heard().map(({ kind, sender, text }) => [kind, sender.id, text])).toEqual([
      ["button", PERSON, "/subagents stop a@1"],
      ["button", OTHER, "/subagents stop b@1"],
      ["button", OTHER, "/subagents stop a@1"],
      ["button", PERSON, "/subagents stop b@1"],
    ]);
    expect(await channel.edit?.({ address, ref, part: render([]) })).toEqual({ status: "shown" });
    const late = "@carl:home.test";
    for (const sign of [SIGN, "2\ufe0f\u20e3", SIGN]) fake.react(ROOM, ref, sign, late);
    fake.say({ room: ROOM, text: "Herald: done" });
    await fake.until(() => textsOf(rig).includes("done"), "the end");
    expect(rig.heard().filter(({ sender }) => sender.id === late)).toHaveLength(1);
    expect(inbox.rows.size).toBe(6);
  });

  it("[LV4] MTX-005 a server that shows edits in place is read as well, after a restart too", async () => {
    await using rig = await createMatrixRig();
    const { fake, channel, inbox } = rig;
    fake.showEditsInPlace();
    const address = rig.at(DIRECT);
    const part = (label: string) =>
      channel.render({ markdown: "x", buttons: [{ label, command: `/subagents stop ${label}@1` }] }, address)[0] ?? {};
    const sent = await channel.send({ address, part: part("a"), key: "live:2#0", repeated: false });
    const ref = sent.status === "sent" ? sent.ref : "";
    await channel.edit?.({ address, ref, part: part("b") });
    await using second = await createMatrixRig({ homeserver: fake.homeserver });
    expect(await second.channel.edit?.({ address, ref, part: part("c") })).toEqual({ status: "shown" });
    expect(fake.messages(DIRECT)[0]?.buttons).toMatchObject([
      { n: 1, command: "/subagents stop a@1", isOver: true },
      { n: 2, command: "/subagents stop b@1", isOver: true },
      { n: 3, command: "/subagents stop c@1", isOver: false },
    ]);
    await channel.start(inbox);
    await fake.connected();
    fake.react(DIRECT, ref, "3\ufe0f\u20e3");
    await fake.until(() => rig.heard().length > 0, "the press");
    expect(rig.heard()).toMatchObject([{ kind: "button", text: "/subagents stop c@1" }]);
  });
});

describe("events of any shape", () => {
  it("[MX1][SC5] MTX-007 1,000 invitations of strangers: none is followed, and everybody else is heard", async () => {
    await using rig = await createMatrixRig();
    const { fake } = rig;
    await rig.started();
    for (let n = 0; n < 1_000; n++) fake.invite(`!${n}:server${n}.test`, `@someone:server${n}.test`);
    fake.say({ room: DIRECT, text: "hello" });
    await fake.until(() => textsOf(rig).includes("hello"), "the message");
    expect(fake.calls.filter(({ method }) => method === "join")).toEqual([]);
  });

  it("[MX1][SC5] MTX-007 malformed events are skipped and the token moves on; a thread that can't be named is never guessed", async () => {
    await using rig = await createMatrixRig();
    const { fake, inbox } = rig;
    await rig.started();
    const say = (content: unknown): void => void fake.inject(DIRECT, PERSON, "m.room.message", content as Record<string, unknown>);
    say({ msgtype: "m.text", body: 42 });
    say({ msgtype: "m.text" });
    say(null);
    say([]);
    say({ msgtype: "m.text", format: "org.matrix.custom.html", formatted_body: "x".repeat(60_000) });
    say({ msgtype: { toString: 1 }, body: "x" });
    say({ msgtype: "m.notice", body: "another bot" });
    say({ msgtype: "m.text", body: "edited", "m.relates_to": { rel_type: "m.replace", event_id: "$x" } });
    say({ msgtype: "m.text", body: "where?", "m.relates_to": { rel_type: "m.thread" } });
    say({ msgtype: "m.text", body: "where?", "m.relates_to": { rel_type: "m.thread", event_id: 7 } });
    say({ msgtype: "m.text", body: "where?", "m.relates_to": "thread" });
    fake.inject(DIRECT, "nobody", "m.room.message", { msgtype: "m.text", body: "x" });
    fake.inject(DIRECT, PERSON, "m.room.message", { msgtype: "m.text", body: "x" }, { event_id: 5 as unknown as string });
    fake.inject(DIRECT, PERSON, "m.reaction", { "m.relates_to": { rel_type: "m.annotation", event_id: {}, key: [] } });
    fake.say({ room: DIRECT, text: "a reply to nothing", replyTo: "$gone" });
    fake.say({ room: DIRECT, thread: "$gone", text: "in a thread nobody can read" });
    await fake.until(() => textsOf(rig).includes("in a thread nobody can read"), "the last one");
    expect(rig.heard().map(({ text, address, repliesTo }) => [text, address.thread, repliesTo])).toEqual([
      ["a reply to nothing", undefined, "$gone"],
      ["in a thread nobody can read", "$gone", undefined],
    ]);
    await waitFor("the token", async () => (await inbox.cursor())?.value !== "s0");
    expect(rig.channel.health().state).toBe("on");
  });
});
