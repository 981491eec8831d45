// What people see of delivery while a platform is in trouble: the whole app in this process, real channels against the fakes.
import { afterAll, afterEach, beforeAll, expect, it } from "vitest";
import { createLocalApp, type LocalApp } from "../support/local-app.ts";

const PERSON = 42;
const OTHER = 43;
const THIRD = 44;
/** Far below the seconds for which Slack is asked whether something arrived, and what a busy machine needs. */
const AT_ONCE_MS = 3_000;

let app: LocalApp;
beforeAll(async () => {
  app = await createLocalApp({
    telegram: { allowFrom: [String(PERSON), String(OTHER), String(THIRD)] },
    slack: { allowFrom: ["U0PERSON"] },
  });
  await app.connected();
});
afterEach(() => {
  app.telegram.faults.choose(null);
  app.slack.faults.clear();
});
afterAll(() => app[Symbol.asyncDispose]());

const isAnnouncement = ({ text }: { text: string }): boolean => text.includes("Status: success");
const failedOnce = (): Promise<unknown> =>
  app.telegram.until(() => app.lines().some((line) => line.msg.includes("a send did not succeed")), "the announcement to fail");

it("[DL6] Telegram refuses an announcement again and again: commands are answered at once, and it follows", async () => {
  app.telegram.faults.choose((method, payload) =>
    method === "sendMessage" && isAnnouncement({ text: String(payload.text) }) ? "500" : null,
  );
  app.telegram.say({ chat: PERSON, text: "/subagents spawn look around" });
  await failedOnce();
  for (const command of ["/subagents list", "/status", "/help"]) {
    const askedAt = performance.now();
    await app.ask({ chat: PERSON, text: command });
    expect(performance.now() - askedAt, command).toBeLessThan(AT_ONCE_MS);
  }
  expect(app.telegram.messages(PERSON).some(isAnnouncement)).toBe(false);
  app.telegram.faults.choose(null);
  await app.telegram.until(() => app.telegram.messages(PERSON).some(isAnnouncement), "the announcement");
  await app.settled();
  expect(app.telegram.messages(PERSON).filter(isAnnouncement)).toHaveLength(1);
});

it("[DL6] [ST2] /stop is answered at once; the announcement of a run that had ended before it follows when it can", async () => {
  const chat = OTHER;
  const before = 0;
  app.telegram.faults.choose((method, payload) =>
    method === "sendMessage" && isAnnouncement({ text: String(payload.text) }) ? "500" : null,
  );
  await app.ask({ chat, text: "/subagents spawn look around again" });
  const waits = "SELECT 1 FROM outbox WHERE run_id IS NOT NULL AND state = 'unknown' AND address_key LIKE 'telegram/%'";
  await app.telegram.until(() => app.rows(waits).length === 1, "the announcement to fail");
  const askedAt = performance.now();
  expect(await app.ask({ chat, text: "/stop" })).toBe("⚙️ Agent was aborted. Stopped 0 sub-agents.");
  expect(performance.now() - askedAt).toBeLessThan(AT_ONCE_MS);
  app.telegram.faults.choose(null);
  await app.telegram.until(() => app.telegram.messages(chat).filter(isAnnouncement).length > before, "the announcement");
  await app.settled();
  expect(app.telegram.messages(chat).filter(isAnnouncement)).toHaveLength(before + 1);
  expect(app.rows("SELECT state, delivery FROM runs ORDER BY seq DESC LIMIT 1")).toEqual([{ state: "done", delivery: "delivered" }]);
});

it("[ST2] an ended run is stopped by name while its announcement waits to be sent: it is left out, and the answer says so", async () => {
  const chat = THIRD;
  app.telegram.faults.choose((method, payload) =>
    method === "sendMessage" && isAnnouncement({ text: String(payload.text) }) ? "500" : null,
  );
  const before = app.telegram.messages(chat).filter(isAnnouncement).length;
  await app.ask({ chat, text: "/subagents spawn look around once more" });
  const waits = "SELECT 1 FROM outbox WHERE run_id IS NOT NULL AND state = 'unknown' AND address_key LIKE 'telegram/%'";
  await app.telegram.until(() => app.rows(waits).length === 1, "the announcement to fail");
  expect(await app.ask({ chat, text: "/subagents stop last" })).toMatch(
    /has already ended \(done\); its announcement had not been sent yet and is left out\./,
  );
  app.telegram.faults.choose(null);
  await app.settled();
  expect(app.telegram.messages(chat).filter(isAnnouncement)).toHaveLength(before);
  expect(app.rows("SELECT state, delivery, delivery_reason FROM runs ORDER BY seq DESC LIMIT 1")).toEqual([
    { state: "done", delivery: "skipped", delivery_reason: "stopped before it was sent" },
  ]);
});

it("[DL6] Slack answers an announcement with one 503 and is asked for seconds whether it arrived: commands don't wait for that", async () => {
  // The started line and the answer pass.
  app.slack.faults.add("chat.postMessage", "500", { skip: 2 });
  app.slack.say({ channel: "D0PERSON", text: "!subagents spawn look around" });
  await app.slack.until(() => app.rows("SELECT 1 FROM outbox WHERE state = 'unknown'").length === 1, "the announcement to fail");
  const before = app.slack.messages("D0PERSON").length;
  const askedAt = performance.now();
  app.slack.say({ channel: "D0PERSON", text: "!subagents list" });
  await app.slack.until(() => app.slack.messages("D0PERSON").length > before, "an answer");
  expect(performance.now() - askedAt).toBeLessThan(AT_ONCE_MS);
  expect(app.slack.messages("D0PERSON").at(-1)?.text).toContain("🧭 Subagents");
});
