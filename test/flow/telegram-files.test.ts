// Files over Telegram (CH2), with the whole program as a process and Telegram as it behaves.
import { readdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { calls, plan } from "../support/brain.ts";
import { type ChannelScene, createChannelScene } from "../support/channel-scene.ts";
import { png } from "../support/files.ts";

const PERSON = 42;

let scene: ChannelScene;
beforeAll(async () => {
  scene = await createChannelScene({ telegram: { allowFrom: [String(PERSON)] }, slack: null });
  await scene.connected();
});
afterAll(async () => scene[Symbol.asyncDispose]());

const requestWith = (mark: string) =>
  scene.telegram.until(
    () => scene.model.calls.findLast((call) => call.messages.at(-1)?.text.endsWith(mark) === true),
    `a request that ends with ${mark}`,
  );
const workspace = () => join(scene.herald.stateDir, "workspace");
const telegramSaid = (fits: RegExp) =>
  scene.telegram.until(() => scene.telegram.messages(PERSON).find(({ text }) => fits.test(text)), String(fits));

describe("Telegram", () => {
  const send = (text: string, extra: Record<string, unknown>) =>
    void scene.telegram.say({ chat: PERSON, extra: { caption: text, ...extra } });
  const document = (name: string, bytes: Buffer, more = {}) => ({
    document: { file_id: scene.telegram.upload(bytes), file_name: name, file_size: bytes.length, ...more },
  });

  it("[CH2] a photo is seen by a model that can, in its largest size; a document is read; a voice message is named", async () => {
    const { telegram } = scene;
    telegram.say({ chat: PERSON, text: "/model scripted/llava-7b" });
    await telegramSaid(/llava-7b/);
    const bytes = png(30, 20);
    const small = { file_id: telegram.upload(png(3, 2)), width: 3, height: 2 };
    send("what is it?", { photo: [small, { file_id: telegram.upload(bytes), width: 30, height: 20, file_size: bytes.length }] });
    const seen = JSON.stringify((await requestWith("what is it?")).body);
    expect(seen).toContain(bytes.toString("base64"));
    expect(seen).toContain("30 × 20 pixels");
    send("read this", document("notes.md", Buffer.from("the word is stork")));
    expect(JSON.stringify((await requestWith("read this")).body)).toContain("the word is stork");
    send("hear me", { voice: { file_id: telegram.upload(Buffer.from("OggS\u0000\u0002aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa")), duration: 3 } });
    expect(JSON.stringify((await requestWith("hear me")).body)).toContain("You can't hear or watch it");
    await scene.settled();
  });

  it("[CH2] a download that breaks off is made again and taken once; one that is too large or gone is refused in the chat, in a sentence", async () => {
    const { telegram } = scene;
    telegram.faults.add("download", "drop");
    send("broken once", document("twice.txt", Buffer.from("it came whole ".repeat(40))));
    expect(JSON.stringify((await requestWith("broken once")).body)).toContain("it came whole");
    send("too large", document("film.bin", Buffer.alloc(8), { file_size: 100 * 1024 * 1024 }));
    await telegramSaid(/“film\.bin” was not taken: it has 100\.0 MB, and files may have at most 20\.0 MB\./);
    send("lies", document("lie.bin", Buffer.alloc(21 * 1024 * 1024), { file_size: 5 }));
    await telegramSaid(/“lie\.bin” could not be fetched: Telegram hands bots no file of more than 20 MB\./);
    send("gone", { document: { file_id: "nobody", file_name: "gone.txt" } });
    await telegramSaid(/“gone\.txt” could not be fetched: Telegram refused it/);
    await scene.settled();
    const rows = scene.herald.rows<{ name: string }>("SELECT name FROM attachments").map(({ name }) => name);
    expect(rows.filter((name) => name === "twice.txt")).toHaveLength(1);
    expect(rows).not.toContain("film.bin");
    expect(readdirSync(join(scene.herald.stateDir, "attachments")).filter((name) => name.endsWith(".part"))).toEqual([]);
  });

  it("[CH2] an album is one message with all its pictures", async () => {
    const { telegram } = scene;
    const member = (n: number, extra = {}) =>
      telegram.say({
        chat: PERSON,
        extra: { media_group_id: "g1", photo: [{ file_id: telegram.upload(png(10 + n, 5)), width: 10 + n, height: 5 }], ...extra },
      });
    member(1, { caption: "three birds" });
    member(2);
    member(3);
    const body = JSON.stringify((await requestWith("three birds")).body);
    for (const width of [11, 12, 13]) expect(body).toContain(`${width} × 5 pixels`);
    await scene.settled();
  });

  it("[CH2] send_file posts a document, a picture as a photo, and what Telegram won't show as one as a document", async () => {
    const { telegram } = scene;
    writeFileSync(join(workspace(), "t.csv"), "a,b\n");
    writeFileSync(join(workspace(), "t.png"), png(40, 40));
    writeFileSync(join(workspace(), "odd.png"), png(41, 41));
    telegram.say({
      chat: PERSON,
      text: plan([calls(["send_file", { path: "t.csv", caption: "**Table**" }]), calls(["send_file", { path: "t.png" }])]),
    });
    const table = await telegramSaid(/^Table$/);
    expect(table).toMatchObject({ file: { name: "t.csv", content: "a,b\n" }, entities: [{ type: "bold" }] });
    await telegram.until(() => telegram.messages(PERSON).find(({ file }) => file?.name === "t.png" && file.kind === "photo"), "the photo");
    await scene.settled();
    telegram.faults.add("sendPhoto", { code: 400, description: "Bad Request: PHOTO_INVALID_DIMENSIONS" });
    telegram.say({ chat: PERSON, text: plan([calls(["send_file", { path: "odd.png" }])]) });
    await telegram.until(
      () => telegram.messages(PERSON).find(({ file }) => file?.name === "odd.png" && file.kind === undefined),
      "the document",
    );
    await scene.settled();
  });

  it("[CH2][DL4] a lost answer: it comes again and says so; FILE-005 refused for good, the chat is told in its place", async () => {
    const { telegram } = scene;
    writeFileSync(join(workspace(), "lost.txt"), "lost and found");
    telegram.faults.add("sendDocument", "drop_after");
    telegram.say({ chat: PERSON, text: plan([calls(["send_file", { path: "lost.txt", caption: "Look" }])]) });
    await telegramSaid(/^\(may be repeated\)\n\nLook$/);
    await scene.settled();
    telegram.faults.add("sendDocument", { code: 413, description: "Request Entity Too Large" });
    telegram.say({ chat: PERSON, text: plan([calls(["send_file", { path: "lost.txt", caption: "Never" }])]) });
    await telegramSaid(/^⚠️ The file “lost\.txt” could not be sent \(413 Request Entity Too Large\)\.$/);
    await scene.settled();
  });
});
