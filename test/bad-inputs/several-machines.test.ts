// Machines that go silent, clocks that are set, settings that differ: several processes on one PostgreSQL when something between them is
// not as it should be.
import { randomUUID } from "node:crypto";
import { describe, expect, it } from "vitest";
import { lock } from "../../src/stores/lock-keys.ts";
import { calls, child, plan, type Step, spawns, whoAsks } from "../support/brain.ts";
import { findFakeTime, startClockedPostgres } from "../support/clocked-postgres.ts";
import { openEvents } from "../support/event-stream.ts";
import { mostAtOnce } from "../support/fake-model-server.ts";
import type { Harness } from "../support/harness.ts";
import { createNodes } from "../support/nodes.ts";
import { createSchema, POSTGRES_ENV } from "../support/postgres.ts";
import { createProxy } from "../support/postgres-proxy.ts";
import { createScene } from "../support/scene.ts";
import { hasPostgres } from "../support/shared-folder.ts";
import { createProcesses } from "../support/shared-process.ts";
import { waitFor } from "../support/wait.ts";

const server = (): string => process.env[POSTGRES_ENV] ?? "";
const GATEWAY = ["--role", "gateway"];
const WORKER = ["--role", "worker"];
/** What a lost doorbell may cost (SO2). */
const BELL_MS = 2_000;
const isChild = (call: { system: string; messages: { text: string }[] }): boolean => whoAsks(call) === "child";
const middle = (values: readonly number[]): number => values.toSorted((a, b) => a - b)[Math.floor(values.length / 2)] ?? 0;

