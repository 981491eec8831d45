// Signing in and out: what a browser holds is of no use anywhere else, is kept as hashes, and ends when somebody says so.
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { afterEach, describe, expect, it } from "vitest";
import { createManualClock } from "../../support/manual-clock.ts";
import { waitFor } from "../../support/wait.ts";
import { startWeb, type WebFixture } from "../../support/web-server.ts";

type Headers = Record<string, string>;
interface View {
  id: string;
  agent: string;
  seenFrom: string;
  seenAt: number;
  isThis: boolean;
}

let web: WebFixture;
afterEach(() => web.close());

const start = async (options?: Parameters<typeof startWeb>[0]): Promise<void> => {
  web = await startWeb(options);
};
const statusFor = async (headers: Headers, path = "/api/chats"): Promise<number> => {
  const ask = () => fetch(`${web.url}${path}`, { headers });
  // After a restart the connection that was kept for the next call is gone.
  const response = await ask().catch(ask);
  await response.body?.cancel();
  return response.status;
};
const post = async (path: string, body: unknown, headers: Headers) => {
  const sent = { ...headers, "content-type": "application/json" };
  const response = await fetch(`${web.url}${path}`, { method: "POST", headers: sent, body: JSON.stringify(body) });
  return { status: response.status, body: (await response.json()) as Record<string, unknown>, headers: response.headers };
};
const listed = async (headers: Headers): Promise<View[]> =>
  ((await (await fetch(`${web.url}/api/browsers`, { headers })).json()) as { browsers: View[] }).browsers;
const bearer = (): Headers => ({ authorization: `Bearer ${web.token}` });

/** An open stream; resolves when it runs. */
async function listen(headers: Headers): Promise<{ isOpen(): boolean; close(): void }> {
  const abort = new AbortController();
  const response = await fetch(`${web.url}/api/events`, { headers, signal: abort.signal });
  expect(response.status).toBe(200);
  let isOpen = true;
  void (async () => {
    for await (const _ of response.body ?? []) {
      // Whatever it says: only its end matters here.
    }
  })()
    .catch(() => undefined)
    .finally(() => {
      isOpen = false;
    });
  return { isOpen: () => isOpen, close: () => abort.abort() };
}

describe("what a browser holds", () => {
  it("[WB8] the cookie alone, which every port of this host is sent, opens nothing; nor does the key alone, nor two that don't belong together", async () => {
    await start();
    const [one, other] = [await web.signIn(), await web.signIn()];
    const { cookie, "x-herald-key": key } = one;
    expect(await statusFor(one)).toBe(200);
    for (const headers of [{ cookie }, { "x-herald-key": key }, { cookie, "x-herald-key": other["x-herald-key"] }] as Headers[]) {
      for (const path of ["/api/chats", "/api/runs", "/api/browsers", "/api/events", "/api/chats/main/messages"])
        expect({ headers, path, status: await statusFor(headers, path) }).toEqual({ headers, path, status: 401 });
    }
    // A cookie without its key is no guess: whoever lost the key can still sign in.
    for (let n = 0; n < 15; n++) await statusFor({ cookie });
    expect(await statusFor(await web.signIn())).toBe(200);
  });

  it("[WB8] a cookie of the same name that another port has set, in front or instead, locks nobody out", async () => {
    await start();
    const { cookie, ...rest } = await web.signIn();
    const tossed = `herald_${web.port}=x`;
    for (const cookies of [`${tossed}; ${cookie}`, `${cookie}; ${tossed}`, `${tossed}; herald_${web.port}=; ${cookie}`])
      expect(await statusFor({ ...rest, cookie: cookies })).toBe(200);
    // Replaced, the page has to sign in again, and asking before that is no guess; nor is it for a browser that was ended.
    const ended = await web.signIn();
    await post("/api/browsers/end", { others: true }, { ...rest, cookie });
    for (let n = 0; n < 12; n++) for (const headers of [{ ...rest, cookie: tossed }, ended]) expect(await statusFor(headers)).toBe(401);
    expect(await statusFor(await web.signIn())).toBe(200);
    expect(await statusFor(bearer())).toBe(200);
  });

  it("[WB8] [SC3] is kept as hashes, and nowhere else", async () => {
    await start();
    const { cookie, "x-herald-key": key } = await web.signIn();
    await web.db.get("PRAGMA wal_checkpoint(TRUNCATE)");
    const stored = ["herald.db", "herald.db-wal"].map((name) => readFileSync(join(web.stateDir, name), "latin1")).join("");
    expect(stored).toContain("browsers");
    for (const secret of [cookie.split("=")[1] ?? "?", key, web.token]) expect(stored).not.toContain(secret);
  });

  it("[WB8] lasts thirty days, over restarts, and not a moment longer, an open stream neither", async () => {
    const clock = createManualClock();
    await start({ clock });
    const signedIn = await web.signIn();
    const stream = await listen(signedIn);
    await clock.leap(30 * 24 * 3_600_000 - 60_000);
    await web.restart();
    expect(await statusFor(signedIn)).toBe(200);
    const again = await listen(signedIn);
    expect(stream.isOpen()).toBe(false);
    await clock.advance(60_000);
    expect(await statusFor(signedIn)).toBe(401);
    await waitFor("the end of the stream", () => !again.isOpen());
    expect(await listed(bearer())).toEqual([]);
  });
});

