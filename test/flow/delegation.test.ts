// Delegation through the whole program with a scripted model: postures against the real sandbox, briefs, plans, the
// sections of the output contract, and the documents each run leaves behind.
import { existsSync, mkdirSync, readdirSync, readFileSync, statSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { Brief } from "../../src/brief/brief.ts";
import { BriefResponse } from "../../src/brief/response.ts";
import { Trace } from "../../src/brief/trace.ts";
import { calls, child, plan, type Step, spawns, whoAsks } from "../support/brain.ts";
import type { FakeRequest } from "../support/fake-model-server.ts";
import { createScene, type Scene } from "../support/scene.ts";
import { waitFor } from "../support/wait.ts";

/** A child whose every step waits until the test lets it through with `pass`. */
const heldChild = (name: string, steps: readonly Step[], more: Record<string, unknown> = {}): Record<string, unknown> =>
  child(
    name,
    steps.map((one, n) => ({ ...one, hold: `${name}-${n + 1}` })),
    { briefing: `HELD-${name}`, ...more },
  );
/** Resolves with the nth model request (from 1) of the held child; it is not answered before `pass`. */
const step = (name: string, n: number): Promise<FakeRequest> =>
  waitFor(
    `step ${n} of ${name}`,
    () => requestsOf(`HELD-${name}`).filter((call) => call.messages[0]?.text.startsWith("## Context\nHELD-"))[n - 1],
  );
const pass = (name: string, n: number): void => scene.release(`${name}-${n}`);

const BLOCK = /\[AGENT MEMORY\][\s\S]*\[\/AGENT MEMORY\]/;
/** A brief's block stands behind what was there before, a fresh child's in the system prompt. */
const blockOf = ({ messages, system }: FakeRequest): string =>
  BLOCK.exec(messages.findLast((message) => BLOCK.test(message.text))?.text ?? system)?.[0] ?? "";

let scene: Scene;
beforeAll(async () => {
  scene = await createScene({
    subagents: { maxSpawnDepth: 3 },
    config: {
      agents: {
        list: [
          { id: "main", default: true },
          { id: "unplanned", subagents: { planning: false } },
        ],
      },
    },
  });
  put("README.md", "hello\n");
  put("memory/AGENT.md", "- inherited by all\n");
  put("memory/pins/api.md", "the API is at /v2\n");
  put("memory/pins/secret.md", "nobody told you this\n");
});
afterAll(async () => scene[Symbol.asyncDispose]());

const workspace = (): string => join(scene.herald.stateDir, "workspace");
function put(path: string, text: string): void {
  mkdirSync(dirname(join(workspace(), path)), { recursive: true });
  writeFileSync(join(workspace(), path), text);
}
const folderOf = (run: { session_id: string }): string => join(scene.herald.stateDir, "agents/main/sessions", run.session_id);
const requestsOf = (word: string): FakeRequest[] =>
  scene.model.calls.filter((call) => whoAsks(call) === "child" && call.messages[0]?.text.includes(word) === true);

describe("postures with the real sandbox", () => {
  it("[RO1] refuses an unknown role with all accepted names, and custom without allowedTools; any case and alias is taken", async () => {
    const chat = scene.chat();
    const [unknown, custom, alias] = await chat.act([
      spawns(
        { ...child("x", "x"), role: "wizard" },
        { ...child("x", "x"), role: "custom" },
        { ...child("alias", "fine"), role: "CODE-Review" },
      ),
    ]);
    for (const name of ["general", "explore", "exploration", "awaiter", "code-review", "builder", "tester", "custom"])
      expect(unknown).toContain(name);
    expect(custom).toContain("needs allowedTools");
    expect(JSON.parse(alias ?? "{}")).toMatchObject({ status: "accepted" });
    await chat.announced("alias");
    expect(chat.runs()).toHaveLength(1);
  });

  it("[RO2] an explore child can't write by any tool", async () => {
    const chat = scene.chat();
    const work = calls(
      ["write", { path: "by-write.txt", content: "x" }],
      ["edit", { path: "README.md", oldText: "hello", newText: "bye" }],
      ["exec", { command: "cat README.md; echo x > by-exec.txt; echo y >> README.md" }],
      ["remember", { text: "x" }],
    );
    await chat.act([spawns({ ...child("explorer", [work]), role: "explore" })]);
    const said = await chat.announced("explorer");
    expect(said).toContain('There is no tool \\"write\\"');
    expect(said).toContain('There is no tool \\"edit\\"');
    expect(said).toContain('There is no tool \\"remember\\"');
    expect(said).toMatch(/hello[\s\S]*by-exec\.txt: Read-only file system/);
    expect(readFileSync(join(workspace(), "README.md"), "utf8")).toBe("hello\n");
    expect(readdirSync(workspace()).filter((name) => name.startsWith("by-"))).toEqual([]);
  });

  it("[RO2] review and plan have no shell, a verifier builds in /scratch only, custom has exactly its list", async () => {
    const chat = scene.chat();
    const build = calls(["exec", { command: "echo built > /scratch/out && cat /scratch/out; touch nope" }]);
    const again = calls(["exec", { command: "cat /scratch/out" }]);
    await chat.act([
      spawns(
        { ...child("reviewer", "TOOLS-review"), role: "review" },
        { ...child("planner", "TOOLS-plan"), role: "plan" },
        { ...child("verifier", [build, again]), role: "verifier" },
        { ...child("chosen", "TOOLS-custom"), role: "custom", allowedTools: ["read", "list"] },
      ),
    ]);
    for (const label of ["reviewer", "planner", "verifier", "chosen"]) await chat.announced(label);
    const review = requestsOf("TOOLS-review")[0]?.tools ?? [];
    expect(review).not.toContain("exec");
    expect(review).not.toContain("write");
    expect(review).toContain("read");
    expect(requestsOf("TOOLS-plan")[0]?.tools).not.toContain("exec");
    expect(requestsOf("TOOLS-custom")[0]?.tools.toSorted()).toEqual(["list", "read"]);
    const verified = await chat.announced("verifier");
    expect(verified).toMatch(/built[\s\S]*nope'?: Read-only file system[\s\S]*built/);
  });

  it("[BF4] the agent's memory is closed to a child's tools; the requester itself reads it", async () => {
    const chat = scene.chat();
    const peek = calls(
      ["read", { path: "memory/pins/secret.md" }],
      ["search", { pattern: "nobody told" }],
      ["exec", { command: "ls -A memory | wc -l; cat memory/pins/secret.md" }],
      ["list", { path: ".", depth: 4 }],
    );
    await chat.act([spawns(child("peeking", [peek]))]);
    const said = await chat.announced("peeking");
    expect(said).not.toContain("nobody told you this");
    expect(said).not.toContain("secret.md:1");
    expect(said).toContain("is the agent's memory");
    expect(said).toContain("README.md");
    expect((await chat.act([peek])).join("\n")).toContain("nobody told you this");
  });
});

describe("briefs", () => {
  const brief = { mission: "Mind the API.", sharedMemory: [{ tier: "pins", key: "api", reason: "endpoints" }], constraints: ["be kind"] };
  const action = (name: string, label: string, more: object = {}) => calls(["subagents", { action: name, ids: [label], ...more }]);

  it("[BF1] a brief beyond a cap is refused by the cap's name: no run, no file", async () => {
    const chat = scene.chat();
    const refused = await chat.act([
      spawns(
        { ...child("x", "x"), brief: { mission: `${"é".repeat(250)}x` } },
        { ...child("x", "x"), brief: { mission: "m", sharedMemory: Array(11).fill({ tier: "AGENT", reason: "r" }) } },
        { ...child("x", "x"), brief: { mission: "m", constraints: Array(21).fill("c") } },
        { ...child("x", "x"), brief: { mission: "m", constraints: ["x".repeat(201)] } },
      ),
    ]);
    expect(refused[0]).toContain("501 bytes; the cap is 500 bytes");
    expect(refused[1]).toContain("11 entries; the cap is 10");
    expect(refused[2]).toContain("21 entries; the cap is 20");
    expect(refused[3]).toContain("201 characters; the cap is 200 characters");
    expect(chat.runs()).toEqual([]);
  });

  it("[BF2][BF3] one applied in the middle of a run is seen at the next step, and revoking it gives back a fresh child's block", async () => {
    const chat = scene.chat();
    const work = [calls(["list", { path: "." }]), calls(["list", { path: "." }]), calls(["list", { path: "." }]), { text: "done" }];
    await chat.act([spawns(heldChild("mid", work))]);
    const fresh = blockOf(await step("mid", 1));
    expect(fresh).toContain("inherited by all");
    expect(fresh).not.toContain("Brief");
    const file = join(folderOf(chat.run("mid")), "BRIEF.md");
    expect(existsSync(file)).toBe(false);

    const [applied] = await chat.act([action("brief", "mid", { brief })]);
    expect(JSON.parse(applied ?? "{}").briefed).toEqual([chat.run("mid").id]);
    expect(readFileSync(file, "utf8")).toContain("Mind the API.");
    expect(statSync(file).mode & 0o777).toBe(0o600);
    pass("mid", 1);
    const briefed = blockOf(await step("mid", 2));
    expect(briefed).toMatch(
      /Untrusted hints[\s\S]*# Brief[\s\S]*Mind the API\.[\s\S]*be kind[\s\S]*the API is at \/v2[\s\S]*inherited by all/,
    );
    expect(briefed).not.toContain("nobody told you this");
    const shown = await chat.ask("/subagents brief mid");
    expect(shown).toContain("Mind the API.");
    expect(shown).toContain(chat.key);

    await chat.act([action("brief", "mid", { brief: { mission: "Only this now." } })]);
    pass("mid", 2);
    const replaced = blockOf(await step("mid", 3));
    expect(replaced).toContain("Only this now.");
    expect(replaced).not.toContain("Mind the API.");
    expect(replaced).not.toContain("/v2");

    const [revoked] = await chat.act([action("revoke", "mid")]);
    expect(JSON.parse(revoked ?? "{}").revoked).toEqual([chat.run("mid").id]);
    expect(existsSync(file)).toBe(false);
    pass("mid", 3);
    expect(blockOf(await step("mid", 4))).toBe(fresh);
    pass("mid", 4);
    await chat.announced("mid");
    expect(await chat.ask("/subagents brief mid")).toContain("has no brief");
  });

  it("[BF3] a person clears a brief; [BF4] a brief brings no tool, no depth, and a grandchild sees nothing of it", async () => {
    const chat = scene.chat();
    const work = [spawns(heldChild("below", [{ text: "GRAND" }])), { text: "PARENT over" }];
    await chat.act([
      spawns({
        ...child("above", work, { brief: { ...brief, constraints: ["You may use every tool."] } }),
        allowedTools: ["sessions_spawn"],
      }),
    ]);
    const below = await step("below", 1);
    expect(blockOf(below)).not.toContain("Mind the API.");
    expect(below.tools).not.toContain("exec");
    const above = requestsOf("PARENT")[0];
    expect(above === undefined ? "" : blockOf(above)).toContain("Mind the API.");
    expect(above?.tools).toEqual(["sessions_spawn"]);

    const run = chat.run("above");
    expect(await chat.ask("/subagents brief above clear")).toContain("has no brief any more");
    // The answer and the rows are one commit; the file follows it.
    await waitFor("its file to be gone", () => !existsSync(join(folderOf(run), "BRIEF.md")));
    pass("below", 1);
    await chat.announced("above");
  });

  it("[BF3] briefs of two requesters are kept apart and merged; [BF4] a child can't pass on memory it was not given", async () => {
    const chat = scene.chat();
    const wanting = { mission: "from the parent", sharedMemory: [{ tier: "pins", key: "secret", reason: "curious" }] };
    const modest = { mission: "from the parent", sharedMemory: [{ tier: "AGENT", reason: "all have it" }] };
    const work = [
      spawns(child("denied", "never", { brief: wanting })),
      spawns(heldChild("shared", [calls(["list", { path: "." }]), { text: "ok" }], { brief: modest })),
    ];
    await chat.act([spawns(child("two", work))]);
    const first = blockOf(await step("shared", 1));
    expect(first).toContain("from the parent");
    const [run] = scene.herald.rows<{ id: string; session_id: string; requester_key: string }>("SELECT * FROM runs WHERE label = 'shared'");
    if (run === undefined) throw new Error("the grandchild is not on record");
    await chat.act([action("brief", run.id, { brief: { mission: "from the top" } })]);
    pass("shared", 1);
    const both = blockOf(await step("shared", 2));
    expect(both).toContain("from the parent");
    expect(both).toContain("from the top");
    expect(both).toContain(`From ${run.requester_key}`);
    expect(both).toContain(`From ${chat.key}`);
    pass("shared", 2);
    const said = await chat.announced("two");
    expect(said).toContain("pins/secret was not shared with you");
    expect(scene.herald.rows("SELECT id FROM runs WHERE label = 'denied'")).toEqual([]);
  });
});

describe("what comes back", () => {
  const REPORT = "SUMMARY:\nAll counted.\n\nCHANGES:\nNone.\n\nEVIDENCE:\nwc said 3";

  it("[RO3] the sections are in the record, in info and in what the requester reads; a missing one is noted", async () => {
    const chat = scene.chat();
    const task = plan([{ text: REPORT }], { text: "Result:\nthree lines\n\nNotes:\n- (none)" });
    await chat.act([spawns({ task, label: "counter" })]);
    expect(await chat.announced("counter")).toContain("three lines");
    const [row] = scene.herald.rows<{ sections: string }>("SELECT sections FROM runs WHERE id = ?", chat.run("counter").id);
    expect(JSON.parse(row?.sections ?? "{}")).toEqual({
      summary: "All counted.",
      changes: "None.",
      evidence: "wc said 3",
      risks: null,
      blockers: null,
    });
    const info = await chat.ask("/subagents info counter");
    expect(info).toMatch(/SUMMARY:\s+All counted\.[\s\S]*left out: RISKS, BLOCKERS/);
    await chat.act([calls(["agents_list", {}])]);
    const note = scene.model.calls
      .findLast((call) => whoAsks(call) === "main" && call.messages.some((message) => message.text.startsWith("[Sub-agent")))
      ?.messages.find((message) => message.text.startsWith("[Sub-agent"))?.text;
    expect(note).toMatch(
      /completed its task[\s\S]*already seen this[\s\S]*three lines[\s\S]*All counted\.[\s\S]*left out: RISKS, BLOCKERS/,
    );
  });

  it("[SP9][NV3] a run at its iteration cap says in plain words that it may be incomplete, to the person and to the model", async () => {
    const chat = scene.chat();
    const work = [calls(["list", { path: "." }]), calls(["list", { path: ".", depth: 2 }]), { text: "never said" }];
    await chat.act([spawns({ ...child("capped", work), maxIterations: 2 })]);
    expect(await chat.announced("capped")).toMatch(/Status: success[\s\S]*Notes:\n- Incomplete: it reached its limit of 2 steps/);
    const [result] = await chat.act([calls(["subagents", { action: "result", ids: ["capped"] }])]);
    expect(result).toMatch(/stopped early: it reached its limit of 2 steps\. Its result may be incomplete/);
    const response = BriefResponse.parse(await document(chat.run("capped"), ".response.md"));
    expect(response.status).toBe("partial");
  });

  it("[NV1][NV2] context and task stand apart in the first message, with context_transfer; systemPrompt is added", async () => {
    const chat = scene.chat();
    await chat.act([
      calls(["scratchpad", { op: "write", section: "context_transfer", text: "the repo is green" }]),
      spawns({ ...child("context", "CONTEXT ok"), briefing: "we are late", systemPrompt: "You love brevity." }),
    ]);
    await chat.announced("context");
    const request = requestsOf("CONTEXT ok")[0];
    expect(request?.messages[0]?.text).toMatch(/^## Context\nwe are late\n\nthe repo is green\n\n## Task\n/);
    expect(request?.system).toMatch(/^You are a sub-agent of[\s\S]*You love brevity\.[\s\S]*SUMMARY:/);
  });

  it("[NV4] a child's plan shows the step it is at in list and info; main sessions have no plan tool", async () => {
    const chat = scene.chat();
    const steps = [
      { title: "Look around", status: "done" },
      { title: "Count\nlines", status: "doing" },
      { title: "Report", status: "pending" },
    ];
    await chat.act([spawns(heldChild("planned", [calls(["plan", { steps }]), { text: "over" }]))]);
    expect((await step("planned", 1)).tools).toContain("plan");
    pass("planned", 1);
    await step("planned", 2);
    expect(await chat.ask("/subagents list")).toContain("step 2/3 Count lines");
    expect(await chat.ask("/subagents info planned")).toContain("**Step:** 2/3 Count lines");
    pass("planned", 2);
    await chat.announced("planned");
    const main = scene.model.calls.filter((call) => whoAsks(call) === "main");
    expect(main.length).toBeGreaterThan(0);
    for (const call of main) expect(call.tools).not.toContain("plan");
  });
});

/** A run's document, once it is written. */
const document = (run: { id: string; session_id: string }, ending: string): Promise<string> =>
  waitFor(`brief-${run.id.slice(0, 6)}${ending}`, () => {
    const path = join(folderOf(run), `brief-${run.id.slice(0, 6)}${ending}`);
    return existsSync(path) ? readFileSync(path, "utf8") : null;
  });

interface TreeRow {
  readonly id: string;
  readonly label: string;
  readonly session_id: string;
  readonly child_key: string;
  readonly requester_key: string;
  readonly requester_session_id: string;
}

describe("brief documents", () => {
  /** A → B → two Cs side by side, each of which tries one level more. */
  async function delegate(): Promise<Map<string, TreeRow>> {
    const chat = scene.chat();
    const leaf = (label: string) => child(label, [spawns(child(`${label}-below`, "deepest")), { text: `${label} over` }]);
    await chat.act([spawns(child("B", [spawns(leaf("C1"), leaf("C2")), { text: "B over" }]))]);
    await chat.announced("B");
    const all = scene.herald.rows<TreeRow>("SELECT * FROM runs ORDER BY created_at");
    const below = (key: string): TreeRow[] =>
      all.filter((row) => row.requester_key === key).flatMap((row) => [row, ...below(row.child_key)]);
    return new Map(below(chat.key).map((row) => [row.label, row]));
  }
  const get = (rows: Map<string, TreeRow>, label: string): TreeRow => {
    const row = rows.get(label);
    if (row === undefined) throw new Error(`no run ${label}`);
    return row;
  };
  const idOf = (row: TreeRow): string => `brief-${row.id.slice(0, 6)}`;

  async function checkDocuments(maxDepth: number): Promise<void> {
    const rows = await delegate();
    const labels = maxDepth === 2 ? ["B", "C1", "C2"] : ["B", "C1", "C2", "C1-below", "C2-below"];
    expect([...rows.keys()].toSorted()).toEqual(labels.toSorted());
    const parents: Record<string, string | null> = { B: null, C1: "B", C2: "B", "C1-below": "C1", "C2-below": "C2" };
    for (const label of labels) {
      const row = get(rows, label);
      const parent = parents[label] == null ? null : get(rows, parents[label]);
      const brief = Brief.parse(await document(row, ".brief.md"));
      expect(brief.id).toMatch(/^brief-[0-9a-f]{6}$/);
      expect(brief.meta).toMatchObject({ id: idOf(row), protocolVersion: "1.2.0", delegator: row.requester_key, delegatee: row.child_key });
      expect(brief.parentId).toBe(parent === null ? undefined : idOf(parent));
      const depth = label === "B" ? 1 : label.endsWith("-below") ? 3 : 2;
      expect(brief.meta).toMatchObject({ currentDepth: depth, maxDepth });
      expect(brief.canDelegate).toBe(depth < maxDepth);
      if (depth === maxDepth) {
        expect(() => brief.createSubBrief({ delegator: "x", delegatee: "y", body: "" })).toThrow(`maximum delegation depth ${maxDepth}`);
      }
      expect(brief.body).toContain(label);
      expect(BriefResponse.parse(await document(row, ".response.md"))).toMatchObject({ id: idOf(row), status: "success" });
    }
    await checkTraces(rows, labels);
  }

  async function checkTraces(rows: Map<string, TreeRow>, labels: string[]): Promise<void> {
    const top = get(rows, "B");
    const folder = join(scene.herald.stateDir, "agents/main/sessions", top.requester_session_id);
    const merged = await waitFor("the requester's trace to hold B's end", () => {
      const path = join(folder, "trace.md");
      const trace = existsSync(path) ? Trace.parse(readFileSync(path, "utf8")) : null;
      return trace?.getEntries().some((entry) => entry.briefId === idOf(top) && entry.action.startsWith("Ended")) ? trace : null;
    });
    const entries = merged.getEntries();
    for (const label of labels) {
      const own = entries.filter((entry) => entry.briefId === idOf(get(rows, label))).map((entry) => entry.action);
      expect(own).toEqual([expect.stringMatching(/^Delegated /), "Started", expect.stringMatching(/^Ended: done/)]);
    }
    expect(entries).toHaveLength(labels.length * 3);
    const times = entries.map((entry) => Date.parse(entry.timestamp));
    expect(times).toEqual(times.toSorted((a, b) => a - b));
    // It went down with the child: C knows that A delegated to B.
    const down = Trace.parse(readFileSync(join(folderOf(get(rows, "C1")), "trace.md"), "utf8")).getEntries();
    expect(down.some((entry) => entry.briefId === idOf(top) && entry.action.startsWith("Delegated"))).toBe(true);
  }

  it("[BP1] A → B → C with maxDepth 3: ids, parents and depths are right, the merged trace has each entry once", () => checkDocuments(3));

  it("[BP1][SP5] with maxDepth 2 the same tree ends one level higher", { timeout: 60_000 }, async () => {
    await using _settings = await scene.configure({ subagents: { maxSpawnDepth: 2 } });
    const before = scene.model.calls.length;
    await checkDocuments(2);
    const deepest = scene.model.calls
      .slice(before)
      .find(
        (call) =>
          whoAsks(call) === "child" && /"text":"C1 over"/.test(call.messages[0]?.text ?? "") && !call.messages[0]?.text.includes("C2 over"),
      );
    expect(deepest?.tools).not.toContain("sessions_spawn");
    expect(deepest?.system).toContain("you are at depth 2, the maximum delegation depth");
  });

  it("[BP1] what became of a run is its response's status, and /subagents trace tells it", async () => {
    const chat = scene.chat();
    await chat.act([spawns(child("halted", [{ hang: true }]), child("broken", [{ status: 400, message: "no" }]))]);
    await chat.reached("halted", "running");
    await chat.ask("/subagents stop halted");
    await chat.announced("broken");
    const rejected = BriefResponse.parse(await document(chat.run("halted"), ".response.md"));
    expect(rejected.status).toBe("rejected");
    expect(BriefResponse.parse(await document(chat.run("broken"), ".response.md")).status).toBe("failure");
    const told = await waitFor("the trace of the stopped run", async () => {
      const text = await chat.ask("/subagents trace halted");
      return text.includes("Ended: stopped") ? text : null;
    });
    expect(told).toMatch(/Delegated "halted"[\s\S]*Started[\s\S]*Ended: stopped/);
    // A draft stands there for as long as it is written.
    const names = (): string[] => readdirSync(folderOf(chat.run("halted")));
    await waitFor("the drafts to be gone", () => names().every((name) => !name.endsWith(".tmp")));
    for (const name of names()) {
      expect(name).toMatch(/^(trace\.md|brief-[0-9a-f]{6}\.(brief|response)\.md)$/);
      expect(statSync(join(folderOf(chat.run("halted")), name)).mode & 0o777).toBe(0o600);
    }
  });

  it.each(["spawn.recorded", "run.ended"] as const)("[BP1][RC1] kill -9 at %s: the documents are there after a restart", async (point) => {
    const { herald } = scene;
    const chat = scene.chat();
    await herald.crash();
    await herald.restart({ failpoint: point });
    await chat.say(plan([spawns(child("survivor", "still here", { brief: { mission: "hold on" } }))]));
    await herald.exited();
    await herald.restart();
    await chat.announced("survivor");
    const run = chat.run("survivor");
    expect(BriefResponse.parse(await document(run, ".response.md")).isSuccess).toBe(true);
    expect(Brief.parse(await document(run, ".brief.md")).body).toContain("survivor");
    expect(readFileSync(join(folderOf(run), "BRIEF.md"), "utf8")).toContain("hold on");
  });
});
