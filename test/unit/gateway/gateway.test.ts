// inbox rows → gate → command or lane, on real stores, with a channel whose updates are plain objects.
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { afterEach, beforeEach, expect, it } from "vitest";
import { AppError } from "../../../src/core/errors.ts";
import { type HitFailpoint, noFailpoints } from "../../../src/core/failpoints.ts";
import type { Channel, Inbound } from "../../../src/core/message.ts";
import { createRateLimit } from "../../../src/core/rate-limit.ts";
import { createAccess } from "../../../src/gateway/access.ts";
import { type Command, createCommands } from "../../../src/gateway/commands.ts";
import { createGateway, type Gateway } from "../../../src/gateway/gateway.ts";
import { createLane, type Lane } from "../../../src/lanes/lanes.ts";
import { settle } from "../../contract/lanes.contract.ts";
import { createStateFolder, type StateFolder } from "../../support/state-folder.ts";

let folder: StateFolder;
let gateway: Gateway;
let lane: Lane;
let worked: string[];
let ran: string[];
let slow: PromiseWithResolvers<void>;
let failpoint: HitFailpoint;

interface Update {
  readonly text: string;
  readonly sender?: string;
  readonly chat?: string;
  readonly more?: Partial<Inbound>;
}

const channel: Channel = {
  name: "test",
  account: "a",
  start: async () => {},
  stop: async () => {},
  health: () => ({ state: "on" }),
  decode(raw) {
    const { text, sender = "ann", chat = sender, more = {} } = raw as Update;
    if (text === "explode") throw new Error("no such update");
    if (text === "a join") return null;
    const inbound: Inbound = {
      kind: "message",
      address: { channel: "test", account: "a", chat, kind: "dm" },
      sender: { id: sender },
      text,
      mentioned: true,
      ...more,
    };
    return inbound;
  },
  render: (message) => [{ text: message.markdown }],
  send: async () => ({ status: "sent", ref: "x" }),
};

const command = (name: string, run: Command["run"]): Command => ({ name, usage: `/${name}`, summary: name, run });

beforeEach(async () => {
  folder = await createStateFolder();
  [worked, ran, slow, failpoint] = [[], [], Promise.withResolvers<void>(), noFailpoints];
  lane = createLane({ name: "main", concurrency: 1, onError: () => expect.unreachable() });
  create();
});

function create(): void {
  const { db, inbox, outbox, pairing, tries, questions, live } = folder.stores;
  gateway = createGateway({
    ...{ db, inbox, outbox, tries, lane, clock: folder.clock, bus: folder.bus, log: folder.log, failpoint: (name) => failpoint(name) },
    ...{ questions, live, replies: { settle: async () => expect.unreachable() } },
    agents: { defaultId: () => "main", find: () => null, list: () => [] },
    access: createAccess({ pairing, rules: (name) => (name === "test" ? { allowFrom: ["ann", "bob"], groups: {} } : null) }),
    commands: createCommands([
      command("note", ({ args }) => ({ act: async () => `noted ${ran.push(args)}` })),
      command("stop", () => ({ act: async () => `stopped ${ran.push("stop")}` })),
      command("quiet", () => ({ act: async () => null })),
      {
        ...command("slow", async () => {
          await slow.promise;
          return { text: "slow but done" };
        }),
        isSlow: true,
      },
      command("stuck", () => {
        throw new AppError("storage", "EIO: i/o error, read");
      }),
      command("broken", () => {
        throw new Error("no luck");
      }),
    ]),
    commandLimit: createRateLimit({ burst: 60, refillMs: 12_000, clock: folder.clock }),
    channel: (name, account) => (name === "test" && account === "a" ? channel : null),
  });
}
afterEach(async () => {
  slow.resolve();
  await gateway.stop();
  folder[Symbol.dispose]();
});

let n = 0;
const arrive = (...texts: (string | Update)[]): Promise<void> =>
  folder.stores.inbox
    .sink("test", "a")
    .put(texts.map((one) => ({ externalId: `u${n++}`, raw: typeof one === "string" ? { text: one } : one })));
const answers = async (): Promise<string[]> =>
  (await folder.stores.db.all<{ part: string }>("SELECT part FROM outbox ORDER BY id")).map((row) => JSON.parse(row.part).text);
const states = async (): Promise<unknown[]> =>
  (await folder.stores.db.all<{ state: string }>("SELECT state FROM inbox ORDER BY id")).map((row) => row.state);