describe("the list of signed-in browsers", () => {
  it("[WB8] names each with where and when it was last seen; one, all others and this one can be ended, with their streams", async () => {
    await start();
    const [mine, phone, work] = [await web.signIn("Mine"), await web.signIn("Phone"), await web.signIn("Work")];
    const seen = await listed(mine);
    expect(seen.map(({ agent, isThis, seenFrom }) => [agent, isThis, seenFrom]).sort()).toEqual([
      ["Mine", true, "127.0.0.1"],
      ["Phone", false, "127.0.0.1"],
      ["Work", false, "127.0.0.1"],
    ]);
    expect(Object.keys(seen[0] ?? {}).sort()).toEqual(["agent", "id", "isThis", "seenAt", "seenFrom", "signedInAt"]);
    const streams = [await listen(mine), await listen(phone), await listen(work)] as const;

    const id = seen.find(({ agent }) => agent === "Phone")?.id;
    expect(await post("/api/browsers/end", { id }, mine)).toMatchObject({ status: 200, body: { ended: 1 } });
    expect((await post("/api/browsers/end", { id }, mine)).status).toBe(404);
    await waitFor("the end of the phone's stream", () => !streams[1].isOpen());
    expect([await statusFor(phone), await statusFor(work)]).toEqual([401, 200]);

    expect(await post("/api/browsers/end", { others: true }, mine)).toMatchObject({ status: 200, body: { ended: 1 } });
    await waitFor("the end of the other stream", () => !streams[2].isOpen());
    expect(streams[0].isOpen()).toBe(true);

    const out = await post("/api/logout", {}, mine);
    expect([out.status, out.headers.get("set-cookie")]).toEqual([200, expect.stringMatching(/^herald_\d+=; .*Max-Age=0$/)]);
    await waitFor("the end of my stream", () => !streams[0].isOpen());
    await web.restart();
    expect([await statusFor(mine), await statusFor(phone), await statusFor(work)]).toEqual([401, 401, 401]);
    expect(await listed(bearer())).toEqual([]);
  });

  it("[WB8] signing in again takes the place of what the browser had, and a script with the token is none", async () => {
    await start();
    const first = await web.signIn();
    const { status, body, headers } = await post("/api/login", { token: web.token }, first);
    const second = { cookie: headers.get("set-cookie")?.split(";")[0] ?? "", "x-herald-key": String(body.key) };
    expect([status, await statusFor(first), await statusFor(second)]).toEqual([200, 401, 200]);
    expect(await listed(bearer())).toHaveLength(1);
    expect((await listed(bearer()))[0]?.isThis).toBe(false);
    expect((await post("/api/logout", {}, bearer())).status).toBe(400);
    expect(await post("/api/browsers/end", { others: true }, bearer())).toMatchObject({ body: { ended: 1 } });
    expect((await post("/api/browsers/end", { all: true }, bearer())).status).toBe(400);
  });

  it("[WB8] when it was last seen moves on, a minute at a time, and the oldest make room", async () => {
    const clock = createManualClock();
    await start({ clock });
    const first = await web.signIn("first");
    const at = async () => (await listed(bearer())).find(({ agent }) => agent === "first")?.seenAt;
    const before = clock.now();
    await clock.advance(30_000);
    await statusFor(first);
    expect(await at()).toBe(before);
    await clock.advance(31_000);
    await statusFor(first);
    expect(await at()).toBe(before + 61_000);
    for (let n = 0; n < 100; n++) {
      await clock.advance(1);
      await web.signIn(`n${n}`);
    }
    expect(await listed(bearer())).toHaveLength(100);
    expect(await at()).toBeUndefined();
  });
});

describe("another token", () => {
  it("[CF4] [SC3] counts at once: the old one, the browsers it let in and their streams end, for good", async () => {
    await start();
    const old = { token: web.token, browser: await web.signIn(), bearer: bearer() };
    const streams = [await listen(old.browser), await listen(old.bearer)];
    await web.changeToken("n".repeat(20) + "E".repeat(23));
    await waitFor("the end of both streams", () => streams.every((stream) => !stream.isOpen()));
    expect([await statusFor(old.browser), await statusFor(old.bearer), await statusFor(bearer())]).toEqual([401, 401, 200]);
    const fresh = await web.signIn();
    expect(await statusFor(fresh)).toBe(200);
    // With the old one set again they don't come back.
    await web.changeToken(old.token);
    expect([await statusFor(old.browser), await statusFor(fresh), await statusFor(old.bearer)]).toEqual([401, 401, 200]);
  });
});
