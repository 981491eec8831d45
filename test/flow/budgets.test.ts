// Budgets against the real process and a provider that reports what it used: what is held, refused, waited for, landed and raised.
import { afterAll, afterEach, beforeAll, describe, expect, it } from "vitest";
import { brain, calls, child, createBrain, plan, repeated, spawns, whoAsks } from "../support/brain.ts";
import type { Respond } from "../support/fake-model-server.ts";
import { createScene, type Scene } from "../support/scene.ts";
import { waitFor } from "../support/wait.ts";

let scene: Scene;
beforeAll(async () => {
  scene = await createScene({ subagents: { maxConcurrent: 20, maxChildrenPerSession: 30 } });
});
afterEach(async () => scene.calm());
afterAll(async () => scene[Symbol.asyncDispose]());

interface LevelRow {
  readonly id: string;
  readonly spent_tokens: number;
  readonly held_tokens: number;
  readonly kept_tokens: number;
}

const levels = (like: string): LevelRow[] => scene.herald.rows<LevelRow>("SELECT * FROM budget_levels WHERE id LIKE ?", like);
const holds = (): unknown[] => scene.herald.rows("SELECT id FROM budget_holds");
const looks = (path: string) => calls(["list", { path }]);

describe("a run's own budget", () => {
  it("[BG4] used up: one last call without tools, done and incomplete, Notes name level, limit and figure; no announce step", async () => {
    const chat = scene.chat();
    const steps = Array.from({ length: 12 }, (_, n) => looks(`./${n}`));
    await chat.act([spawns(child("spender", [...steps, { text: "never" }], { budget: { tokens: 60_000 }, maxIterations: 50 }))]);
    const text = await chat.announced("spender");
    expect(text).toMatch(/^Status: success$/m);
    expect(text).toMatch(/Incomplete: The budget of this run is used up: \d+k? of 60k tokens\. The result may miss parts\./);
    expect(text).toMatch(/Stats: .*\d+k? of 60k tokens/);
    const asked = scene.model.calls.filter(({ messages }) => messages.some((message) => message.text.includes("Your budget is used up.")));
    expect(asked).toHaveLength(1);
    expect(asked[0]).toMatchObject({ tools: [], body: { max_tokens: expect.any(Number) } });
    expect(scene.model.calls.filter((request) => whoAsks(request) === "announce" && request.system.includes("spender"))).toEqual([]);
    expect(holds()).toEqual([]);
  });

  it("[BG4][BG6] too small for its first call: it says what one needs, nobody is asked, and the button that raises it is there", async () => {
    const chat = scene.chat();
    await chat.act([spawns(child("pauper", [{ text: "never" }], { budget: { tokens: 3_000 } }))]);
    const text = await chat.announced("pauper");
    expect(text).toMatch(
      /Incomplete: The budget of this run does not pay for a single call: it is 3000 tokens, of which 750 tokens are kept for last words, and the call needs at least \d+k? tokens\./,
    );
    expect(scene.model.calls.filter((request) => whoAsks(request) === "child" && request.system.includes("pauper"))).toEqual([]);
    const { id } = chat.run("pauper");
    const [announced] = scene.herald.rows<{ extra: string }>("SELECT extra FROM web_messages WHERE key LIKE ?", `announce:v1:%${id}#%`);
    expect(announced?.extra).toContain(`/subagents budget ${id} x2 g1`);
  });

  it("[BG4][SE8] its model reads what it may still spend, at its start and whenever a tenth is gone, at the end of the messages", async () => {
    const chat = scene.chat();
    const steps = Array.from({ length: 4 }, (_, n) => looks(`./left-${n}`));
    await chat.act([spawns(child("counting", [...steps, { text: "counted" }], { budget: { tokens: 60_000 }, maxIterations: 50 }))]);
    await chat.announced("counting");
    const asked = scene.model.calls.filter(
      (call) => whoAsks(call) === "child" && call.messages.some(({ text }) => text.includes('"./left-0"')),
    );
    const told = (asked.at(-1)?.messages ?? []).map(({ text }) => /Your budget is 60k tokens.*?(\d+) % of it is left/.exec(text)?.[1]);
    const shares = told.filter((share) => share !== undefined).map(Number);
    expect(shares.length).toBeGreaterThan(1);
    expect(shares).toEqual([...new Set(shares)].sort((a, b) => b - a));
    for (const [n, call] of asked.entries()) {
      const before = asked[n - 1]?.messages.map(({ text }) => text) ?? [];
      expect(call.messages.map(({ text }) => text).slice(0, before.length)).toEqual(before);
    }
    await chat.act([spawns(child("free", "nothing to count"))]);
    await chat.announced("free");
    const free = scene.model.calls.filter(
      (call) => call.messages.some(({ text }) => text.includes("nothing to count")) && whoAsks(call) === "child",
    );
    expect(free.flatMap(({ messages }) => messages).filter(({ text }) => text.includes("Your budget is"))).toEqual([]);
  });

  it("[BG3] BUD-005 a provider that gives three times its maximum: booked as reported, passed by that call's excess alone, Notes and board say so", async () => {
    const limit = 60_000;
    const chat = scene.chat();
    const excess = { ...looks("./much"), usage: { input: 5_000, output: 3 * 8_192 } };
    const steps = [{ ...looks("./first"), usage: { input: 4_000, output: 30_000 } }, excess, looks("./never"), { text: "never" }];
    await chat.act([spawns(child("generous", steps, { budget: { tokens: limit } }))]);
    const text = await chat.announced("generous");
    const reported = 4_000 + 30_000 + 5_000 + 3 * 8_192;
    expect(text).toMatch(/Incomplete: The budget of this run is used up: 64k of 60k tokens\./);
    const { id } = chat.run("generous");
    const asked = scene.model.calls.filter((call) => whoAsks(call) === "child" && JSON.stringify(call.body).includes("./first"));
    expect(asked.length).toBe(2);
    const [level] = levels(`run:${id}`);
    // Its last word is from what it kept: never more than that beside what was reported.
    expect(level?.spent_tokens).toBeGreaterThanOrEqual(reported);
    expect(level?.spent_tokens).toBeLessThanOrEqual(reported + 6_000);
    expect(level).toMatchObject({ held_tokens: 0, kept_tokens: 0 });
    expect(text).toMatch(/Stats: .*(?:6[4-9]|70)k of 60k tokens/);
  });

  it("[BG6] raised by the button it goes on as its next generation, once; a second press says by whom", async () => {
    const chat = scene.chat();
    const steps = Array.from({ length: 12 }, (_, n) => looks(`./again-${n}`));
    await chat.act([spawns(child("raised", [...steps, { text: "at last" }], { budget: { tokens: 60_000 }, maxIterations: 50 }))]);
    await chat.announced("raised");
    const { id } = chat.run("raised");
    const [announced] = scene.herald.rows<{ extra: string }>("SELECT extra FROM web_messages WHERE key LIKE ?", `announce:v1:%${id}#%`);
    const { buttons } = JSON.parse(announced?.extra ?? "{}") as { buttons: { label: string; command: string }[] };
    expect(buttons).toEqual([{ label: "Go on, +60k tokens", command: `/subagents budget ${id} x2 g1` }]);
    const command = buttons[0]?.command ?? "";
    expect(Buffer.byteLength(command)).toBeLessThanOrEqual(64);
    expect(await chat.ask(command)).toBe(`💰 "raised" (${id.slice(0, 8)}) may spend 120k tokens now; it goes on and will announce again.`);
    // It is at work by then, and may warn of its new limit before the answer.
    await chat.say(command);
    await waitFor("the answer to the second press", async () =>
      (await scene.herald.replies(chat.id)).some(({ text }) => text === "Already raised by the page."),
    );
    await waitFor(
      "the second announcement",
      () => scene.herald.rows("SELECT 1 FROM outbox WHERE delivery LIKE ? AND state = 'sent'", `announce:v1:%${id}:g2`).length === 1,
    );
  });

  it("[BG1] the limit of the settings counts where a spawn names none, and what a child spends counts for its parent", async () => {
    await using _ = await scene.configure({ subagents: { budget: { tokens: 300_000 }, maxSpawnDepth: 2, maxConcurrent: 4 } });
    const chat = scene.chat();
    await chat.act([spawns(child("upper", [spawns(child("lower", "deep")), { text: "top" }]))]);
    await chat.announced("upper");
    const { id } = chat.run("upper");
    const [lower] = scene.herald.rows<{ id: string }>("SELECT id FROM runs WHERE label = 'lower' AND requester_run_id = ?", id);
    const [own] = levels(`run:${id}`);
    const [below] = levels(`run:${lower?.id}`);
    expect(below?.spent_tokens).toBeGreaterThan(0);
    expect(own?.spent_tokens).toBeGreaterThan(below?.spent_tokens ?? 0);
    expect(await chat.ask("/subagents info upper")).toMatch(/\*\*Budget:\*\* \d+k? of 300k tokens/);
  });
});

