// The status message of a batch in a Telegram topic and a Slack thread, against the real process: what people see and in which order,
// what its buttons do, and that it is one message and stays it. With HERALD_TEST_PRINT=1 the sequence of sends and edits is printed.
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { calls, child, createBrain, plan, type Step, spawns } from "../support/brain.ts";
import { type ChannelScene, createChannelScene } from "../support/channel-scene.ts";
import { createFloodLimits } from "../support/flood-limits.ts";
import { waitFor } from "../support/wait.ts";

const PERSON = 42;
const GROUP = -1001;
const OTHER_GROUP = -1002;
const TOPIC = 77;
const ROOM = "C0ROOM";

const brain = createBrain();
const limits = createFloodLimits(Date.now);
let scene: ChannelScene;
beforeAll(async () => {
  scene = await createChannelScene({
    telegram: {
      allowFrom: [String(PERSON)],
      groups: { [GROUP]: { requireMention: false }, [OTHER_GROUP]: { requireMention: false } },
    },
    slack: { allowFrom: ["U0PERSON"], channels: { [ROOM]: { requireMention: false } } },
    respond: brain.respond,
    limits,
  });
  scene.slack.channels.add(ROOM);
  await scene.connected();
});
afterAll(async () => scene[Symbol.asyncDispose]());

/** One thing that reached people: a message, or a change of one. */
interface Seen {
  readonly at: number;
  readonly what: "send" | "edit";
  readonly message: string;
  readonly text: string;
  readonly buttons: number;
}

interface Place {
  say(text: string): void;
  press(message: string, label: string): void;
  /** In the order in which it reached the platform. */
  sequence(): Seen[];
  messages(): { id: string; text: string; buttons: string[]; edits: number }[];
}

const telegramPlace = (): Place => ({
  say: (text) => void scene.telegram.say({ chat: GROUP, thread: TOPIC, from: PERSON, text }),
  press: (message, label) => void scene.telegram.press({ chat: GROUP, message: Number(message), label, from: PERSON }),
  sequence() {
    const sent = scene.telegram.messages(GROUP, TOPIC).map(({ id }) => String(id));
    let n = 0;
    return scene.telegram.calls
      .filter(({ method, payload, executed }) => executed && payload.chat_id === GROUP && /^(?:sendMessage|editMessageText)$/.test(method))
      .map(({ method, payload, at }) => ({
        at,
        what: method === "sendMessage" ? "send" : "edit",
        message: method === "sendMessage" ? (sent[n++] ?? "") : String(payload.message_id),
        text: String(payload.text),
        buttons: ((payload.reply_markup as { inline_keyboard?: unknown[][] } | undefined)?.inline_keyboard ?? []).flat().length,
      }));
  },
  messages: () =>
    scene.telegram
      .messages(GROUP, TOPIC)
      .map(({ id, text, buttons, edits }) => ({ id: String(id), text, buttons: buttons.map((button) => button.text), edits })),
});

function slackPlace(): Place {
  const root = scene.slack.say({ channel: ROOM, text: "the root", extra: { subtype: "channel_topic" } });
  const blocksOf = (json: string | undefined) => JSON.parse(json ?? "[]") as { type: string; text?: string; elements?: unknown[] }[];
  return {
    say: (text) => void scene.slack.say({ channel: ROOM, thread: root, text }),
    press: (message, label) => void scene.slack.press({ channel: ROOM, message, label }),
    sequence() {
      const sent = scene.slack.messages(ROOM, root).map(({ ts }) => ts);
      let n = 0;
      return scene.slack.calls
        .filter(({ method, args, executed }) => executed && args.channel === ROOM && /^chat\.(?:postMessage|update)$/.test(method))
        .filter(({ method, args }) => (method === "chat.update" ? sent.includes(args.ts ?? "") : args.thread_ts === root))
        .map(({ method, args, at }) => ({
          at,
          what: method === "chat.postMessage" ? "send" : "edit",
          message: method === "chat.postMessage" ? (sent[n++] ?? "") : (args.ts ?? ""),
          text: blocksOf(args.blocks).find(({ type }) => type === "markdown")?.text ?? "",
          buttons: blocksOf(args.blocks).flatMap(({ type, elements }) => (type === "actions" ? (elements ?? []) : [])).length,
        }));
    },
    messages: () =>
      scene.slack
        .messages(ROOM, root)
        .map(({ ts, text, buttons, edits }) => ({ id: ts, text, buttons: buttons.map((button) => button.label), edits })),
  };
}

