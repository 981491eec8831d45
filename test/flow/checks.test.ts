// Completion checks against the real process: what a child claims counts only once the runtime has seen it (EV1, EV2).
import { execFileSync } from "node:child_process";
import { mkdirSync, readdirSync, readFileSync, symlinkSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { afterAll, afterEach, beforeAll, describe, expect, it } from "vitest";
import { calls, child, spawns, whoAsks } from "../support/brain.ts";
import { NODE } from "../support/harness.ts";
import { isShared } from "../support/nodes.ts";
import { createScene, type Scene } from "../support/scene.ts";
import { waitFor } from "../support/wait.ts";

let scene: Scene;
beforeAll(async () => {
  scene = await createScene({ subagents: { maxConcurrent: 20, maxChildrenPerSession: 60 } });
});
afterEach(async () => scene.calm());
afterAll(async () => scene[Symbol.asyncDispose]());

const workspace = (): string => join(scene.herald.stateDir, "workspace");

interface RunFound {
  readonly checks: string | null;
  readonly check_rounds: number;
}
const found = (id: string): RunFound =>
  scene.herald.rows<RunFound>("SELECT checks, check_rounds FROM runs WHERE id = ?", id)[0] ?? { checks: null, check_rounds: -1 };

/** What a child was told by the runtime, oldest first. */
const returns = (sessionId: string): string[] =>
  scene
    .transcripts("main", sessionId)
    .flatMap((text) => text.split("\n"))
    .filter((line) => line.includes('"from":"runtime"') && line.includes("The gateway checked your work"));

describe("[EV2] a child that claims success", () => {
  it("[EV2] without the file: two rounds, then error naming the check, its last text announced", async () => {
    const chat = scene.chat();
    const steps = [{ text: "All done, promise." }, { text: "Really done." }, { text: "It is done, look." }];
    await chat.act([spawns(child("claims", steps, { checks: [{ exists: "claimed.md" }, { result: { minLength: 5 } }] }))]);
    const text = await chat.announced("claims");
    expect(text).toMatch(/^Status: error$/m);
    expect(text).toContain("It is done, look.");
    expect(text).toMatch(
      /^Notes:\nChecks: 1 of 2 passed\n- It failed: 1 of 2 checks failed: "exists claimed.md" \(there is no such file\)/m,
    );
    const { id, session_id, state } = chat.run("claims");
    expect(state).toBe("error");
    expect(found(id).check_rounds).toBe(2);
    expect(returns(session_id)).toHaveLength(2);
    expect(await chat.ask("/subagents info claims")).toMatch(
      /\*\*Checks:\*\* 1 of 2 passed[\s\S]*✗ exists claimed.md: there is no such file/,
    );
  });

  it("[EV2][RP1] once more: the same checks are run; the response document lists them with their output", async () => {
    const chat = scene.chat();
    const checks = [{ command: "echo seen by nobody; false" }];
    await chat.act([spawns(child("again", "done", { checks, checkRounds: 0 }))]);
    await chat.announced("again");
    const { id } = chat.run("again");
    await chat.ask("/subagents rerun again");
    await waitFor("the second one to end", () => chat.runs().filter(({ state }) => state === "error").length === 2);
    expect(chat.runs().map((run) => found(run.id).checks)).toEqual([1, 2].map(() => expect.stringContaining("seen by nobody")));
    if (isShared) return;
    const folder = join(scene.herald.stateDir, "agents/main/sessions");
    const wanted = `brief-${id.slice(0, 6)}.response.md`;
    const path = await waitFor("the response document", () =>
      (readdirSync(folder, { recursive: true }) as string[]).find((name) => name.endsWith(wanted)),
    );
    const text = readFileSync(join(folder, path), "utf8");
    expect(text).toMatch(
      /^status: failure$[\s\S]*## Checks\n\nChecks: 0 of 1 passed\n\n- ✗ command echo seen by nobody; false: exit code 1/m,
    );
    expect(text).toContain("```\nseen by nobody\n```");
  });

  it("[EV2] and is made to fix it: success, Notes begin with Checks: 2 of 2 passed", async () => {
    const chat = scene.chat();
    const steps = [
      { text: "All done, promise." },
      calls(["write", { path: "fixed.md", content: "Total: 7\n" }]),
      { text: "Now it is there: the total is 7." },
    ];
    const checks = [{ contains: { path: "fixed.md", regex: "^Total: \\d+$" } }, { result: { matches: "total is \\d" } }];
    await chat.act([spawns(child("fixes", steps, { checks }))]);
    const text = await chat.announced("fixes");
    expect(text).toMatch(/^Status: success$/m);
    expect(text).toMatch(/^Notes:\nChecks: 2 of 2 passed$/m);
    const { id, session_id } = chat.run("fixes");
    expect(found(id).check_rounds).toBe(1);
    expect(returns(session_id)).toHaveLength(1);
    const system = scene.model.calls.find((request) => whoAsks(request) === "child" && request.system.includes("fixed.md"))?.system;
    expect(system).toContain("the gateway itself checks your work");
    const [told] = scene.model.calls.filter((request) => request.messages.some(({ text }) => text.includes('"contains fixed.md')));
    expect(told?.messages.at(-1)?.text).toMatch(/2 of 2 checks failed.*It can come back 1 more time/);
  });
});

describe("[EV1] what is looked at", () => {
  it("[EV1] CHK-001 paths that lead out, links and FIFOs: refused at spawn or failed alike, nothing hangs, nothing is told", async () => {
    const chat = scene.chat();
    for (const path of ["../../etc/passwd", "/etc/passwd", "a\0b"]) {
      const [answer] = await chat.act([spawns(child("never", "x", { checks: [{ exists: path }] }))]);
      expect(answer).toMatch(/not a check: .*inside the workspace/);
    }
    expect(chat.runs()).toEqual([]);
    mkdirSync(join(workspace(), "links"), { recursive: true });
    symlinkSync("/etc/passwd", join(workspace(), "links/there"));
    symlinkSync("/etc/no-such-file-at-all", join(workspace(), "links/not-there"));
    symlinkSync("/etc", join(workspace(), "links/folder"));
    writeFileSync(join(workspace(), "links/plain"), "plain");
    execFileSync("sh", ["-c", 'mkfifo "$0"', join(workspace(), "links/fifo")]);
    const checks = [
      ...["links/there", "links/not-there", "links/folder/passwd", "links/folder/nothing-here"].flatMap((path) => [
        { exists: path },
        { contains: { path, text: "root" } },
      ]),
      { contains: { path: "links/fifo", text: "x" } },
      { exists: "links/fifo" },
    ];
    await chat.act([spawns(child("outside", "done", { checks, checkRounds: 0 }))]);
    await chat.announced("outside");
    const results = JSON.parse(found(chat.run("outside").id).checks ?? "[]") as { passed: boolean; why: string }[];
    expect(results.map(({ passed }) => passed)).toEqual(Array(10).fill(false));
    expect(new Set(results.slice(0, 8).map(({ why }) => why)).size).toBe(1);
    expect(results[0]?.why).toMatch(/^outside the workspace/);
    expect(results[8]?.why).toMatch(/not a regular file/);
  });

  it("[EV1] a pattern that never ends fails within its time; one that is none, and checks that are none, are refused at spawn", async () => {
    const chat = scene.chat();
    const wrong = [
      { contains: { path: "a", regex: "(" } },
      { contains: { path: "a", text: "x", regex: "x" } },
      { exist: "a" },
      { result: {} },
    ];
    for (const check of wrong) {
      const [answer] = await chat.act([spawns(child("never", "x", { checks: [check] }))]);
      expect(answer).toContain("not a check");
    }
    const [many] = await chat.act([spawns(child("never", "x", { checks: Array(11).fill({ exists: "a" }) }))]);
    expect(many).toMatch(/checks/);
    expect(chat.runs()).toEqual([]);
    writeFileSync(join(workspace(), "endless.txt"), `${"a".repeat(50_000)}!`);
    const checks = [{ contains: { path: "endless.txt", regex: "^(a+)+$" } }, { contains: { path: "endless.txt", regex: "a!$" } }];
    await chat.act([spawns(child("endless", "done", { checks, checkRounds: 0 }))]);
    expect(await chat.announced("endless")).toMatch(/1 of 2 checks failed: "contains endless.txt.*takes too long/);
  });

  it("[EV2] what stopped early is checked, but nothing goes back to it: its steps are used up", async () => {
    const chat = scene.chat();
    const steps = [calls(["list", { path: "." }]), calls(["list", { path: "./" }]), { text: "never" }];
    await chat.act([
      spawns(
        child("capped", steps, { checks: [{ exists: "no-such-file" }], maxIterations: 2 }),
        child("capped well", steps, { checks: [{ exists: "." }], maxIterations: 2 }),
      ),
    ]);
    expect(await chat.announced("capped")).toMatch(/^Status: error$[\s\S]*it reached its limit of 2 steps; 1 of 1 checks failed/m);
    expect(found(chat.run("capped").id).check_rounds).toBe(0);
    expect(await chat.announced("capped well")).toMatch(
      /^Status: success$[\s\S]*^Notes:\nChecks: 1 of 1 passed\n- Incomplete: it reached its limit/m,
    );
  });
});

describe("[EV1] commands", () => {
  it("[EV1] in the sandbox, the workspace read-only, scratch writable; output goes back and is listed", async () => {
    const chat = scene.chat();
    writeFileSync(join(workspace(), "kept.txt"), "kept");
    const checks = [
      { command: "cat kept.txt && echo x > /scratch/x && cat /scratch/x" },
      { command: ["sh", "-c", "exit 3"], exitCode: 3 },
      { command: "echo broken; echo changed > kept.txt" },
    ];
    await chat.act([spawns(child("commands", [{ text: "one" }, { text: "two" }], { checks, checkRounds: 1 }))]);
    const text = await chat.announced("commands");
    expect(text).toMatch(/^Notes:\nChecks: 2 of 3 passed$/m);
    expect(readFileSync(join(workspace(), "kept.txt"), "utf8")).toBe("kept");
    const told = scene.model.calls
      .flatMap(({ messages }) => messages)
      .find(({ text: said }) => said.includes("checks failed") && said.includes("echo broken"));
    expect(told?.text).toMatch(/<untrusted [0-9a-f]{12} from="output of command echo broken[^\n]*>\nbroken\n.*Read-only file system/);
    expect(await chat.ask("/subagents info commands")).toMatch(
      /✓ command sh -c exit 3: exit code 3[\s\S]*✗ command echo broken[\s\S]*Read-only file system/,
    );
  });

  it("[EV1] CHK-003 one that deletes, fetches, forks and floods: workspace unchanged, its processes gone, output kept to a cap", async () => {
    const chat = scene.chat();
    const before = readdirSync(workspace());
    // Grows like a fork bomb, from many parents at once, but stops by itself at 1500: while the machine is busy, the look that ends it comes late.
    const bomb = "for p in $(seq 30); do (for n in $(seq 50); do sleep 1e9 & done; wait) & done";
    const command = `rm -rf . ; curl -m 2 http://example.com ; sleep 1e9 & ${bomb} ; yes flood-of-words | head -c 1000000000`;
    const checks = [{ command, timeoutSeconds: 5 }];
    const from = performance.now();
    await chat.act([spawns(child("hostile", "done", { checks, checkRounds: 0 }))]);
    expect(await chat.announced("hostile", 60_000)).toMatch(/^Status: error$/m);
    expect(performance.now() - from).toBeLessThan(60_000);
    expect(readdirSync(workspace())).toEqual(before);
    const [result] = JSON.parse(found(chat.run("hostile").id).checks ?? "[]") as { passed: boolean; why: string; output: string }[];
    expect(result).toMatchObject({ passed: false, why: expect.stringMatching(/ended because it/) });
    expect(result?.output.length).toBeLessThanOrEqual(2_001);
    // Killed, all at the lowest priority, they need a moment of a busy machine to go.
    await waitFor(
      "its processes to be gone",
      () => !/flood-of-words|sleep 1e9/.test(execFileSync("ps", ["-eo", "args"], { encoding: "utf8" })),
    );
  });

  it("[EV1] CHK-007 forty runs end at once, each with a greedy command: a few at a time, limited in sum, the gateway answers all the while", async () => {
    const subagents = { maxConcurrent: 40, maxChildrenPerSession: 60 };
    await using greedy = await createScene({ subagents, config: { tools: { exec: { memoryMegabytes: 200 } } } });
    const chat = greedy.chat();
    const checks = [{ command: "head -c 2000000000 /dev/zero | tail -c 1999999999 | wc -c", timeoutSeconds: 60 }];
    const many = Array.from({ length: 40 }, (_, n) => child(`greedy ${n}`, [{ text: "done", hold: "greedy" }], { checks, checkRounds: 0 }));
    await chat.act([spawns(...many)]);
    greedy.release("greedy");
    let most = 0;
    await waitFor(
      "all to end",
      async () => {
        most = Math.max(most, commandsOf(greedy.herald.pid()));
        return chat.runs().filter(({ ended_at }) => ended_at !== null).length === 40;
      },
      120_000,
    );
    expect(most).toBeGreaterThan(0);
    // Of four places one is kept for people's own sessions.
    expect(most).toBeLessThanOrEqual(3);
    expect(new Set(chat.runs().map(({ state }) => state))).toEqual(new Set(["error"]));
    expect(await chat.announced("greedy 39")).toMatch(/running commands together took more than 200.0 MB of memory|left/);
  }, 180_000);

  it("[EV1] CHK-007 a child that may not exec, and a tool that needs a person's yes: could not be run, never passed", async () => {
    const chat = scene.chat();
    const checks = [{ command: "true" }];
    await chat.act([spawns(child("reviewer", "fine", { checks, role: "review" }))]);
    expect(await chat.announced("reviewer")).toMatch(/^Status: error$[\s\S]*could not be run: the sub-agent may not use exec/m);
    expect(found(chat.run("reviewer").id).check_rounds).toBe(0);
    await using _ = await scene.configure({
      config: { tools: { approve: ["exec"] } },
      subagents: { maxConcurrent: 20, maxChildrenPerSession: 60 },
    });
    await chat.act([spawns(child("approved", "fine", { checks }))]);
    expect(await chat.announced("approved")).toMatch(/^Status: error$[\s\S]*could not be run: exec needs a person's yes/m);
  });

  it("[EV1] CHK-007 a machine without a sandbox: could not be run, the run ends error at once", async () => {
    await using bare = await createScene({ env: { PATH: dirname(NODE) } });
    const chat = bare.chat();
    await chat.act([spawns(child("bare", "fine", { checks: [{ command: "true" }, { exists: "." }] }))]);
    const text = await chat.announced("bare");
    expect(text).toMatch(/^Status: error$/m);
    expect(text).toMatch(/Checks: 1 of 2 passed\n- It failed: .*"command true" \(could not be run: there is no sandbox/);
  });
});

/** Commands that this process runs now. */
const commandsOf = (parent: number): number =>
  readdirSync("/proc").filter((pid) => /^\d+$/.test(pid) && /^\d+ \(bwrap\) \S (\d+)/.exec(statOf(pid))?.[1] === String(parent)).length;

const statOf = (pid: string): string => {
  try {
    return readFileSync(`/proc/${pid}/stat`, "utf8");
  } catch {
    return "";
  }
};
