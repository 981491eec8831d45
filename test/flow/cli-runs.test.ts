// `herald status` and `herald runs` as processes beside the real gateway: at work and restarted; on a terminal and in a pipe.
import { existsSync } from "node:fs";
import { stripVTControlCharacters } from "node:util";
import { afterAll, afterEach, beforeAll, describe, expect, it } from "vitest";
import { calls, child, plan, type Step, spawns } from "../support/brain.ts";
import { type CliEnd, cliOf, type RunningCli, startCli } from "../support/run-cli.ts";
import { type Chat, createScene, type Scene } from "../support/scene.ts";
import { waitFor } from "../support/wait.ts";

let scene: Scene;
let cli: ReturnType<typeof cliOf>;
beforeAll(async () => {
  scene = await createScene({ subagents: { maxConcurrent: 8 } });
  cli = cliOf(scene.herald);
});
afterEach(async () => scene.calm());
afterAll(async () => scene[Symbol.asyncDispose]());

const fine = (out: RegExp): CliEnd => ({ code: 0, out: expect.stringMatching(out) as string, err: "" });
const held = (name: string): readonly Step[] => [{ text: "the end", hold: name }];

async function sendOut(label: string, work: string | readonly Step[]): Promise<Chat> {
  const chat = scene.chat();
  await chat.act([spawns(child(label, work))]);
  return chat;
}

interface Listed {
  id: string;
  label: string;
  state: string;
}
const listed = async (): Promise<Listed[]> =>
  (await cli(["runs", "list", "--json"])).out
    .trim()
    .split("\n")
    .map((line) => JSON.parse(line));

describe("[CL1] reading", () => {
  it("[CL1] status says where it runs and what is at work; --json has it as one object", async () => {
    const chat = await sendOut("worker one", held("status"));
    await chat.reached("worker one", "running");
    const { out } = await cli(["status"]);
    expect(out).toMatch(/^Herald: +\d+\.\d+\.\d+ at http:\/\/127\.0\.0\.1:\d+\nState: /);
    expect(out).toMatch(/^Runs: .*1 running/m);
    const report = JSON.parse((await cli(["status", "--json"])).out);
    expect(report).toMatchObject({ running: true, origin: scene.herald.origin(), runs: { running: 1 }, needsYou: { questions: 0 } });
    expect(await cli(["status", "now"])).toMatchObject({ code: 2, out: "" });
  });

  it("[CL1] CLI-009 runs list in a pipe: one snapshot without escape codes; --json is one object a line and nothing else", async () => {
    const chat = await sendOut("list\u001b[31mme", held("list"));
    await chat.reached(chat.runs()[0]?.label ?? "", "running");
    const { code, out, err } = await cli(["runs"]);
    expect({ code, err }).toEqual({ code: 0, err: "" });
    expect(out).not.toContain("\u001b");
    expect(out).toMatch(/^[0-9a-f]{8} {2}running {5}.*me/m);
    const [run] = await listed();
    expect(Object.keys(run ?? {})).toEqual(
      expect.arrayContaining(["id", "label", "state", "delivery", "createdAt", "costUsd", "isAsking"]),
    );
  });

  it("[CL1] info and log by id, by its beginning, by label and by last; what there is not is said, exit 1", async () => {
    const chat = await sendOut("teller", "the words it said");
    await chat.announced("teller");
    const { id } = chat.run("teller");
    for (const word of [id, id.slice(0, 8), "teller", "last"])
      expect(await cli(["runs", "info", word])).toEqual(fine(new RegExp(`^Run: +${id}\\n[\\s\\S]*State: +done`)));
    expect(await cli(["runs", "log", "teller"])).toEqual(fine(/« Sub-agent\n {2}the words it said/));
    const { out } = await cli(["runs", "info", id, "--json"]);
    expect(JSON.parse(out)).toMatchObject({ id, state: "done", model: expect.any(String), transcript: expect.stringMatching(/\.jsonl$/) });
    const entries = (await cli(["runs", "log", id, "--json"])).out
      .trim()
      .split("\n")
      .map((line) => JSON.parse(line));
    expect(entries.map(({ kind }) => kind)).toEqual(["task", "said"]);
    expect((await cli(["runs", "log", id, "-n", "1", "--json"])).out.trim().split("\n")).toHaveLength(1);
    expect(await cli(["runs", "info", "nobody"])).toEqual({ code: 1, out: "", err: expect.stringMatching(/^There is no run "nobody"/) });
    expect(await cli(["runs", "info"])).toMatchObject({ code: 2, err: expect.stringMatching(/^Which run\?/) });
    expect(await cli(["runs", "lgo", id])).toMatchObject({
      code: 2,
      err: expect.stringMatching(/^runs has no "lgo"\. Did you mean log\?/),
    });
    expect(await cli(["runs", "log", id, "-n", "0"])).toMatchObject({ code: 2 });
  });
});

