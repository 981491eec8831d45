// Bad inputs around prompt caches and compaction: what a provider is sent when histories are odd, cut, or summed up just now.
import { readFileSync } from "node:fs";
import { afterEach, expect, it } from "vitest";
import type { Endpoint } from "../../src/models/language-model.ts";
import type { ChatMessage, ModelReply } from "../../src/models/model.ts";
import { createFakeAnthropic } from "../support/fake-anthropic.ts";
import type { FakeModelServer, Respond } from "../support/fake-model-server.ts";
import { createFakeOpenAi } from "../support/fake-openai.ts";
import { createHarness } from "../support/harness.ts";
import { createSubject } from "../support/model-formats.ts";
import { stableShare } from "../support/prefix.ts";
import { scriptedConfig } from "../support/scripted-model.ts";
import { waitFor } from "../support/wait.ts";

const servers: FakeModelServer[] = [];
afterEach(async () => {
  await Promise.all(servers.splice(0).map((server) => server.close()));
});
async function started(server: Promise<FakeModelServer>): Promise<FakeModelServer> {
  servers.push(await server);
  return server;
}

const assistant = (reply: ModelReply): ChatMessage => ({
  role: "assistant",
  text: reply.text,
  toolCalls: reply.toolCalls,
  ...(reply.extras === undefined ? {} : { extras: reply.extras }),
});
const results = (reply: ModelReply): ChatMessage[] =>
  reply.toolCalls.map(({ id, name }, n) => ({ role: "tool", callId: id, name, text: n % 7 === 0 ? "" : `result ${n}`, isError: false }));

/** What Anthropic refuses: marks on thoughts or empty texts, more than four of them, a call that nothing answers. */
function problemsOf(body: FakeModelServer["calls"][number]["body"]): string[] {
  const problems: string[] = [];
  const json = JSON.stringify(body);
  if (json.split('"cache_control"').length - 1 > 4) problems.push("more than 4 marks");
  for (const [at, { role, content }] of body.messages.entries()) {
    for (const part of content) {
      if (part.cache_control !== undefined && /thinking/.test(part.type)) problems.push("a mark on thoughts");
      if (part.type === "text" && part.text.trim() === "") problems.push("an empty text");
      const answers = (body.messages[at + 1]?.content ?? []) as { type: string; tool_use_id?: string }[];
      if (role === "assistant" && part.type === "tool_use" && !answers.some((one) => one.tool_use_id === part.id))
        problems.push(`call ${part.id} is open`);
    }
  }
  return problems;
}

it("[SE8][MO1] CACHE-004 signed thoughts, empty texts and thirty results in a step survive a change of provider and back", async () => {
  let isDown = false;
  const thirty = Array.from({ length: 30 }, (_, n) => ({ name: "read", args: { path: `${n}` }, id: `toolu_${n}` }));
  const claude: Respond = ({ messages }) => {
    if (isDown) return { status: 529, message: "overloaded" };
    return messages.some((message) => message.role === "tool") ? { reasoning: "so", text: "done" } : { reasoning: "hm", toolCalls: thirty };
  };
  const anthropic = await started(createFakeAnthropic({ respond: claude }));
  const other = await started(createFakeOpenAi({ respond: () => ({ text: "the other one answers" }) }));
  const endpoints: Record<string, Endpoint> = {
    anthropic: { api: "anthropic", baseUrl: anthropic.url, apiKey: "key-one-111111" },
    other: { api: "openai-compatible", baseUrl: other.url, apiKey: "key-two-222222" },
  };
  const tools = [{ name: "read", description: "Reads.", parameters: { type: "object", properties: { path: { type: "string" } } } }];
  const subject = createSubject({
    endpoints,
    request: { model: "anthropic/claude-opus-5-5", fallbacks: ["other/model"], tools, thinking: "high" },
  });
  const history: ChatMessage[] = [{ role: "user", text: "read them all" }];
  const ask = async (text?: string): Promise<ModelReply> => {
    if (text !== undefined) history.push({ role: "user", text });
    const reply = await subject.call({ messages: [...history] });
    expect(reply.outcome).toBe("ok");
    history.push(assistant(reply), ...results(reply));
    return reply;
  };
  await ask();
  await ask();
  isDown = true;
  expect((await ask("and?")).model).toBe("other/model");
  isDown = false;
  expect((await ask("back again?")).model).toBe("anthropic/claude-opus-5-5");

  const good = anthropic.calls.filter((call) => call.messages.at(-1)?.text !== "and?");
  expect(good).toHaveLength(3);
  for (const { body } of good) expect(problemsOf(body)).toEqual([]);
  expect(stableShare(good[0]!, good[1]!)).toBe(1);
  expect(stableShare(good[1]!, good[2]!)).toBe(1);
  // The signature went back to who made it, and to nobody else.
  expect(JSON.stringify(good[2]?.body)).toContain("signed-thoughts");
  expect(JSON.stringify(other.calls.map((call) => call.body))).not.toContain("signed-thoughts");
  // The thirty results don't put the mark of the request before out of reach.
  const marked = good[1]?.body.messages.flatMap(({ content }: { content: object[] }) => content.map((part) => "cache_control" in part));
  expect(marked.filter(Boolean)).toHaveLength(2);
  expect(marked[0]).toBe(true);
});

