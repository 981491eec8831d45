// The routes of files, over real HTTP: what is taken, what is refused and how, and that nothing of a broken upload stays.
import { randomUUID } from "node:crypto";
import { readdirSync } from "node:fs";
import { connect } from "node:net";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { LIMITS } from "../../support/files.ts";
import { waitFor } from "../../support/wait.ts";
import { startWeb, type WebFixture } from "../../support/web-server.ts";

let web: WebFixture;
beforeEach(async () => {
  web = await startWeb({ requestTimeoutMs: 500 });
});
afterEach(() => web.close());

const BYTES = "application/octet-stream";
const headers = (more: Record<string, string> = {}) => ({ authorization: `Bearer ${web.token}`, "content-type": BYTES, ...more });
const put = (body: string, { chat = "main", key = String(randomUUID()), name = "a.txt", type = BYTES } = {}) =>
  fetch(`${web.url}/api/chats/${chat}/files/${key}?name=${name}`, { method: "POST", headers: headers({ "content-type": type }), body });
const post = (chat: string, files: string[], id = randomUUID()) =>
  fetch(`${web.url}/api/chats/${chat}/messages`, {
    method: "POST",
    headers: headers({ "content-type": "application/json" }),
    body: JSON.stringify({ id, text: "", files }),
  });
const idOf = async (response: Response) => ((await response.json()) as { file: { id: string } }).file.id;
const kept = () => {
  try {
    return readdirSync(join(web.stateDir, "attachments"));
  } catch {
    return [];
  }
};

describe("uploads", () => {
  it("[CH2] the same upload again is the same file; another body type, chat or key is refused", async () => {
    const key = randomUUID();
    const first = await idOf(await put("hello", { key }));
    expect(await idOf(await put("hello", { key }))).toBe(first);
    expect(kept()).toEqual([first]);
    expect((await put("{}", { type: "application/json" })).status).toBe(415);
    expect((await put("x", { chat: "nobody" })).status).toBe(404);
    expect((await put("x", { key: "../x" })).status).toBe(404);
    expect((await put("x", { key: "short" })).status).toBe(400);
  });

  it("[CH2] FILE-007 more than announced, less than announced, hung up in the middle: nothing of it stays", async () => {
    web.files.limits = { ...LIMITS, fileBytes: 1_000 };
    expect(await (await put("x".repeat(2_000))).json()).toEqual({
      error: "“a.txt” was not taken: it has 2 KB, and files may have at most 1000 B.",
    });
    const start = `POST /api/chats/main/files/${randomUUID()}?name=a HTTP/1.1\r\nHost: 127.0.0.1:${web.port}\r\nAuthorization: Bearer ${web.token}\r\nContent-Type: ${BYTES}\r\n`;
    for (const rest of [
      "Content-Length: 500\r\n\r\nhalf of it",
      "Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n",
      `Transfer-Encoding: chunked\r\n\r\n7d0\r\n${"x".repeat(2_000)}\r\n`,
    ]) {
      const socket = connect(web.port, "127.0.0.1", () => socket.write(start + rest));
      socket.on("error", () => undefined);
      await waitFor("something to arrive", () => kept().some((name) => name.endsWith(".part")) || socket.closed || socket.bytesRead > 0);
      socket.destroy();
      await waitFor("nothing to be left", () => kept().length === 0);
    }
    expect(await web.db.all("SELECT 1 FROM attachments")).toEqual([]);
  });

  it("[CH2] a slow upload is waited for, where a slow request is not", async () => {
    const slow = new ReadableStream<Uint8Array>({
      async start(controller) {
        for (const piece of ["a", "b", "c", "d"]) {
          controller.enqueue(Buffer.from(piece));
          await new Promise((resolve) => setTimeout(resolve, 300));
        }
        controller.close();
      },
    });
    const sent = { method: "POST", headers: headers(), body: slow, duplex: "half" } as RequestInit;
    const response = await fetch(`${web.url}/api/chats/main/files/${randomUUID()}?name=slow.txt`, sent);
    expect((await web.files.bytes.read(await idOf(response)))?.toString()).toBe("abcd");
  });

  it("[CH2] a chat's uploads are its own: no other chat sends them, none is sent twice, and only so many wait", async () => {
    web.files.limits = { ...LIMITS, perMessage: 2 };
    const other = randomUUID();
    const mine = await idOf(await put("mine"));
    expect((await post(other, [mine])).status).toBe(410);
    const id = randomUUID();
    expect((await post("main", [mine, mine], id)).status).toBe(202);
    expect((await post("main", [mine], id)).status).toBe(202);
    expect((await post("main", [mine])).status).toBe(410);
    for (let n = 0; n < 4; n++) expect((await put(`${n}`)).status).toBe(200);
    expect(await (await put("5")).json()).toEqual({ error: "4 files wait to be sent in this chat already. Send or remove some first." });
  });

  it("[CH2] one that is not sent can be taken back, by its own chat only; a sent one not", async () => {
    const id = await idOf(await put("x"));
    const remove = (chat: string) =>
      fetch(`${web.url}/api/chats/${chat}/files/${id}/remove`, {
        method: "POST",
        headers: headers({ "content-type": "application/json" }),
        body: "{}",
      });
    expect((await remove(randomUUID())).status).toBe(404);
    expect((await remove("main")).status).toBe(200);
    expect(kept()).toEqual([]);
    expect((await fetch(`${web.url}/api/files/${id}`, { headers: headers() })).status).toBe(404);
  });
});