describe("[CL1] steering", () => {
  it("[CL1] stop, send, spawn, rerun and answer do what their commands do in the chat", async () => {
    const chat = await sendOut("steered", held("steered"));
    const { id } = await chat.reached("steered", "running");
    expect(await cli(["runs", "send", id, "and", "hurry"])).toEqual(fine(/Sent to "steered"/));
    expect(await cli(["runs", "stop", id.slice(0, 8)])).toEqual(fine(/stopped/i));
    expect((await chat.reached("steered", "stopped")).id).toBe(id);
    expect(await cli(["runs", "rerun", id, plan([{ text: "once more" }])])).toEqual(fine(/once more/));
    await waitFor("the second run", async () => (await listed()).filter(({ label }) => label === "steered").length === 2);
    expect(await cli(["runs", "spawn", plan([{ text: "made by hand" }])])).toEqual(fine(/./));
    await scene.herald.reply(/made by hand/);
    expect(await cli(["runs", "send", id])).toMatchObject({ code: 2, out: "" });
    expect(await cli(["runs", "spawn"])).toMatchObject({ code: 2, out: "" });
  });

  it("[CL1] --json names the run that was meant or began; a spawn that is refused ends with 1, a flag for another word with 2", async () => {
    const spawned = await cli(["runs", "spawn", "--json", plan([{ text: "for a program" }])]);
    expect(spawned).toMatchObject({ code: 0, err: "" });
    const { id, text } = JSON.parse(spawned.out) as { id: string; text: string };
    expect((await listed()).map((run) => run.id)).toContain(id);
    expect(text).toMatch(/^🧭 Sent out .* Its result will be announced in the main chat of the page\.$/s);
    await scene.herald.reply(/for a program/);
    const again = JSON.parse((await cli(["runs", "rerun", id, "--json"])).out) as { id: string };
    expect(again.id).not.toBe(id);
    expect((await listed()).find((run) => run.id === again.id)).toMatchObject({ rerunOf: id });
    expect(JSON.parse((await cli(["runs", "send", id, "more", "--json"])).out)).toEqual({ id, text: expect.stringMatching(/./) });
    const chat = scene.chat();
    await chat.act([spawns(...Array.from({ length: 20 }, (_, n) => child(`n${n}`, held("room"))))]);
    const refused = await cli(["runs", "spawn", "--chat", chat.id, plan([{ text: "one too many" }])]);
    expect(refused).toEqual({ code: 1, out: "", err: expect.stringMatching(/^⚠️ \S/) });
    for (const words of [
      ["stop", id, "--follow"],
      ["list", "--model", "x"],
      ["rerun", id, "--chat", "main"],
    ])
      expect(await cli(["runs", ...words])).toEqual({
        code: 2,
        out: "",
        err: expect.stringMatching(/^runs (stop|list|rerun) takes no --(follow|model|chat)\./),
      });
  });

  it("[CL1] answer takes words or the number of an option; a run that asks nothing says so", async () => {
    const asks = calls(["ask", { question: "Which colour?", options: ["Red", "Blue"] }]);
    const chat = scene.chat();
    await chat.say(plan([spawns(child("painter", [asks]))]));
    const { id } = await chat.reached("painter", "waiting");
    await scene.herald.reply(/asks:/, chat.id);
    expect(await cli(["status"])).toEqual(fine(new RegExp(`^Needs you: {2}1 asked \\(herald runs answer ${id.slice(0, 8)} …\\)$`, "m")));
    expect(await cli(["runs", "info", id])).toEqual(fine(/Asks you:\nWhich colour\?\n {2}1\) Red\n {2}2\) Blue/));
    expect(await cli(["runs", "answer", id, "2"])).toEqual(fine(/./));
    expect(await chat.announced("painter")).toContain("Blue");
    expect(await cli(["runs", "answer", id, "1"])).toEqual({ code: 1, out: "", err: "It asks nothing.\n" });
    // What a conversation asks is no run's: nothing here could answer it.
    await chat.say(plan([asks, { text: "thanks" }]));
    await waitFor("its question", async () => /1 asked/.test((await cli(["status"])).out));
    expect((await cli(["status"])).out).toMatch(/^Needs you: {2}1 asked \(answer in the chat or on the page\)$/m);
  });
});