describe.skipIf(!hasPostgres())("several machines", () => {
  const fakeTime = findFakeTime();
  it.skipIf(fakeTime === null)(
    "[SO4] NODE-002 the server's clock goes back half an hour while one has just died: the others live on, the dead one is missed in time",
    async () => {
      await using clocked = await startClockedPostgres(fakeTime ?? "");
      const schema = await createSchema(clocked.server.url);
      await using processes = createProcesses();
      const leaseMs = 1_500;
      const [first, second, dying] = [
        await processes.start(schema.url, { leaseMs }),
        await processes.start(schema.url, { leaseMs }),
        await processes.start(schema.url, { leaseMs }),
      ];
      for (const one of [first, second, dying]) await one.live();
      const { db } = first.installation;
      const now = async (): Promise<number> =>
        (await db.get<{ now: number }>("SELECT extract(epoch FROM clock_timestamp())::float8 * 1000 AS now"))?.now ?? 0;
      const jobs = dying.installation.jobs("main");
      await db.transaction([], (tx) => jobs.ring(tx, { id: "agent:main:web:dm:x", group: "x", isFront: false }));
      expect(await jobs.claim(["main"])).not.toBeNull();
      const before = await now();
      await dying.kill();
      const killedAt = performance.now();
      clocked.set("-30m");
      expect(await now()).toBeLessThan(before - 29 * 60_000);
      await waitFor("the dead one to be missed", async () => !(await first.stores.nodes.alive()).has(dying.bootId));
      expect(performance.now() - killedAt).toBeLessThan(4 * leaseMs);
      await waitFor("both to see the step", () => [first, second].every(({ lines }) => lines.some(({ msg }) => /clock of the/.test(msg))));
      // Its work is free for one of them, and for one only.
      const left = first.installation.jobs("main");
      expect(await left.listOrphaned()).toEqual(["agent:main:web:dm:x"]);
      await left.release(await left.listOrphaned());
      const claims = await Promise.all([left.claim(["main"]), second.installation.jobs("main").claim(["main"])]);
      expect(claims.filter((claim) => claim !== null)).toHaveLength(1);
      // Another lease later they are still here, and have said it once each.
      const beats = async () => db.all<{ id: string; beat: number }>("SELECT id, beat FROM nodes ORDER BY id");
      const known = await beats();
      await waitFor("several renewals more", async () => (await beats()).every(({ beat }, n) => beat > (known[n]?.beat ?? 0) + 6));
      for (const one of [first, second]) {
        expect(one.lost()).toBe(0);
        expect(one.lines.filter(({ msg }) => /clock of the PostgreSQL server was set/.test(msg))).toHaveLength(1);
      }
    },
    60_000,
  );

  it("[SO2][SO3] a process that starts while every notification is lost starts all the same: it is no pooler that swallows them", async () => {
    await using proxy = await createProxy(server());
    proxy.toClient = ({ type }) => (type === "A" ? "drop" : "pass");
    await using herald = await createNodes(1, {}, [{ through: proxy }]);
    const chat = randomUUID();
    await herald.say("hello", { chat });
    await herald.reply(/offline/i, chat);
    expect(herald.output()).toMatch(/no notification has come back from PostgreSQL yet/);
    expect(herald.output()).not.toMatch(/pooler/);
  });

  const SHUT_DOWN = { code: "57P01", message: "terminating connection due to administrator command" };
  // The last thing a start does before it is one of the living with a bell, and one of its first.
  it.each([
    ["its connections are cut", "cut", "LISTEN"],
    ["the server shuts down", SHUT_DOWN, "LISTEN"],
    ["the server shuts down early", SHUT_DOWN, "FROM kept"],
  ] as const)("[SO3] a process that starts while %s begins anew until it can: nobody has to start it again", async (_how, verdict, at) => {
    await using proxy = await createProxy(server());
    let left = 3;
    proxy.toServer = ({ text }) => (text.includes(at) && left-- > 0 ? verdict : "pass");
    await using herald = await createNodes(1, {}, [{ through: proxy }]);
    expect(left).toBeLessThan(0);
    expect(herald.output()).toMatch(/PostgreSQL went away while Herald started/);
    const chat = randomUUID();
    await herald.say("hello", { chat });
    await herald.reply(/offline/i, chat);
  });

  it("[SO2] NODE-004 every notification lost, then the listening connection a black hole: two seconds at most, and replaced by itself", async () => {
    await using proxy = await createProxy(server());
    await using scene = await createScene({
      nodes: [{ args: GATEWAY }, { args: WORKER, through: proxy }, { args: GATEWAY, through: proxy }],
    });
    const [front, , other] = scene.herald.members as [Harness, Harness, Harness];
    const chat = scene.chat();
    /** From the message on record to the model's call, which only the one behind the proxy makes. */
    const takes = async (): Promise<number> => {
      const before = scene.model.calls.length;
      await front.say(plan([{ text: "done" }]), { chat: chat.id });
      const saidAt = performance.now();
      await waitFor("the model to be asked", () => scene.model.calls.length > before);
      const took = performance.now() - saidAt;
      await waitFor("its answer", () => scene.herald.rows("SELECT 1 FROM inbox WHERE state <> 'done'").length === 0);
      return took;
    };
    const three = async (): Promise<number> => middle([await takes(), await takes(), await takes()]);
    const usual = await three();
    proxy.toClient = ({ type }) => (type === "A" ? "drop" : "pass");
    expect((await three()) - usual).toBeLessThan(BELL_MS);
    proxy.toClient = () => "pass";

    const working = scene.chat();
    await working.act([spawns(child("to be stopped", [{ hang: true }]))]);
    await waitFor("it to work", () => scene.model.open === 1);
    await using tab = await openEvents(other, `chat=${chat.id}`);
    const lines = proxy.lines().filter((line) => line.isListening);
    expect(lines).toHaveLength(2);
    for (const line of lines) line.blackHole();
    const stoppedAt = performance.now();
    expect(await working.ask("/stop")).toBe("⚙️ Agent was aborted. Stopped 1 sub-agent.");
    await waitFor("the model's connection to close", () => scene.model.open === 0);
    expect(performance.now() - stoppedAt).toBeLessThan(BELL_MS + 8_000);
    // What was streamed meanwhile is missed in that tab; the answer itself stands in a row.
    await front.say(plan([{ pieces: ["these ", "words"], pieceMs: 100 }]), { chat: chat.id });
    await waitFor("the answer in the tab", () => tab.of("message").some(({ data }) => JSON.stringify(data).includes("these words")));
    await waitFor("other connections", () => proxy.lines().filter((line) => line.isListening && !line.isSilent).length === 2);
    expect(scene.herald.output()).toContain("no notification came from PostgreSQL for a while; listening on another connection");
    expect(scene.herald.members.every((one) => one.isRunning())).toBe(true);
    expect((await three()) - usual).toBeLessThan(BELL_MS / 2);
  }, 120_000);

  it("[SO6] NODE-006 an agent whose machine is off: its runs wait and say for what, use no place, and nobody else takes them", async () => {
    const list = [
      { id: "main", default: true, subagents: { allowAgents: ["ops"] } },
      { id: "ops", nodes: ["mini"] },
    ];
    await using scene = await createScene({
      nodes: [{ node: "big" }, { node: "bigger" }],
      subagents: { maxConcurrent: 2, maxChildrenPerSession: 60 },
      config: { agents: { list } },
    });
    const [pinned, other] = [scene.chat(), scene.chat()];
    const thirty = Array.from({ length: 30 }, (_, n) => child(`ops ${n}`, "from mini", { agentId: "ops" }));
    await pinned.ask(plan([spawns(...thirty), { text: "sent thirty" }]), 60_000);
    await other.act([spawns(child("free", "at once"))]);
    expect(await other.announced("free")).toContain("at once");
    const listed = await pinned.ask("/subagents list");
    expect(listed.match(/waits for mini/g)).toHaveLength(30);
    await using tab = await openEvents(scene.herald.members[1] as Harness, `chat=${pinned.id}`);
    await waitFor("the board", () => tab.of("runs").length > 0);
    const board = tab.of("runs").at(-1)?.data as { label: string; doing: string | null; state: string }[];
    expect(board.filter(({ doing }) => doing === "waits for mini")).toHaveLength(30);
    expect(await other.ask("/status")).toMatch(/subagent 0 running, 30 waiting/);
    expect(scene.model.calls.filter(isChild)).toHaveLength(1);
    await scene.join({ node: "mini" });
    await waitFor("all thirty", async () => (await pinned.announcements()).length === 30, 60_000);
    const owners = scene.herald.rows<{ n: number }>("SELECT count(*) AS n FROM runs WHERE agent_id = 'ops' AND state = 'done'");
    expect(owners).toEqual([{ n: 30 }]);
  }, 120_000);

  it("[SO6] NODE-008 a machine joins with other limits, other denials and without an agent: said, the smaller limit counts, a denial holds", async () => {
    const main = { id: "main", default: true, subagents: { allowAgents: ["ops"] } };
    await using scene = await createScene({
      nodes: [{ node: "a" }],
      subagents: { maxConcurrent: 5, maxChildrenPerSession: 20 },
      config: { agents: { list: [main, { id: "ops" }] } },
    });
    const others = {
      subagents: { maxConcurrent: 2, maxChildrenPerSession: 20 },
      config: { tools: { deny: ["sessions_list"] }, agents: { list: [{ id: "main", default: true }] } },
    };
    const b = await scene.join({ node: "b", config: scene.configOf(others) });
    const said = [
      /agents\.defaults\.subagents\.maxConcurrent differs \(a 5, b 2\): the smallest, 2, counts for all together\./,
      /tools\.deny differs: only b denies sessions_list/,
      /The agent ops is not in the settings/,
    ];
    const chat = scene.chat();
    for (const line of [...said.slice(0, 2), /ops is not in the settings here/])
      await waitFor(`the log to say ${line}`, () => line.test(b.output()));
    const status = await chat.ask("/status");
    for (const line of said) expect(status).toMatch(line);

    const work = Array.from({ length: 8 }, (_, n) =>
      child(
        `ops ${n}`,
        [
          { ...calls(["sessions_list", {}]), delayMs: 60 },
          { text: "from ops", delayMs: 60 },
        ],
        { agentId: "ops" },
      ),
    );
    // Either may take the turn, and b has no ops to send to: it says so, and is asked again until a does.
    const sendOut = (...steps: Step[]): Promise<unknown> =>
      waitFor("a to take the turn", async () => !(await chat.act(steps)).some((given) => given.includes("can't be used here")));
    const before = scene.model.calls.length;
    await sendOut(spawns(...work));
    await waitFor("all of them", async () => (await chat.announcements()).length === 8, 60_000);
    expect(mostAtOnce(scene.model.calls.slice(before).filter((call) => whoAsks(call) !== "main"))).toBe(2);
    for (const { text } of await chat.announcements()) expect(text).toContain("Status: success");
    // With a gone b works on what it can, without what it denies; what it has no agent for waits.
    await sendOut(spawns(child("left behind", [{ text: "from ops again", hold: "a is back" }], { agentId: "ops" })));
    await waitFor("it to work", () => scene.model.open === 1);
    const [first] = scene.herald.members as [Harness];
    await first.stop();
    const asked = scene.model.calls.length;
    expect(await scene.chat().ask("hello")).toBe("no plan");
    expect(scene.model.calls.slice(asked).map((call) => call.tools.includes("sessions_list"))).toEqual([false]);
    expect(scene.model.calls[before]?.tools).toContain("sessions_spawn");
    const waits = "waits for a machine that has the agent ops in its settings";
    await waitFor("the list to say so", async () => (await chat.ask("/subagents list")).includes(waits));
    await first.restart();
    scene.release("a is back");
    expect(await chat.announced("left behind")).toContain("from ops again");
  }, 120_000);

  it("[ST2] NODE-010 /stop while the one at work is cut off from the database but not from the model: it starts nothing more and ends itself", async () => {
    await using proxy = await createProxy(server());
    await using scene = await createScene({ nodes: [{ args: GATEWAY }, { args: WORKER, through: proxy }] });
    const [, worker] = scene.herald.members as [Harness, Harness];
    const chat = scene.chat();
    const steps = [{ ...calls(["sessions_list", {}]), hold: "cut off" }, { text: "never to be said" }];
    await chat.act([spawns(child("cut off", steps))]);
    await waitFor("it to work", () => scene.model.calls.filter(isChild).length === 1);
    proxy.isDeaf = true;
    for (const line of proxy.lines()) line.blackHole();
    const cutAt = performance.now();
    expect(await chat.ask("/stop")).toBe("⚙️ Agent was aborted. Stopped 1 sub-agent.");
    // It does not wait for the one that is cut off, whose lease is longer than that.
    expect(performance.now() - cutAt).toBeLessThan(5_000);
    scene.release("cut off");
    await waitFor("the worker to give up", () => /cut off from PostgreSQL/.test(worker.output()));
    // Its lease, and what a look at the clock may take on a loaded machine.
    expect(performance.now() - cutAt).toBeLessThan(20_000);
    expect(scene.model.calls.filter(isChild)).toHaveLength(1);
    proxy.isDeaf = false;
    expect(await chat.ask(plan([{ text: "it is back" }]), 30_000)).toBe("it is back");
    expect(await chat.announcements()).toEqual([]);
    expect(chat.run("cut off").state).toBe("stopped");
    expect(scene.model.calls.filter(isChild)).toHaveLength(1);
  }, 90_000);

  it("[SO5] NODE-012 a tab goes from process to process while both write: nothing missed, nothing twice", async () => {
    await using herald = await createNodes(2, { config: { gateway: { drainSeconds: 0 } }, leavesUnsent: true });
    const chat = randomUUID();
    // Fewer than a person may send at once, or the last ones would not be answered on a fast machine.
    const sent = Array.from({ length: 28 }, (_, n) => `m${n}`);
    const writing = Promise.all(
      [0, 1].map(async (k) => {
        // Commands without effect: each is one message of the person and one answer.
        for (const text of sent.filter((_, n) => n % 2 === k)) await herald.members[k]?.say(`/help ${text}`, { chat });
      }),
    );
    const seen: { id: number; text: string }[] = [];
    let cursor = 0;
    const read = async (member: Harness, until: () => boolean): Promise<void> => {
      await using tab = await openEvents(member, `chat=${chat}&cursor=${cursor}`);
      await waitFor("some messages", () => tab.of("message").length > 0 || until()).catch(() => {});
      for (const { id, data } of tab.of("message")) seen.push({ id: Number(id), text: JSON.stringify(data) });
      cursor = seen.at(-1)?.id ?? cursor;
    };
    const isOver = (): boolean => seen.length >= 2 * sent.length;
    for (let n = 0; !isOver(); n++) await read(herald.members[n % 2] as Harness, isOver);
    await writing;
    const ids = seen.map(({ id }) => id);
    expect(ids).toEqual([...new Set(ids)].sort((a, b) => a - b));
    expect(ids).toEqual(
      herald.rows<{ seq: number }>("SELECT seq FROM web_messages WHERE chat = ? ORDER BY seq", chat).map(({ seq }) => seq),
    );
    for (const text of sent)
      expect(seen.filter((one) => one.text.includes(`/help ${text}"`) || one.text.includes(`/help ${text}<`))).toHaveLength(1);
    // A cursor from long ago gets all that came since.
    cursor = 0;
    seen.length = 0;
    await using old = await openEvents(herald.members[1] as Harness, `chat=${chat}&cursor=0`);
    await waitFor("everything again", () => old.of("message").length === 2 * sent.length);
  }, 60_000);

  it("[SO5] NODE-012 a number that would be committed late holds the next ones of its chat back", async () => {
    await using schema = await createSchema();
    await using processes = createProcesses();
    const [a, b] = [await processes.start(schema.url), await processes.start(schema.url)];
    const post = (one: typeof a, key: string, hold: Promise<void>) =>
      one.stores.db.transaction([lock.page("c")], async (tx) => {
        await one.stores.webMessages.post(tx, { chat: "c", key, author: "agent", text: key });
        await hold;
      });
    const gate = Promise.withResolvers<void>();
    const late = post(a, "first", gate.promise);
    await waitFor(
      "the first to have its number",
      async () => (await b.stores.db.all("SELECT 1 FROM pg_locks WHERE locktype = 'advisory'")).length > 0,
    );
    const next = post(b, "second", Promise.resolve());
    await waitFor(
      "the second to wait",
      async () => (await a.stores.db.all("SELECT 1 FROM pg_locks WHERE locktype = 'advisory' AND NOT granted")).length > 0,
    );
    expect(await b.stores.webMessages.list("c", { afterSeq: 0, limit: 10 })).toEqual([]);
    gate.resolve();
    await Promise.all([late, next]);
    const keys = (await b.stores.webMessages.list("c", { afterSeq: 0, limit: 10 })).map(({ key }) => key);
    expect(keys).toEqual(["first", "second"]);
  });
});