const COUNTS = /^\**(?:[▶💤⏳❓✓✗⏹] \d+(?: · )?)+\**\s/u;
const isStatus = ({ text }: { text: string }): boolean => COUNTS.test(text);
const statuses = (place: Place) => place.messages().filter(isStatus);
const announced = (place: Place, label: string): boolean =>
  place.messages().some(({ text }) => text.includes(`Sub-agent: ${label}`) && text.includes("Status: "));
const isOver = (place: Place): boolean => statuses(place).length === 1 && statuses(place).every(({ buttons }) => buttons.length === 0);

/** The most that reached a chat within any minute. */
const busiest = (sequence: readonly Seen[]): number =>
  Math.max(...sequence.map(({ at }) => sequence.filter((other) => other.at >= at && other.at < at + 60_000).length));

function print(name: string, sequence: readonly Seen[]): void {
  if (process.env.HERALD_TEST_PRINT === undefined) return;
  const [first] = sequence;
  const lines = sequence.map(({ at, what, message, text, buttons }) => {
    const words = text.replaceAll("\n", " ⏎ ").replace(/ +/g, " ");
    return `${((at - (first?.at ?? 0)) / 1000).toFixed(1).padStart(6)} s  ${what} ${message.slice(-6)} [${buttons} buttons]  ${words.slice(0, 220)}`;
  });
  process.stdout.write(`\n${name}: ${sequence.length} in all\n${lines.join("\n")}\n`);
}

const FAILING = new Set([3, 6, 9]);
const ASKING = 5;

/** Twelve runs, each of which goes on when it is released. */
function twelve(name: string): Record<string, unknown>[] {
  return Array.from({ length: 12 }, (_, n) => {
    const label = `${name}${n + 1}`;
    const held: Step = FAILING.has(n + 1)
      ? { status: 400, message: "the model refuses", hold: label }
      : { text: `result of ${label}`, hold: label };
    const steps: Step[] =
      n + 1 === ASKING ? [{ ...calls(["ask", { question: "Which colour?", options: ["Red", "Blue"] }]), hold: label }] : [held];
    return child(label, steps);
  });
}

describe.each(["telegram", "slack"] as const)("a batch of twelve on %s", (channel) => {
  it("[LV1][LV2][QA1] one status message, edits within the limits, announcements and the question in between, nothing else", {
    timeout: 240_000,
  }, async () => {
    const place = channel === "telegram" ? telegramPlace() : slackPlace();
    const name = channel === "telegram" ? "t" : "s";
    place.say(plan([spawns(...twelve(name))]));
    await waitFor("the status message", () => statuses(place).length === 1);
    for (let n = 1; n <= 12; n++) {
      brain.release(`${name}${n}`);
      if (n === ASKING) {
        const question = await waitFor("the question", () => place.messages().find(({ text }) => text.includes("asks:")));
        await waitFor("the status to say so", () => statuses(place).some(({ text }) => text.includes("❓ 1")), 30_000);
        place.press(question.id, "Blue");
      }
      await waitFor(`the announcement of ${name}${n}`, () => announced(place, `${name}${n}`), 60_000);
    }
    // With what was sent a group's minute may be full: then the last edit waits for the next one.
    await waitFor("the last word of the status", () => isOver(place), 90_000);

    const sequence = place.sequence();
    print(`${channel}, a batch of twelve`, sequence);
    const [status] = statuses(place);
    expect(status?.text).toMatch(/^\**✓ 9 · ✗ 3/);
    for (let n = 1; n <= 12; n++)
      expect(status?.text).toMatch(new RegExp(`^${FAILING.has(n) ? "✗" : "✓"} ${name}${n} ·? ?(?:\\d+m)?\\d+s *$`, "m"));
    // Nothing else: the status, the question, the reply, and the announcements, of which several may share a message.
    const others = place.messages().filter((message) => !isStatus(message));
    expect(others.filter(({ text }) => text.includes("asks:"))).toHaveLength(1);
    expect(others.filter(({ text }) => text.startsWith("results:"))).toHaveLength(1);
    const said = others.filter(({ text }) => text.includes("Status: ")).map(({ text }) => text);
    expect(said.join("\n").match(/Sub-agent: /g)).toHaveLength(12);
    expect(others).toHaveLength(2 + said.length);
    // What was edited: the status, and the question once it was answered.
    const edited = Map.groupBy(
      sequence.filter(({ what }) => what === "edit"),
      ({ message }) => message,
    );
    const question = others.find(({ text }) => text.includes("asks:"));
    expect([...edited.keys()].sort()).toEqual([status?.id, question?.id].sort());
    expect(edited.get(question?.id ?? "")).toHaveLength(1);
    // Only when something changed, and no faster than the platform bears.
    const shown = sequence.filter(({ message }) => message === status?.id).map(({ text, buttons }) => `${buttons} ${text}`);
    expect(shown.filter((text, n) => text === shown[n - 1])).toEqual([]);
    const edits = sequence.filter(({ what }) => what === "edit").map(({ at }) => at);
    const pauses = edits.slice(1).map((at, n) => at - (edits[n] ?? 0));
    expect(Math.min(...pauses)).toBeGreaterThanOrEqual(channel === "telegram" ? 5_000 : 2_900);
    expect(busiest(sequence)).toBeLessThanOrEqual(20);
    expect(limits.refused()).toBe(0);
    await scene.settled();
  });
});

