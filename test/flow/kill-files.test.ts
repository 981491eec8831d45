// Kill -9 between every two steps of a file's way in and out: each is stored once, read once and posted once; nothing is left half.
import { randomUUID } from "node:crypto";
import { mkdirSync, readdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { FAILPOINTS } from "../../src/core/failpoints.ts";
import { calls, plan } from "../support/brain.ts";
import { type ChannelScene, createChannelScene } from "../support/channel-scene.ts";
import { waitFor } from "../support/wait.ts";

const PERSON = 42;
const DIRECT = "D0ANN";
const POINTS = FAILPOINTS.filter((point) => point.startsWith("file."));
const IN = POINTS.filter((point) => point !== "file.queued");
const OUT = POINTS.filter((point) => point !== "file.gathered");

const open = (point: string, on: "telegram" | "slack") =>
  createChannelScene({
    telegram: on === "telegram" ? { allowFrom: [String(PERSON)] } : null,
    slack: on === "slack" ? { allowFrom: ["U0PERSON"] } : null,
    failpoint: point,
  });

const stored = ({ herald }: ChannelScene) => herald.rows<{ id: string; name: string }>("SELECT id, name FROM attachments");
/** Bytes without a row are the only thing a kill may leave, and only where it falls between the two. */
const orphans = (scene: ChannelScene) => {
  const known = stored(scene).map(({ id }) => id);
  return readdirSync(join(scene.herald.stateDir, "attachments")).filter((name) => !known.includes(name));
};

async function through({ herald }: ChannelScene): Promise<void> {
  await herald.exited();
  await herald.restart();
}

describe("[RC1] kill -9 around files", () => {
  it.concurrent.each(IN)(
    "[RC1][CH2] %s on the way in: what a person sent is answered once, with its file",
    { timeout: 60_000 },
    async (point) => {
      await using scene = await open(point, "telegram");
      const { telegram } = scene;
      await scene.connected();
      const bytes = Buffer.from("the word is plover");
      telegram.say({ chat: PERSON, extra: { caption: "read", document: { file_id: telegram.upload(bytes), file_name: "a.md" } } });
      await through(scene);
      await telegram.until(() => telegram.messages(PERSON).find(({ text }) => text.includes("the word is plover")), "the answer", 30_000);
      await scene.settled();
      expect(telegram.messages(PERSON)).toHaveLength(1);
      expect(stored(scene).map(({ name }) => name)).toEqual(["a.md"]);
      expect(orphans(scene)).toHaveLength(point === "file.written" ? 1 : 0);
    },
  );

  it("[RC1][CH2] in the middle of a download: what came of it is nobody's, and it is fetched again", { timeout: 60_000 }, async () => {
    await using scene = await createChannelScene({ telegram: { allowFrom: [String(PERSON)] }, slack: null });
    const { telegram, herald } = scene;
    await scene.connected();
    telegram.faults.add("download", "hang");
    const bytes = Buffer.from("the word is dunlin ".repeat(400));
    telegram.say({ chat: PERSON, extra: { caption: "read", document: { file_id: telegram.upload(bytes), file_name: "b.md" } } });
    const folder = join(herald.stateDir, "attachments");
    await waitFor("half of it", () => {
      mkdirSync(folder, { recursive: true });
      return readdirSync(folder).some((name) => name.endsWith(".part"));
    });
    await herald.crash();
    expect(stored(scene)).toEqual([]);
    await herald.restart();
    await telegram.until(() => telegram.messages(PERSON).find(({ text }) => text.includes("the word is dunlin")), "the answer", 30_000);
    await scene.settled();
    expect(stored(scene).map(({ name }) => name)).toEqual(["b.md"]);
    expect(orphans(scene).every((name) => name.endsWith(".part"))).toBe(true);
  });

  it("[RC1][CH2] a turn that is taken up again fetches nothing: its request says what came with it", { timeout: 60_000 }, async () => {
    await using scene = await open("turn.input-appended", "telegram");
    const { telegram, model } = scene;
    await scene.connected();
    const document = (name: string, bytes: Buffer) => ({ document: { file_id: telegram.upload(bytes), file_name: name } });
    for (let n = 0; n < 3; n++) telegram.faults.add("download", "drop");
    telegram.say({ chat: PERSON, extra: { caption: "read", ...document("c.md", Buffer.from("the word is godwit ".repeat(40))) } });
    await scene.herald.exited();
    const downloads = () => telegram.calls.filter(({ method }) => method === "download").length;
    const before = downloads();
    await scene.herald.restart();
    await telegram.until(() => telegram.messages(PERSON).find(({ text }) => text.includes("could not be fetched")), "the refusal", 30_000);
    await telegram.until(() => model.calls.length > 0, "the request", 30_000);
    await scene.settled();
    expect(downloads()).toBe(before);
    expect(stored(scene)).toEqual([]);
    expect(JSON.stringify(model.calls.at(-1)?.body)).toContain("Not attached");
  });

  it.concurrent.each([...OUT, "delivery.marked", "delivery.sent"])(
    "[RC1][DL4] %s on the way out: Slack shows the file once",
    { timeout: 60_000 },
    async (point) => {
      // What is marked first is the file: the answer comes behind it.
      await using scene = await open(point, "slack");
      const { slack, herald } = scene;
      await scene.connected();
      mkdirSync(join(herald.stateDir, "workspace"), { recursive: true });
      const mark = randomUUID();
      writeFileSync(join(herald.stateDir, "workspace", "c.csv"), mark);
      slack.say({ channel: DIRECT, text: plan([calls(["send_file", { path: "c.csv", caption: "Here" }])]) });
      await through(scene);
      // Whatever stands there by now: what was stored is what is sent.
      writeFileSync(join(herald.stateDir, "workspace", "c.csv"), point === "file.written" ? mark : "another");
      await slack.until(() => slack.messages(DIRECT).find(({ text }) => text.startsWith("results:")), "the answer", 40_000);
      await scene.settled();
      const files = slack.messages(DIRECT).flatMap((message) => message.files);
      expect(files.map(({ content }) => content)).toEqual([mark]);
    },
  );
});
