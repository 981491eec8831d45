// Pictures in a conversation over every wire format, through the real provider packages against servers on loopback.
import { afterEach, describe, expect, it } from "vitest";
import { inputBound } from "../../../src/models/input-bound.ts";
import type { ChatMessage, PictureRef } from "../../../src/models/model.ts";
import { chosenPictures, seesPictures } from "../../../src/models/vision.ts";
import { type FakeModelServer, inOrder } from "../../support/fake-model-server.ts";
import { png } from "../../support/files.ts";
import { createSubject, FORMATS } from "../../support/model-formats.ts";

const servers: FakeModelServer[] = [];
afterEach(async () => {
  await Promise.all(servers.splice(0).map((server) => server.close()));
});

const PHOTO: PictureRef = { id: "p1", name: "photo.png", type: "image/png", size: 80 };
const DATA = png().toString("base64");

describe.each(FORMATS)("$name", (format) => {
  const ask = async (images: boolean, readPicture: (id: string) => Promise<Buffer | null>) => {
    const server = await format.create({ respond: inOrder({ text: "a red square" }) });
    servers.push(server);
    const [provider = "", ...id] = format.model.split("/");
    const models = [{ id: id.join("/"), images }];
    const endpoints = { [provider]: { api: format.api, baseUrl: server.url, apiKey: "sk-secret-key", models } };
    const messages: ChatMessage[] = [{ role: "user", text: "What is this?", pictures: [PHOTO] }];
    const reply = await createSubject({ endpoints, request: { model: format.model, messages }, readPicture }).call();
    expect(reply).toMatchObject({ outcome: "ok", text: "a red square" });
    return JSON.stringify(server.calls[0]?.body);
  };

  it("[CH2] a model that sees gets the picture's bytes with the words", async () => {
    const body = await ask(true, async (id) => (id === "p1" ? png() : null));
    expect(body).toContain(DATA);
    expect(body).toContain("What is this?");
    expect(body).not.toContain("is not shown");
  });

  it("[CH2] one that doesn't is told its name, and so is one whose picture is no longer kept", async () => {
    const blind = await ask(false, async () => png());
    expect(blind).not.toContain(DATA);
    expect(blind).toContain("you can't see images");
    expect(blind).toContain("photo.png");
    expect(await ask(true, async () => null)).toContain("no longer kept");
  });
});

describe("which pictures are sent", () => {
  const said = (count: number, size = 100): ChatMessage[] =>
    Array.from({ length: count }, (_, n) => ({ role: "user", text: `${n}`, pictures: [{ ...PHOTO, id: `p${n}`, size }] }));
  const sent = (messages: ChatMessage[]) => [...chosenPictures(messages)];

  it("[CH2] the newest, at most ten; when they become too many the older half goes, and the rest stays as it stood", () => {
    expect(sent(said(10))).toHaveLength(10);
    expect(sent(said(11))[0]).toBe("p6");
    for (const count of [12, 13, 14, 15, 16]) expect(sent(said(count))[0]).toBe("p6");
    expect(sent(said(16))).toHaveLength(10);
    expect(sent(said(3, 5_000_000))).toEqual(["p2"]);
  });

  it("[CH2] what is known of a model by its name gives way to the settings", () => {
    const sees = (api: "anthropic" | "openai" | "ollama" | "openai-compatible", id: string, images?: boolean) =>
      seesPictures({ id, endpoint: { api, models: images === undefined ? [] : [{ id, images }] } });
    expect([sees("anthropic", "claude-sonnet-5"), sees("openai", "gpt-6-sol"), sees("openai", "o3-mini")]).toEqual([true, true, false]);
    expect([sees("ollama", "qwen3:8b"), sees("ollama", "llava:13b"), sees("openai-compatible", "anthropic/claude-sonnet-5")]).toEqual([
      ...[false, true, true],
    ]);
    expect([sees("anthropic", "claude-sonnet-5", false), sees("ollama", "qwen3:8b", true)]).toEqual([false, true]);
  });

  it("[BG2] a picture counts in what a request may take", () => {
    const of = (messages: ChatMessage[]) => inputBound({ model: "a/b", reasoning: undefined, system: "", tools: [], messages }).tokens;
    expect(of([{ role: "user", text: "x", pictures: [PHOTO] }]) - of([{ role: "user", text: "x" }])).toBeGreaterThan(5_000);
  });
});