describe("a long history", () => {
  /** Four letters a token, as English is; what a provider would count. */
  const counting: Respond = async (request, call) => {
    const input = Math.ceil(JSON.stringify(call.body).length / 4);
    const isLast = request.messages.at(-1)?.text.includes("Your budget is used up.") === true;
    return { ...(isLast ? { text: "landed" } : await brain(request, call)), usage: { input, output: 20 } };
  };

  it("[BG2][BG3] its calls hold what the provider counted, not its bytes: at least 95 % of the limit is used before it lands", async () => {
    const limit = 1_000_000;
    await using own = await createScene({ respond: counting });
    const chat = own.chat();
    const long = { text: repeated(7_000, "0123456789 123 "), toolCalls: [{ name: "list", args: { path: "." }, id: "first" }] };
    const steps = [long, ...Array.from({ length: 80 }, (_, n) => looks(`./${n}`))];
    await chat.act([spawns(child("talker", [...steps, { text: "never" }], { budget: { tokens: limit }, maxIterations: 90 }))]);
    expect(await chat.announced("talker", 60_000)).toContain("The budget of this run is used up");
    const [level] = own.herald.rows<LevelRow>("SELECT * FROM budget_levels WHERE id = ?", `run:${chat.run("talker").id}`);
    expect(level).toMatchObject({ held_tokens: 0, kept_tokens: 0 });
    expect(level?.spent_tokens).toBeLessThanOrEqual(limit);
    expect(level?.spent_tokens).toBeGreaterThanOrEqual(0.95 * limit);
  });
});