it("[SE7][SE6] CACHE-002 a second compaction, a kill before the summary is on record and a run's end meanwhile: one summary, and what is live", async () => {
  let isHeld = true;
  const gate = { summary: Promise.withResolvers<void>(), child: Promise.withResolvers<void>() };
  const model = await started(
    createFakeOpenAi({
      respond: async (request) => {
        const last = request.messages.at(-1);
        if (request.system.startsWith("[COMPACTION]")) {
          if (isHeld) await gate.summary.promise;
          return { text: "- they talked at length" };
        }
        if (last?.text.startsWith("Your work is over.")) return { text: "ANNOUNCE_AS_IS" };
        if (request.system.startsWith("You are a sub-agent")) {
          if (request.messages[0]?.text === "the short task") await gate.child.promise;
          else await new Promise(() => {});
          return { text: "the short one is done" };
        }
        if (last?.role !== "tool" && last?.text.startsWith("send both")) {
          const spawn = (label: string) => ({ name: "sessions_spawn", args: { task: `the ${label} task`, label } });
          return { toolCalls: [spawn("short"), spawn("long")] };
        }
        return { text: `heard ${last?.text.slice(0, 20)}` };
      },
    }),
  );
  await using herald = await createHarness({
    config: scriptedConfig(model.url, { subagents: { announceTimeoutSeconds: 5 } }, { gateway: { drainSeconds: 0 } }),
    failpoint: "compaction.summed-up",
  });
  await herald.say("send both");
  await herald.reply(/^heard/);
  // Enough of a window of 128 000 tokens that the next message sets off a compaction.
  for (let n = 0; n < 5; n++) {
    await herald.say(`part ${n} ${"many words ".repeat(4_300)}`);
    await herald.reply(new RegExp(`^heard part ${n}`));
  }
  await herald.say(`and now? ${"many words ".repeat(4_300)}`);
  await waitFor("the compaction", () => model.calls.some((call) => call.system.startsWith("[COMPACTION]")));
  await herald.say("/compact");
  await herald.reply(/^The agent is at work; it makes room by itself/);
  gate.child.resolve();
  await waitFor("the short one to end", () => herald.rows("SELECT 1 FROM runs WHERE state = 'done'").length === 1);
  gate.summary.resolve();
  isHeld = false;
  await herald.exited();
  const transcript = (): string => {
    const [session] = herald.rows<{ id: string }>("SELECT id FROM sessions WHERE parent_key IS NULL");
    return readFileSync(`${herald.stateDir}/agents/main/sessions/${session?.id}.jsonl`, "utf8");
  };
  const summaries = (): number => transcript().split('"type":"compaction"').length - 1;
  expect(summaries()).toBe(0);
  await herald.restart();
  await herald.reply(/^heard and now\?/);
  expect(summaries()).toBe(1);
  const read =
    model.calls.findLast((call) => call.messages.at(-1)?.text.startsWith("and now?"))?.messages.map((message) => message.text) ?? [];
  expect(read[0]).toBe("[Summary of the earlier conversation]\n- they talked at length");
  expect(read.filter((text) => text.startsWith("[Summary of"))).toHaveLength(1);
  const live = read.findLast((text) => text.includes("at work; don't spawn"));
  expect(live).toMatch(/\n- long \(run [0-9a-f]{8}\)\n/);
  expect(live).not.toContain("- short");
  expect(herald.rows("SELECT id FROM runs")).toHaveLength(2);
  await herald.say("/stop");
  await herald.reply(/Stopped 1 sub-agent/);
}, 90_000);

it("[SE7] a kill between two requests of one compaction loses nothing: the next process sums all of it up", async () => {
  let mode: "down" | "held" | "up" = "down";
  const model = await started(
    createFakeOpenAi({
      respond: async (request) => {
        if (!request.system.startsWith("[COMPACTION]")) return { text: `heard ${request.messages.at(-1)?.text.slice(0, 8)}` };
        if (mode === "down") return { status: 400, message: "not now" };
        if (mode === "held" && isSecond()) await new Promise(() => {});
        return { text: "- some of it" };
      },
    }),
  );
  const summings = (): string[] =>
    model.calls.filter((call) => call.system.startsWith("[COMPACTION]")).map((call) => call.messages[0]?.text ?? "");
  let known = 0;
  const isSecond = (): boolean => summings().length - known === 2;
  const provider = { api: "openai-compatible", baseUrl: model.url, apiKey: "k", models: [{ id: "model-1", contextWindow: 8_000 }] };
  await using herald = await createHarness({
    config: scriptedConfig(model.url, {}, { gateway: { drainSeconds: 0 }, models: { providers: { scripted: provider } } }),
  });
  const said = Array.from({ length: 12 }, (_, n) => `fact-${String(n).padStart(2, "0")}`);
  for (const fact of said) {
    await herald.say(`${fact} ${"word ".repeat(700)}`);
    await herald.reply(new RegExp(`^heard ${fact}`));
  }
  known = summings().length;
  mode = "held";
  await herald.say("and now?");
  await waitFor("the second request", isSecond);
  await herald.crash();
  known = summings().length;
  mode = "up";
  await herald.restart();
  await herald.reply(/^heard and now/);
  const [session] = herald.rows<{ id: string }>("SELECT id FROM sessions WHERE parent_key IS NULL");
  const transcript = readFileSync(`${herald.stateDir}/agents/main/sessions/${session?.id}.jsonl`, "utf8");
  expect(transcript.split('"type":"compaction"')).toHaveLength(2);
  const last = model.calls.at(-1)?.messages.map((message) => message.text) ?? [];
  const read = [...summings().slice(known), ...last].join("\n");
  expect(said.filter((fact) => !read.includes(fact))).toEqual([]);
}, 60_000);