const serve = (): void =>
  lane.serve(async (id) => {
    worked.push(id);
  });

it("[AG1] a message waits in its session's lane, a command is answered at once, in order of arrival", async () => {
  serve();
  await gateway.start();
  await arrive("hello", "/note one", { text: "hi", sender: "bob" }, "/note two");
  await settle();
  expect(worked).toEqual(["agent:main:test:dm:ann", "agent:main:test:dm:bob"]);
  expect(await answers()).toEqual(["noted 1", "noted 2"]);
  expect(await states()).toEqual(["waiting", "done", "waiting", "done"]);
});

it("[IN4] a message in which nothing can be seen is no message", async () => {
  serve();
  await gateway.start();
  await arrive("\0", " \u200b ", "hello");
  await settle();
  expect(worked).toEqual(["agent:main:test:dm:ann"]);
  expect(await states()).toEqual(["done", "done", "waiting"]);
});

it("[RC1] what was recorded before the start is taken up, waiting rows too", async () => {
  await arrive("hello", "/note one");
  const [first] = await folder.stores.inbox.listNew(0, 1);
  await folder.stores.inbox.route(first?.id ?? 0, "agent:main:test:dm:ann");
  serve();
  await gateway.start();
  await settle();
  expect(worked).toEqual(["agent:main:test:dm:ann"]);
  expect(await answers()).toEqual(["noted 1"]);
});

it("[RC4][CM9] a command the disk always spoils is given up after three tries, and what waits behind it goes on", async () => {
  await gateway.start();
  await arrive("/stuck", "/note one");
  await settle();
  expect(await answers()).toEqual([]);
  for (let i = 0; i < 2; i++) await folder.clock.advance(5_000);
  await settle();
  expect(await answers()).toEqual([expect.stringContaining("That did not work: EIO"), "noted 1"]);
  expect(await states()).toEqual(["done", "done"]);
});

it.each([
  { died: 4, said: ["⚠️ This was not carried out: the gateway ended 4 times at it.", "noted 1"] },
  { died: 20, said: ["⚠️ This was not carried out: the gateway ended 20 times at it.", "noted 1"] },
  { died: 21, said: ["noted 1"] },
])(
  "[RC4][RC1] a command at which $died processes ended is given up, in words as long as there is hope for them",
  async ({ died, said }) => {
    await arrive("/stuck", "/note one");
    for (let deaths = 1; deaths < died; deaths++) await folder.stores.tries.begin("inbox:1");
    await gateway.start();
    await settle();
    expect(await answers()).toEqual(said);
    expect(await states()).toEqual(["done", "done"]);
    expect(await folder.stores.db.all("SELECT work FROM tries")).toEqual([]);
  },
);

it("[CM9] a slow command holds up no other", async () => {
  await gateway.start();
  await arrive("/slow", "/note one");
  await settle();
  expect(await answers()).toEqual(["noted 1"]);
  slow.resolve();
  await settle();
  expect(await answers()).toEqual(["noted 1", "slow but done"]);
});

it("[RC4] a command that breaks is answered with one sentence", async () => {
  await gateway.start();
  await arrive("/broken", "/nonsense");
  await settle();
  expect(await answers()).toEqual(["⚠️ That did not work: no luck", "There is no command /nonsense. /help lists them."]);
});

it("[RC4] updates that can't be read, say nothing or make no legal key are settled without a word", async () => {
  serve();
  await gateway.start();
  await arrive("explode", "a join", "   ", { text: "hi", sender: "ann", chat: "x".repeat(256) }, "/note after");
  await settle();
  expect(await states()).toEqual(["done", "done", "done", "done", "done"]);
  expect(await answers()).toEqual(["noted 1"]);
  expect(worked).toEqual([]);
});

it("[SC1] an unknown person gets one pairing code and no reaction to anything else; the audit line has the id", async () => {
  await gateway.start();
  await arrive({ text: "hello", sender: "eve" }, { text: "/note secret", sender: "eve" }, { text: "stop", sender: "eve" });
  await settle();
  expect(await answers()).toEqual([expect.stringMatching(/Your pairing code is \*\*[A-Z2-9]{8}\*\*/)]);
  expect(ran).toEqual([]);
  const denied = folder.lines.filter((line) => line.audit === "denied");
  expect(denied).toHaveLength(3);
  expect(denied[0]).toMatchObject({ channel: "test", sender: "eve", chat: "eve" });
  expect(JSON.stringify(denied)).not.toContain("secret");
});