describe("what others share", () => {
  it("[BG2][BG3] BUD-001 twenty children of one message at once: never more than the limit spent and held, all announce the truth", async () => {
    const limit = 250_000;
    await using _ = await scene.configure({
      config: { budgets: { message: { tokens: limit } } },
      subagents: { maxConcurrent: 20, maxChildrenPerSession: 30 },
    });
    const chat = scene.chat();
    // No answer before all of them are accepted: a spawn on a limit that is used up would be forbidden.
    const many = Array.from({ length: 20 }, (_, n) => child(`of-${n}`, [{ ...looks("."), hold: "all" }, { text: `done ${n}` }]));
    await chat.say(plan([spawns(...many)]));
    await waitFor("all to be accepted", () => chat.runs().length === 20);
    scene.release("all");
    let most = 0;
    const look = (): boolean => {
      for (const { spent_tokens, held_tokens, kept_tokens } of levels("message:%"))
        most = Math.max(most, spent_tokens + held_tokens + kept_tokens);
      return chat.runs().filter(({ ended_at }) => ended_at !== null).length === 20;
    };
    await waitFor("all to end", look, 60_000);
    const texts = await Promise.all(many.map(({ label }) => chat.announced(String(label), 60_000)));
    expect(texts).toHaveLength(20);
    expect(most).toBeGreaterThan(limit / 2);
    expect(most).toBeLessThanOrEqual(limit);
    expect(texts.every((text) => /done \d|budget of this message and all it set off is used up/.test(text))).toBe(true);
    expect(holds()).toEqual([]);
  });

  it("[BG2][BG3][BG4] twenty children at once on what pays for seven: no more reaches the provider, all twenty say what is true, nobody starves", async () => {
    // Of what each really takes: its work and its announcement; a last word is a small thing.
    const [work, last, worth, limit] = [10_000, 800, 20_000, 160_000];
    const isLast = (messages: readonly { readonly text: string }[]): boolean =>
      messages.at(-1)?.text.includes("Your budget is used up.") === true;
    const all = createBrain();
    const respond: Respond = async (request, call) =>
      isLast(request.messages)
        ? { text: "a last word", usage: { input: last - 50, output: 50 } }
        : { ...(await all.respond(request, call)), usage: { input: work - 1_000, output: 1_000 } };
    await using own = await createScene({
      respond,
      ...{ config: { budgets: { message: { tokens: limit } } }, subagents: { maxConcurrent: 20, maxChildrenPerSession: 20 } },
    });
    const chat = own.chat();
    const many = Array.from({ length: 20 }, (_, n) => child(`of-${n}`, [{ text: `done ${n}.`, hold: "all" }]));
    await chat.say(plan([spawns(...many), { text: "sent" }]));
    await waitFor("all to be accepted", () => chat.runs().filter(({ state }) => state === "running").length === 20);
    all.release("all");
    const texts = await Promise.all(many.map(({ label }) => chat.announced(String(label), 60_000)));

    const asked = own.model.calls.map(({ system, messages }) => ({
      who: whoAsks({ system, messages }),
      isLast: isLast(messages),
      messages,
    }));
    const paid = asked.filter((call) => call.who !== "main" && !call.isLast);
    const [mainCalls, lastCalls] = [
      asked.filter(({ who, isLast }) => who === "main" && !isLast).length,
      asked.filter((call) => call.isLast).length,
    ];
    expect(paid.length * work).toBeLessThanOrEqual(7 * worth);
    expect(paid.length * work).toBeGreaterThan(4 * worth);
    for (const [n, text] of texts.entries()) {
      const isDone = paid.some(({ messages }) => messages[0]?.text.includes(`"done ${n}."`));
      expect(text).toContain(isDone ? `done ${n}.` : "a last word");
      expect(text.includes("The budget of this message and all it set off is used up")).toBe(!isDone);
    }
    const spent = own.herald.rows<LevelRow>("SELECT * FROM budget_levels WHERE id LIKE 'message:%'");
    expect(spent).toMatchObject([{ spent_tokens: (paid.length + mainCalls) * work + lastCalls * last, held_tokens: 0, kept_tokens: 0 }]);
    expect(spent[0]?.spent_tokens).toBeLessThanOrEqual(limit);
    expect(own.herald.rows("SELECT id FROM budget_holds")).toEqual([]);
  });

  it("[BG4][BG5] a chat whose day is used up: the turn says so in a sentence, /usage shows it, 80 % is told once", async () => {
    await using _ = await scene.configure({ config: { budgets: { chatPerDay: { tokens: 60_000 } } } });
    const chat = scene.chat();
    const answers: string[] = [];
    for (let n = 0; n < 12; n++) answers.push(await chat.ask(plan([{ text: `answer ${n}` }])));
    expect(answers[0]).toBe("answer 0");
    expect(answers.at(-1)).toMatch(/^⚠️ The budget of this chat today is used up: \d+k? of 60k tokens\.$/);
    await chat.say("/usage");
    await scene.herald.reply(/- Budget of this chat today: \d+k? of 60k tokens/, chat.id);
    const told = (await scene.herald.replies(chat.id)).filter(({ text }) => text.includes("More than 80 %"));
    expect(told).toHaveLength(1);
    expect(await scene.chat().ask(plan([{ text: "elsewhere" }]))).toBe("elsewhere");
  });

  it("[BG7] a limit in USD and a model without a price: the call is refused and names the setting", async () => {
    await using _ = await scene.configure({ config: { budgets: { perDay: { usd: 5 } } } });
    expect(await scene.chat().ask(plan([{ text: "never" }]))).toMatch(
      /no price is known for .*models\.providers\.<name>\.models\[\]\.cost.*budgets\.unpriced/,
    );
    await using __ = await scene.configure({ config: { budgets: { perDay: { usd: 5 }, unpriced: "allow" } } });
    expect(await scene.chat().ask(plan([{ text: "made" }]))).toBe("made");
  });
});