/** A batch of these in a chat of its own; resolves with its status message, which stands before anything else happens. */
async function batchIn(chat: number, labels: readonly string[]) {
  const { telegram } = scene;
  const before = telegram.messages(chat).length;
  telegram.say({
    chat,
    from: PERSON,
    text: plan([spawns(...labels.map((label) => child(label, [{ text: `did ${label}`, hold: label }])))]),
  });
  const shown = await telegram.until(() => telegram.messages(chat).slice(before).find(isStatus), "the status message");
  await waitFor("all to be at work", () => labels.every((label) => runOf(label)?.state === "running"));
  // As it is now: an edit changes what the fake shows.
  return structuredClone(shown);
}

interface RunRow {
  readonly id: string;
  readonly state: string;
  readonly generation: number;
  readonly batch: string;
}

const runOf = (label: string): RunRow | undefined =>
  scene.herald.rows<RunRow>("SELECT id, state, generation, batch FROM runs WHERE label = ?", label)[0];
const statesOf = (labels: readonly string[]): (string | undefined)[] => labels.map((label) => runOf(label)?.state);
/** What whoever pressed was shown. */
const toastOf = async (press: string): Promise<string | null> => {
  const { telegram } = scene;
  await telegram.until(() => telegram.toasts().has(press), `press ${press} to be answered`);
  return telegram.toasts().get(press) ?? null;
};