it("[SC1][RC1] a code that was made is told: both or neither, whatever comes in between", async () => {
  failpoint = (point) => {
    if (point === "command.before-commit") throw new Error("the process ends here");
  };
  await gateway.start();
  await arrive({ text: "hello", sender: "eve" });
  await settle();
  expect([await answers(), await states()]).toEqual([[], ["new"]]);
  await gateway.stop();
  failpoint = noFailpoints;
  create();
  await gateway.start();
  expect(await answers()).toEqual([expect.stringContaining(`**${(await folder.stores.pairing.listPending())[0]?.code}**`)]);
  expect(await states()).toEqual(["done"]);
});

it("[CM9] two hundred commands in one instant: the burst is answered, the rest with one word, others unaffected", async () => {
  await gateway.start();
  await arrive(...Array.from({ length: 200 }, () => "/note x"), { text: "/note mine", sender: "bob" });
  await settle();
  expect(ran.filter((args) => args === "x")).toHaveLength(60);
  expect(ran).toContain("mine");
  expect((await answers()).filter((text) => !text.startsWith("noted"))).toEqual([expect.stringMatching(/^Too many commands at once/)]);
  expect(new Set(await states())).toEqual(new Set(["done"]));
});

it("[ST1] /stop works at once, however many commands came before it", async () => {
  await gateway.start();
  await arrive(...Array.from({ length: 200 }, () => "/note x"), "stop");
  await settle();
  expect((await answers()).at(-1)).toBe("stopped 61");
});

it("[CH2][CM1] a command with a file is carried out, and its answer says that the file was not used", async () => {
  serve();
  await gateway.start();
  const files: Inbound["files"] = [{ source: { remote: "1" }, kind: "file", name: "a.txt" }];
  const noted = (words: string): Update => ({ text: `[file a.txt]\n${words}`, more: { words, files } });
  await arrive(noted("/note one"), { text: "/note two", more: { files } }, noted("/quiet"), noted("!none of ours"), "/note three");
  await settle();
  const unused = "_📎 What was attached was not used: commands take no files._";
  expect(await answers()).toEqual([`noted 1\n\n${unused}`, `noted 2\n\n${unused}`, unused, "noted 3"]);
  expect(worked).toEqual(["agent:main:test:dm:ann"]);
});

it("[CM9] a command that has nothing to say is settled without an answer", async () => {
  await gateway.start();
  await arrive("/quiet");
  await settle();
  expect([await answers(), await states()]).toEqual([[], ["done"]]);
});

it("[RC4] a disk that refuses: nothing half done, and the same rows are handled in order when it is over", async () => {
  await arrive("/note one", "hello", "/note two");
  await folder.stores.db.transaction([], (tx) => tx.run("PRAGMA busy_timeout=10"));
  const other = new DatabaseSync(join(folder.stateDir, "herald.db"));
  other.exec("BEGIN IMMEDIATE");
  serve();
  await gateway.start();
  await folder.clock.advance(6_000);
  expect([await states(), await answers(), worked]).toEqual([["new", "new", "new"], [], []]);
  other.exec("ROLLBACK");
  other.close();
  await folder.clock.advance(5_000);
  expect(await states()).toEqual(["done", "waiting", "done"]);
  expect(worked).toEqual(["agent:main:test:dm:ann"]);
  expect(await answers()).toHaveLength(2);
});

it("[RN4] stop() answers the commands under way and looks at nothing new", async () => {
  await gateway.start();
  await arrive("/slow");
  await settle();
  const stopped = gateway.stop();
  await arrive("/note late");
  slow.resolve();
  await stopped;
  expect(await answers()).toEqual(["slow but done"]);
  expect(await states()).toEqual(["done", "new"]);
});

it("[RC1] a message that another process had begun to answer when it ended is rung for while this one runs", async () => {
  await folder.stores.nodes.enter();
  await gateway.start();
  await arrive("hello");
  await settle();
  const { db, inbox } = folder.stores;
  await inbox.claim("agent:main:test:dm:ann");
  serve();
  await settle();
  worked.length = 0;
  await gateway.takeUp();
  await settle();
  expect(worked).toEqual([]);
  await db.transaction([], (tx) => tx.run("UPDATE inbox SET owner = 'another'"));
  await gateway.takeUp();
  await settle();
  expect(worked).toEqual(["agent:main:test:dm:ann"]);
});
