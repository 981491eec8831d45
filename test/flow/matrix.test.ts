// Matrix through the whole process: rooms, direct rooms and threads, numbers as buttons, questions and approvals, status messages that are
// edited, answers read while they are written, files, invitations, encrypted rooms and people nobody knows yet.
import { existsSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { calls, child, plan, spawns } from "../support/brain.ts";
import { type ChannelScene, createChannelScene, createDoor, obeyBehind } from "../support/channel-scene.ts";
import { PERSON, type SeenMessage } from "../support/fake-matrix.ts";
import { inPieces, inStep } from "../support/read-along.ts";
import { waitFor } from "../support/wait.ts";

const ROOM = "!Team:home.test";
const DIRECT = "!ann:home.test";
const BOB = "@bob:home.test";
const STRANGER = "@mallory:elsewhere.test";

let scene: ChannelScene;
let door = createDoor();
beforeAll(async () => {
  scene = await createChannelScene({
    telegram: null,
    slack: null,
    matrix: { allowFrom: [PERSON, BOB], rooms: { [ROOM]: {} } },
    config: { tools: { approve: ["write"] } },
    respond: inStep(
      obeyBehind(() => door.opened),
      () => scene,
    ),
  });
  scene.matrix.room(ROOM, [PERSON, BOB, STRANGER]);
  scene.matrix.room(DIRECT);
  await scene.connected();
});
afterAll(async () => scene[Symbol.asyncDispose]());

const said = (room: string, fits: (message: SeenMessage) => boolean, what: string): Promise<SeenMessage> =>
  scene.matrix.until(() => scene.matrix.messages(room).find(fits), what, 30_000);
const saying = (room: string, fits: RegExp): Promise<SeenMessage> => said(room, ({ text }) => fits.test(text), String(fits));
const numberOf = ({ buttons }: SeenMessage, fits: RegExp): number => buttons.find(({ command }) => fits.test(command))?.n ?? 0;
const signAt = (n: number): string => `${n}\ufe0f\u20e3`;
const runState = (label: string): string | undefined =>
  scene.herald.rows<{ state: string }>("SELECT state FROM runs WHERE label = ?", label)[0]?.state;
const keysLike = (like: string): string[] =>
  scene.herald.rows<{ key: string }>("SELECT key FROM sessions WHERE key LIKE ?", like).map(({ key }) => key);

describe("talking", () => {
  it("[MX1][AN3] what is said in a thread is answered there, and so is what a sub-agent found; the room itself stays quiet", async () => {
    const { matrix } = scene;
    const root = matrix.say({ room: ROOM, text: "a topic" });
    matrix.say({ room: ROOM, thread: root, text: "people among themselves" });
    matrix.say({ room: ROOM, thread: root, text: "Herald: hello there" });
    const answer = await saying(ROOM, /^heard: hello there$/);
    expect(answer.thread).toBe(root);
    matrix.say({ room: ROOM, thread: root, text: `@herald:home.test ${plan([spawns(child("looker", "found it"))])}` });
    const announced = await saying(ROOM, /Sub-agent: looker[\s\S]*Status: success[\s\S]*found it/);
    expect(announced.thread).toBe(root);
    expect(announced.html).toContain("<details><summary>Stats: runtime");
    await scene.settled();
    expect(matrix.messages(ROOM, null)).toEqual([]);
    expect(matrix.typing).toContainEqual({ room: ROOM, isTyping: true });
    expect(matrix.read.some(({ room, thread }) => room === ROOM && thread === root)).toBe(true);
  });

  it("[MX1][CH1] a direct room needs no name; its session keeps the case of its id, and signs of ours are escaped in it", async () => {
    scene.matrix.say({ room: DIRECT, text: "just between us" });
    expect(await saying(DIRECT, /^heard: just between us$/)).toMatchObject({ thread: null });
    await scene.settled();
    expect(keysLike("%:matrix:dm:%")).toContain("agent:main:matrix:dm:%21ann%3Ahome.test");
    expect(keysLike("%:matrix:channel:%")[0]).toMatch(/^agent:main:matrix:channel:%21Team%3Ahome\.test:thread:%24event/);
    expect(scene.herald.rows("SELECT 1 FROM channel_cursor WHERE channel = 'matrix' AND account = '@herald:home.test'")).toHaveLength(1);
  });

  it("[LV6] a long answer is read while it is written, in the message that is the answer in the end", async () => {
    const words = "One answer that takes its time. ".repeat(3);
    scene.matrix.say({ room: DIRECT, text: plan([inPieces(words, 2)]) });
    const answer = await said(DIRECT, ({ text }) => text.trim() === words.trim(), "the whole answer");
    await scene.settled();
    expect(answer.versions.length).toBeGreaterThan(1);
    expect(words.startsWith(answer.versions[0]?.trimEnd() ?? "-")).toBe(true);
    expect(scene.matrix.messages(DIRECT).filter(({ text }) => text.includes("takes its time"))).toHaveLength(1);
  });
});

describe("numbers instead of buttons", () => {
  it("[LV1][LV4] MTX-005 a status message keeps up to date; its numbers never change their meaning, and a press too late is told so once", async () => {
    const { matrix } = scene;
    door = createDoor();
    const root = matrix.say({ room: ROOM, text: "two at once" });
    const both = [child("first", "slowly done", { briefing: "slowly" }), child("second", "slowly done", { briefing: "slowly" })];
    matrix.say({ room: ROOM, thread: root, text: `Herald ${plan([spawns(...both)])}` });
    const status = await said(ROOM, ({ thread, buttons }) => thread === root && buttons.length > 2, "the status message");
    expect(status.type).toBe("m.notice");
    const [first, second] = ["first", "second"].map(
      (label) => scene.herald.rows<{ id: string }>("SELECT id FROM runs WHERE label = ?", label)[0]?.id ?? "",
    );
    const [one, two] = [first, second].map((id) => numberOf(status, new RegExp(`stop ${id}`))) as [number, number];
    await matrix.until(() => matrix.messages(ROOM).some(({ id, signs }) => id === status.id && signs.includes(signAt(one))), "the signs");
    // Whoever may not speak here presses nothing, nor do our own signs.
    matrix.react(ROOM, status.id, signAt(one), STRANGER);
    matrix.react(ROOM, status.id, signAt(one).replace("\ufe0f", ""), PERSON);
    await saying(ROOM, /Stopped 1 sub-agent: "first"/);
    const after = await matrix.until(
      () =>
        matrix.messages(ROOM).find(({ id, buttons }) => id === status.id && buttons.some(({ n, isOver }) => n === one && isOver === true)),
      "the edit",
      30_000,
    );
    expect(numberOf(after, new RegExp(`stop ${second}`))).toBe(two);
    expect(after.text).not.toContain(`${signAt(one)} Stop first`);
    expect(runState("second")).toBe("running");
    matrix.say({ room: ROOM, thread: root, replyTo: status.id, text: String(two) });
    await saying(ROOM, /Stopped 1 sub-agent: "second"/);
    await matrix.until(
      () => matrix.messages(ROOM).some(({ id, buttons }) => id === status.id && buttons.every(({ isOver }) => isOver)),
      "the end",
    );
    const ended = (): number => matrix.messages(ROOM, root).filter(({ text }) => /ha(?:s|ve) ended/.test(text)).length;
    for (const n of [one, two, one]) matrix.react(ROOM, status.id, signAt(n), BOB);
    await matrix.until(() => ended() > 0, "the notice");
    matrix.say({ room: ROOM, thread: root, text: "Herald: still there?" });
    await saying(ROOM, /^heard: still there\?$/);
    expect(ended()).toBe(1);
    expect(matrix.messages(ROOM, null)).toEqual([]);
    door.open();
  });

  it("[QA1][QA3] a question is answered by a sign, by the number in a reply, or by words", async () => {
    const { matrix } = scene;
    const root = matrix.say({ room: ROOM, text: "questions" });
    const ask = (label: string): void =>
      void matrix.say({
        ...{ room: ROOM, thread: root },
        text: `Herald ${plan([spawns(child(label, [calls(["ask", { question: "Which colour?", options: ["Red", "Blue"] }])]))])}`,
      });
    const asked = (label: string): Promise<SeenMessage> =>
      said(ROOM, ({ text, buttons }) => text.startsWith(`❓ ${label} asks:`) && buttons.length > 0, label);
    ask("painter");
    const painter = await asked("painter");
    expect(painter.text).toContain("1\ufe0f\u20e3 Red\n2\ufe0f\u20e3 Blue");
    matrix.react(ROOM, painter.id, signAt(2), BOB);
    await saying(ROOM, /^📨 painter goes on with: Blue$/);
    const shown = await said(ROOM, ({ id, text }) => id === painter.id && text.includes("✅"), "who answered");
    expect(shown.text).toContain("Blue");
    ask("printer");
    matrix.say({ room: ROOM, thread: root, replyTo: (await asked("printer")).id, text: "1" });
    await saying(ROOM, /^📨 printer goes on with: Red$/);
    ask("drawer");
    matrix.say({ room: ROOM, thread: root, replyTo: (await asked("drawer")).id, text: "green, please" });
    await saying(ROOM, /^📨 drawer goes on with: green, please$/);
  });

  it("[QA4] a call that needs a yes gets it by a press of somebody who may, once", async () => {
    const { matrix } = scene;
    const root = matrix.say({ room: ROOM, text: "approvals" });
    matrix.say({
      room: ROOM,
      thread: root,
      text: `Herald ${plan([spawns(child("writer", [calls(["write", { path: "a.txt", content: "x\n" }])]))])}`,
    });
    const question = await said(
      ROOM,
      ({ text, buttons }) => text.startsWith("🔐 writer wants to use") && buttons.length > 0,
      "the approval",
    );
    const yes = numberOf(question, / yes$/);
    matrix.react(ROOM, question.id, signAt(yes), STRANGER);
    matrix.react(ROOM, question.id, "👍🏽", PERSON);
    matrix.react(ROOM, question.id, signAt(yes), PERSON);
    await saying(ROOM, /^✅ Allowed, this once; it goes on\.$/);
    await saying(ROOM, /Sub-agent: writer[\s\S]*Created/);
    expect(existsSync(join(scene.herald.stateDir, "workspace", "a.txt"))).toBe(true);
  });
});

describe("who and where", () => {
  it("[MX1] an encrypted room is refused in one sentence, once, and nothing said there is answered", async () => {
    const { matrix } = scene;
    matrix.room("!sealed:home.test");
    matrix.encrypt("!sealed:home.test");
    matrix.inject("!sealed:home.test", PERSON, "m.room.encrypted", { algorithm: "m.megolm.v1.aes-sha2", ciphertext: "…" });
    const told = await saying("!sealed:home.test", /I can't read encrypted rooms/);
    matrix.inject("!sealed:home.test", PERSON, "m.room.encrypted", { algorithm: "m.megolm.v1.aes-sha2", ciphertext: "…" });
    matrix.say({ room: "!sealed:home.test", text: "in plain words" });
    matrix.say({ room: DIRECT, text: "after the sealed ones" });
    await saying(DIRECT, /^heard: after the sealed ones$/);
    await scene.settled();
    expect(matrix.messages("!sealed:home.test").map(({ id }) => id)).toEqual([told.id]);
  });

  it("[SC1] who is not known gets a code in a direct room, by their id, once; a room that is not listed gets nothing", async () => {
    const { matrix } = scene;
    matrix.room("!new:home.test", [STRANGER]);
    matrix.room("!crowd:home.test", [STRANGER, PERSON]);
    matrix.say({ room: "!crowd:home.test", from: PERSON, text: "Herald: hello from the crowd" });
    matrix.say({ room: "!new:home.test", from: STRANGER, text: "hello?" });
    await saying("!new:home.test", /Your pairing code is [A-Z0-9]{8}/);
    matrix.say({ room: "!new:home.test", from: STRANGER, text: "hello??" });
    matrix.say({ room: DIRECT, text: "after the stranger" });
    await saying(DIRECT, /^heard: after the stranger$/);
    await scene.settled();
    expect(matrix.messages("!new:home.test")).toHaveLength(1);
    expect(matrix.messages("!crowd:home.test")).toEqual([]);
    expect(scene.herald.rows("SELECT 1 FROM pairing_codes WHERE channel = 'matrix' AND sender_id = ?", STRANGER)).toHaveLength(1);
  });

  it("[MX1][SC2] an invitation is followed when somebody sends it who may talk to the bot, and what they wrote meanwhile is answered", async () => {
    const { matrix } = scene;
    matrix.invite("!trap:elsewhere.test", STRANGER);
    matrix.invite("!welcome:home.test", PERSON, { isDirect: true });
    matrix.say({ room: "!welcome:home.test", text: "are you coming?" });
    await saying("!welcome:home.test", /^heard: are you coming\?$/);
    expect(matrix.isIn("!trap:elsewhere.test")).toBe(false);
    await waitFor("the list of direct rooms", () => matrix.accountData.get("m.direct"));
    expect(matrix.accountData.get("m.direct")).toEqual({ [PERSON]: ["!welcome:home.test"] });
  });

  it("[DL3] a room the bot was thrown out of stops a message at once, with the reason on record", async () => {
    const { matrix, herald } = scene;
    matrix.room("!closing:home.test");
    door = createDoor();
    matrix.say({ room: "!closing:home.test", text: "wait for it" });
    await matrix.until(() => matrix.typing.some(({ room }) => room === "!closing:home.test"), "the turn");
    matrix.break("!closing:home.test", { status: 403, errcode: "M_FORBIDDEN", error: "User not in room" });
    door.open();
    await waitFor("the end of it", () => herald.rows("SELECT 1 FROM outbox WHERE state = 'blocked' AND address LIKE '%closing%'")[0]);
  });
});

describe("files", () => {
  it("[CH2] what a person attaches is fetched from the homeserver, and read", async () => {
    const { matrix } = scene;
    const url = matrix.attach("plan.md", Buffer.from("the word is crane"));
    matrix.faults.add("download", "500");
    matrix.say({ room: DIRECT, text: "read it", extra: { msgtype: "m.file", filename: "plan.md", url, info: { size: 17 } } });
    const request = await matrix.until(
      () => scene.model.calls.findLast((call) => call.messages.at(-1)?.text.endsWith("read it") === true),
      "the request",
    );
    expect(JSON.stringify(request.body)).toContain("the word is crane");
    matrix.say({ room: DIRECT, text: "evil.txt", extra: { msgtype: "m.file", url: "mxc://home.test/../../secret" } });
    await saying(DIRECT, /“evil\.txt” could not be fetched: it has no address on a homeserver\./);
    const file = { url, v: "v2", iv: "i", key: { kty: "oct", k: "k" }, hashes: {} };
    matrix.say({ room: DIRECT, text: "enc.txt", extra: { msgtype: "m.file", filename: "enc.txt", file } });
    await saying(DIRECT, /“enc\.txt” could not be fetched: it is encrypted, and I can't read that\./);
    matrix.say({ room: DIRECT, text: "/status", extra: { msgtype: "m.file", filename: "plan.md", url } });
    await saying(DIRECT, /What was attached was not used: commands take no files\./);
    await scene.settled();
  });

  it("[CH2][DL4] send_file uploads and shows it once, also when the answer to the sending is lost", async () => {
    const { matrix, herald } = scene;
    writeFileSync(join(herald.stateDir, "workspace", "s.csv"), "c,d\n");
    matrix.faults.add("send", "drop_after");
    matrix.say({ room: DIRECT, text: plan([calls(["send_file", { path: "s.csv", caption: "Figures" }])]) });
    const shared = await said(DIRECT, ({ file }) => file?.name === "s.csv", "the file");
    expect(shared).toMatchObject({ type: "m.file", text: "Figures" });
    expect(shared.file?.bytes.toString()).toBe("c,d\n");
    await scene.settled();
    expect(matrix.messages(DIRECT).filter(({ file }) => file !== null)).toHaveLength(1);
  });
});