describe("buttons", () => {
  it("[LV1][LV4] Stop for each, Stop all of this batch only, and each press acts once", async () => {
    const { telegram } = scene;
    const first = await batchIn(OTHER_GROUP, ["a1", "a2", "a3"]);
    await batchIn(OTHER_GROUP, ["b1"]);
    expect(first.buttons.map(({ text }) => text)).toEqual(["Stop a1", "Stop a2", "Stop a3", "Stop all", "List"]);
    for (const { data } of first.buttons) expect(Buffer.byteLength(data)).toBeLessThanOrEqual(64);
    const press = (label: string): string =>
      telegram.press({
        chat: OTHER_GROUP,
        from: PERSON,
        message: first.id,
        data: first.buttons.find(({ text }) => text === label)?.data ?? "",
      });
    const twice = [press("Stop a2"), press("Stop a2")];
    expect(await Promise.all(twice.map(toastOf))).toEqual(['⚙️ Stopped 1 sub-agent: "a2".', "That run has ended."]);
    expect(statesOf(["a1", "a2", "a3", "b1"])).toEqual(["running", "stopped", "running", "running"]);
    expect(await toastOf(press("Stop all"))).toBe("⚙️ Stopped 2 sub-agents.");
    expect(await toastOf(press("Stop all"))).toBe("Those runs have ended.");
    expect(statesOf(["a1", "a2", "a3", "b1"])).toEqual(["stopped", "stopped", "stopped", "running"]);
    brain.release("b1");
    await scene.settled();
  });

  it("[LV3][LV4] a run that goes on opens its message again, and the buttons of its first life do nothing to its second", async () => {
    const { telegram } = scene;
    const shown = await batchIn(OTHER_GROUP, ["c1", "c2"]);
    const status = () => telegram.messages(OTHER_GROUP).find(({ id }) => id === shown.id);
    brain.release("c1");
    brain.release("c2");
    await telegram.until(() => status()?.buttons.length === 0, "the end", 30_000);
    expect(status()?.text).toMatch(/^✓ 2\n/);
    const more = plan([{ text: "did more", hold: "c1 more" }]);
    telegram.say({ chat: OTHER_GROUP, from: PERSON, text: `/subagents send c1 ${more}` });
    await waitFor("its second life", () => runOf("c1")?.generation === 2 && runOf("c1")?.state === "running");
    await telegram.until(() => status()?.text.startsWith("▶ 1 · ✓ 1"), "the status to go on", 30_000);
    for (const label of ["Stop c1", "Stop all"]) {
      const data = shown.buttons.find(({ text }) => text === label)?.data ?? "";
      expect(await toastOf(telegram.press({ chat: OTHER_GROUP, from: PERSON, message: shown.id, data })), label).toMatch(
        /^(?:That run has|Those runs have) ended\.$/,
      );
    }
    expect(runOf("c1")?.state).toBe("running");
    expect(await toastOf(telegram.press({ chat: OTHER_GROUP, from: PERSON, message: shown.id, label: "Stop c1" }))).toMatch(/^⚙️ Stopped 1/);
    await telegram.until(() => status()?.buttons.length === 0, "the second end", 30_000);
    expect(status()?.text).toMatch(/^✓ 1 · ⏹ 1\n/);
    expect(telegram.messages(OTHER_GROUP).filter((one) => isStatus(one) && one.text.includes("c1"))).toHaveLength(1);
    await scene.settled();
  });

  it("[LV4] LIVE-005 data made by hand: one word for all of it, nothing happens, and every button stops spinning", async () => {
    const { telegram, herald } = scene;
    const shown = await batchIn(OTHER_GROUP, ["d1"]);
    const run = runOf("d1");
    telegram.say({ chat: GROUP, thread: 5, from: PERSON, text: plan([{ text: "something to press under" }]) });
    const there = await telegram.until(() => telegram.messages(GROUP, 5).find(({ text }) => text.includes("to press under")), "an answer");
    const before = herald.rows("SELECT id, state, generation FROM runs ORDER BY id");
    const forged = [
      ...[`/subagents stop ${run?.id}@1`, `/subagents stop batch:${run?.batch}@1`, `/subagents dance ${run?.id}@1`, `/dance ${run?.id}`],
      ...["", " ", "x", `/subagents stop ${"y".repeat(49)}`, "/subagents stop \ud800", "/subagents stop \ufffd\ufffd"],
      ...[`/subagents stop ${run?.id}@NaN`, `/subagents stop ${run?.id}@-1`, `/subagents stop ${run?.id}@0`, `/subagents stop batch:@1`],
      ...["/subagents stop 00000000-0000-4000-8000-000000000000@1", "/subagents log nobody", "/subagents info 9999"],
    ];
    const messages = telegram.allMessages().length;
    for (const data of forged)
      expect(await toastOf(telegram.press({ chat: GROUP, from: PERSON, message: there.id, data })), data).toBe(
        "That button does nothing here.",
      );
    // Of a stranger: the spinner's end, and no word.
    expect(await toastOf(telegram.press({ chat: OTHER_GROUP, from: 666, message: shown.id, label: "Stop" }))).toBeNull();
    expect(herald.rows("SELECT id, state, generation FROM runs ORDER BY id")).toEqual(before);
    expect(telegram.allMessages()).toHaveLength(messages);
    brain.release("d1");
    await scene.settled();
  });
});

describe("other ways to show progress", () => {
  it("[LV5] lines: one for each start with Stop, Log and Info; off: nothing but the reply and the result", async () => {
    await using other = await createChannelScene({
      telegram: { allowFrom: [String(PERSON)], progress: "off" },
      slack: { allowFrom: ["U0PERSON"], progress: "lines" },
      respond: brain.respond,
    });
    await other.connected();
    const { telegram, slack, herald } = other;
    const two = (name: string): string =>
      plan([spawns(...["1", "2"].map((n) => child(`${name}${n}`, [{ text: "done", hold: `${name}${n}` }])))]);
    telegram.say({ chat: PERSON, text: two("off") });
    slack.say({ channel: "D0PERSON", text: two("line") });
    const starts = () => slack.messages("D0PERSON").filter(({ text }) => text.startsWith("🧭 Sub-agent started: line"));
    await slack.until(() => starts().length === 2, "two lines");
    expect(starts().map(({ buttons }) => buttons.map(({ label }) => label))).toEqual([
      ["Stop", "Log", "Info"],
      ["Stop", "Log", "Info"],
    ]);
    void slack.press({ channel: "D0PERSON", message: starts()[0]?.ts ?? "", label: "Stop" });
    const told = await slack.until(() => slack.whispers("D0PERSON")[0], "its answer");
    expect(told.text).toBe('⚙️ Stopped 1 sub-agent: "line1".');
    for (const label of ["off1", "off2", "line2"]) brain.release(label);
    await waitFor("the end of all", () => herald.rows("SELECT 1 FROM runs WHERE settled_at IS NULL").length === 0);
    await other.settled();
    expect(telegram.messages(PERSON).filter(({ text }) => !text.includes("Status: success") && !text.startsWith("results:"))).toEqual([]);
    expect(herald.rows("SELECT 1 FROM live_messages")).toEqual([]);
  });
});