describe("[CL1] following", () => {
  it("[CL1] CLI-009 log -f goes on over kill -9 and a restart without gap or repeat, and ends with the run", async () => {
    const chat = await sendOut("followed", [
      { ...calls(["list", { path: "." }]), text: "step one" },
      { ...calls(["list", { path: "." }]), text: "step two", hold: "two" },
      { text: "step three", hold: "three" },
    ]);
    const { id } = await chat.reached("followed", "running");
    const following = startCli(scene.herald, ["runs", "log", "-f", "--json", id]);
    const words = (): string[] =>
      following
        .out()
        .split("\n")
        .filter((line) => line !== "")
        .map((line) => JSON.parse(line))
        .filter(({ kind }) => kind === "said")
        .map(({ text }) => text);
    await waitFor("the first step", () => words().includes("step one"));
    await scene.herald.crash();
    await waitFor("its word about that", () => following.err().includes("The gateway is away"));
    await scene.herald.restart();
    scene.release("two");
    await waitFor("the second step", () => words().includes("step two"));
    scene.release("three");
    expect(await following.ended()).toBe(0);
    expect(words()).toEqual(["step one", "step two", "step three"]);
  });

  it("[CL1] CLI-009 log -f | head -1: silently, exit 0", async () => {
    const chat = await sendOut("headed", held("headed"));
    const { id } = await chat.reached("headed", "running");
    const piped = startCli(scene.herald, ["runs", "log", "-f", id], { shell: '{ "$@"; echo "ended with $?" >&2; } | head -1' });
    await waitFor("the first line", () => piped.out() !== "");
    scene.release("headed");
    await piped.ended();
    expect(piped.err()).toBe("ended with 0\n");
  });

  it.skipIf(!existsSync("/usr/bin/script"))(
    "[CL1] CLI-009 on a terminal of 20 columns the list is drawn in place; Ctrl-C leaves it clean",
    async () => {
      const chat = await sendOut("a label that is far too long for it", held("narrow"));
      await chat.reached("a label that is far too long for it", "running");
      const draw = async (env: Record<string, string>): Promise<RunningCli> => {
        const drawn = startCli(scene.herald, ["runs"], {
          env: { TERM: "xterm", ...env },
          isTyped: true,
          shell: `export HERALD_WORDS="$*"; script -qec 'stty cols 20 rows 10; $HERALD_WORDS; echo "ended with $?"' /dev/null`,
        });
        await waitFor("the list", () => stripVTControlCharacters(drawn.out()).includes("…"));
        drawn.type("\u0003");
        await drawn.ended();
        return drawn;
      };
      const [coloured, plain] = await Promise.all([draw({}), draw({ NO_COLOR: "1" })]);
      expect(coloured.out()).toContain("\u001b[36m");
      expect(plain.out()).not.toMatch(/\[\d+m/);
      for (const out of [coloured.out(), plain.out()]) {
        expect(out.indexOf("\u001b[?25h")).toBeGreaterThan(out.indexOf("\u001b[?25l"));
        const lines = stripVTControlCharacters(out).split(/[\r\n]+/);
        expect(lines.every((line) => [...line].length <= 20)).toBe(true);
        expect(lines.some((line) => line.endsWith("…"))).toBe(true);
      }
    },
  );
});
