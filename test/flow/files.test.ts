// Files from the page to the model and back (CH2), with the whole program as a process.
import { randomUUID } from "node:crypto";
import { existsSync, mkdirSync, readdirSync, readFileSync, rmSync, statSync, symlinkSync, truncateSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { calls, child, plan, spawns } from "../support/brain.ts";
import { png } from "../support/files.ts";
import { type Chat, createScene, type Scene } from "../support/scene.ts";
import { SCRIPTED_KEY } from "../support/scripted-model.ts";
import { waitFor } from "../support/wait.ts";

let scene: Scene;
let workspace: string;
beforeAll(async () => {
  scene = await createScene({ config: { attachments: { maxPerMessage: 3 } } });
  workspace = join(scene.herald.stateDir, "workspace");
});
afterAll(() => scene[Symbol.asyncDispose]());

async function upload(chat: Chat, name: string, bytes: Buffer): Promise<{ status: number; body: { file: { id: string }; error: string } }> {
  const response = await scene.herald.request(`/api/chats/${chat.id}/files/${randomUUID()}?name=${encodeURIComponent(name)}`, {
    method: "POST",
    headers: { "content-type": "application/octet-stream" },
    body: new Uint8Array(bytes),
  });
  return { status: response.status, body: (await response.json()) as never };
}

async function send(chat: Chat, text: string, files: string[]): Promise<number> {
  const body = JSON.stringify({ id: randomUUID(), text, files });
  return (await scene.herald.request(`/api/chats/${chat.id}/messages`, { method: "POST", body })).status;
}

const lastRequest = (fits: string) => scene.model.calls.findLast((call) => JSON.stringify(call.body).includes(fits));
const extras = (chat: Chat) =>
  scene.herald
    .rows<{ author: string; extra: string | null; text: string }>(
      "SELECT author, extra, text FROM web_messages WHERE chat = ? ORDER BY seq",
      chat.id,
    )
    .map(({ author, extra, text }) => ({
      author,
      text,
      files: (JSON.parse(extra ?? "{}") as { files?: { id: string; name: string }[] }).files ?? [],
    }));

describe("what people attach", () => {
  it("[CH2] a short text stands in the request behind a fence, a long one is there for read; the transcript holds no bytes", async () => {
    const chat = scene.chat();
    const short = await upload(chat, "../notes.md", Buffer.from("the code word is heron"));
    const long = await upload(chat, "log.txt", Buffer.from("line\n".repeat(20_000)));
    expect([short.status, long.status]).toEqual([200, 200]);
    const path = `attachments/${long.body.file.id.slice(0, 8)}-log.txt`;
    expect(await send(chat, plan([calls(["read", { path, limit: 1 }])]), [short.body.file.id, long.body.file.id])).toBe(202);
    await waitFor("the answer", async () => extras(chat).some(({ author }) => author === "agent"));
    const asked = JSON.stringify(lastRequest(path)?.body);
    expect(asked).toMatch(/<untrusted [0-9a-f]{12} from=[^>]*attached file notes\.md/);
    expect(asked).toContain("the code word is heron");
    expect(asked).toContain("use the tool read");
    expect(extras(chat).at(-1)?.text).toContain("line");
    expect(extras(chat)[0]?.files.map(({ name }) => name)).toEqual(["notes.md", "log.txt"]);
    const transcript = scene.transcripts("main").find((text) => text.includes(long.body.file.id));
    expect(transcript?.length).toBeLessThan(20_000);
    expect(statSync(join(workspace, path)).mode & 0o777).toBe(0o400);
  });

  it("[CH2] a message may be files alone; a picture is named to a model that can't see it", async () => {
    const chat = scene.chat();
    const { body } = await upload(chat, "photo.png", png(40, 30));
    expect(await send(chat, "", [body.file.id])).toBe(202);
    await waitFor("the request", () => lastRequest(body.file.id.slice(0, 8)) !== undefined);
    const asked = JSON.stringify(lastRequest(body.file.id.slice(0, 8))?.body);
    expect(asked).toContain("40 × 30 pixels");
    expect(asked).toContain("you can't see images");
  });

  it("[CH2] a sub-agent sees the pictures its task names, those of its own chat; one that can't see is told so", async () => {
    const [chat, other] = [scene.chat(), scene.chat()];
    const bytes = png(33, 22);
    const { body } = await upload(chat, "bird.png", bytes);
    const foreign = await upload(other, "secret.png", png(44, 11));
    const pathOf = (id: string, name: string) => `attachments/${id.slice(0, 8)}-${name}`;
    const named = `${pathOf(body.file.id, "bird.png")} and ${pathOf(foreign.body.file.id, "secret.png")}`;
    const look = (label: string, model: string, filler = "") => child(label, [{ text: `${label} looked at ${named}${filler}` }], { model });
    const steps = [
      spawns(look("seeing", "scripted/llava-7b"), look("blind", "scripted/test"), look("long", "scripted/llava-7b", "x".repeat(20_000))),
    ];
    expect(await send(chat, plan(steps), [body.file.id])).toBe(202);
    for (const label of ["seeing", "blind", "long"]) await chat.announced(label);
    const asked = (label: string) =>
      JSON.stringify(
        scene.model.calls.find(
          ({ system, messages }) => system.startsWith("You are a sub-agent") && messages[0]?.text.includes(`${label} looked`),
        )?.body,
      );
    for (const label of ["seeing", "long"]) {
      expect(asked(label)).toContain(bytes.toString("base64"));
      expect(asked(label)).not.toContain(png(44, 11).toString("base64"));
    }
    expect(asked("blind")).not.toContain(bytes.toString("base64"));
    expect(asked("blind")).toContain("you can't see images");
  });

  it("[CH2] [WB3] other words for a message keep its files; with the chat they are gone", async () => {
    const chat = scene.chat();
    const { body } = await upload(chat, "kept.md", Buffer.from("the code word is stork"));
    const first = randomUUID();
    const post = (path: string, what: unknown) =>
      scene.herald.request(`/api/chats/${chat.id}/${path}`, { method: "POST", body: JSON.stringify(what) });
    await post("messages", { id: first, text: plan([{ text: "first answer" }]), files: [body.file.id] });
    await scene.herald.reply(/^first answer$/, chat.id);
    // Its answer stands there before its row says so.
    const again = { id: randomUUID(), text: plan([{ text: "second answer" }]), replaces: first };
    await waitFor("the other words to be taken", async () => (await post("resend", again)).status === 202);
    await scene.herald.reply(/^second answer$/, chat.id);
    expect(JSON.stringify(scene.model.calls.at(-1)?.body)).toContain("the code word is stork");
    expect(extras(chat).flatMap(({ files }) => files.map(({ id }) => id))).toEqual([body.file.id, body.file.id]);
    const address = `/api/files/${body.file.id}`;
    expect((await scene.herald.request(address)).status).toBe(200);
    const copy = join(workspace, "attachments", `${body.file.id.slice(0, 8)}-kept.md`);
    expect(readFileSync(copy, "utf8")).toBe("the code word is stork");
    await waitFor("the deletion", async () => (await post("delete", {})).status === 200);
    expect((await scene.herald.request(address)).status).toBe(404);
    expect(scene.herald.rows("SELECT id FROM attachments WHERE id = ?", body.file.id)).toEqual([]);
    expect(existsSync(copy)).toBe(false);
  });

  it("[CH2] [WB3] a message of files alone is answered once more; words can be taken from one with files, not from one without", async () => {
    const chat = scene.chat();
    const { body } = await upload(chat, "alone.md", Buffer.from("the code word is avocet"));
    const post = (path: string, what: unknown) =>
      scene.herald.request(`/api/chats/${chat.id}/${path}`, { method: "POST", body: JSON.stringify(what) });
    const answers = (count: number) =>
      waitFor("its answer", () => extras(chat).filter(({ author }) => author === "agent").length === count);
    const resent = async (replaces: string, text: string) => {
      const id = randomUUID();
      await waitFor("its place", async () => (await post("resend", { id, text, replaces })).status === 202);
      return id;
    };
    const first = randomUUID();
    await post("messages", { id: first, text: "", files: [body.file.id] });
    await answers(1);
    const second = await resent(first, "");
    await answers(2);
    expect(JSON.stringify(scene.model.calls.at(-1)?.body).split("the code word is avocet")).toHaveLength(2);
    const third = await resent(second, "with words");
    await answers(3);
    await resent(third, " ");
    await answers(4);
    const plain = scene.chat();
    const words = await plain.say(plan([{ text: "said" }]));
    await scene.herald.reply(/^said$/, plain.id);
    const refused = await waitFor("the refusal", async () => {
      const answer = await scene.herald.request(`/api/chats/${plain.id}/resend`, {
        ...{ method: "POST", body: JSON.stringify({ id: randomUUID(), text: " ", replaces: words }) },
      });
      const { error } = (await answer.json()) as { error: string };
      return error.includes("on its way") || error.includes("being written") ? null : error;
    });
    expect(refused).toBe("This message has no files, so it needs words.");
  });

  it("[CH2] FILE-007 too many files of one message, and one that is gone, are refused in words", async () => {
    const chat = scene.chat();
    const ids: string[] = [];
    for (let n = 0; n < 4; n++) ids.push((await upload(chat, `${n}.txt`, Buffer.from(`${n}`))).body.file.id);
    expect(await send(chat, "four", ids)).toBe(202);
    await waitFor("the refusal", async () =>
      extras(chat).some(({ text }) => text.includes("Only the first 3 files were taken: a message may have no more.")),
    );
    expect(await send(chat, "gone", [randomUUID()])).toBe(410);
    expect((await upload(chat, "empty", Buffer.of())).body.error).toBe("“empty” was not taken: it is empty.");
  });
});

describe("send_file", () => {
  const path = (name: string): string => join(workspace, name);

  it("[CH2] a file of the workspace comes into the asking chat, from the agent and from its sub-agent", async () => {
    const chat = scene.chat();
    writeFileSync(path("report.csv"), "a,b\n1,2\n");
    await chat.say(plan([calls(["send_file", { path: "report.csv", caption: "The figures" }])]));
    await waitFor("the results", async () => extras(chat).at(-1)?.text.startsWith("results: ") === true);
    expect(extras(chat).at(-1)?.text).toContain("is on its way");
    const sent = extras(chat).find(({ text }) => text === "The figures");
    expect(sent?.files[0]).toMatchObject({ name: "report.csv" });
    const response = await scene.herald.request(`/api/files/${sent?.files[0]?.id}`);
    expect(await response.text()).toBe("a,b\n1,2\n");
    expect(response.headers.get("content-disposition")).toBe("attachment; filename*=UTF-8''report.csv");
    expect(response.headers.get("content-type")).toBe("application/octet-stream");
    await chat.act([spawns(child("sender", [calls(["send_file", { path: "report.csv", caption: "From below" }])]))]);
    await chat.announced("sender");
    expect(extras(chat).filter(({ text }) => text === "From below")).toHaveLength(1);
  });

  it("[CH2] FILE-003 everything but a plain file of the workspace is refused with its reason, and so is a secret", async () => {
    const chat = scene.chat();
    mkdirSync(path("folder"), { recursive: true });
    writeFileSync(path("empty.txt"), "");
    writeFileSync(path("huge.bin"), "");
    truncateSync(path("huge.bin"), 3 * 1024 ** 3);
    writeFileSync(path("key.txt"), `x${"y".repeat(600_000)} ${SCRIPTED_KEY} z`);
    symlinkSync("/etc/hostname", path("out.txt"));
    const refused = await chat.act(
      ["../.env", "/etc/hostname", "out.txt", "folder", join(scene.herald.stateDir, "web-token"), "empty.txt", "huge.bin", "key.txt"].map(
        (one) => calls(["send_file", { path: one }]),
      ),
    );
    expect(refused.map((text) => text.split("\n")[0])).toEqual([
      ...[
        expect.stringContaining('holds ".."'),
        expect.stringContaining("outside the workspace"),
        expect.stringContaining("leaves the workspace"),
      ],
      ...[expect.stringContaining("is a folder"), expect.stringContaining("outside the workspace"), expect.stringContaining("is empty")],
      ...[expect.stringContaining("at most 20.0 MB"), expect.stringContaining("holds a secret")],
    ]);
    rmSync(path("huge.bin"));
    expect(extras(chat).flatMap(({ files }) => files)).toEqual([]);
  });
});

it("[CH2] nothing is left half: every stored file has its row", () => {
  const rows = scene.herald.rows<{ id: string }>("SELECT id FROM attachments").map(({ id }) => id);
  expect(readdirSync(join(scene.herald.stateDir, "attachments")).sort()).toEqual(rows.sort());
});
