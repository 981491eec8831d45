// What commands use together is limited, whatever it is they use; each test sets a limit a small command can pass.
import { existsSync, readdirSync } from "node:fs";
import { statfs, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { silentLogger } from "../../../src/core/logger.ts";
import type { ToolResult } from "../../../src/core/tool.ts";
import { createAtMost } from "../../../src/tools/at-most.ts";
import { createExecTool } from "../../../src/tools/exec.ts";
import { findOnPath } from "../../../src/tools/find-on-path.ts";
import { detectSandbox } from "../../../src/tools/sandbox.ts";
import { createToolBench, EXEC_DEFAULTS, type ToolBench } from "../../support/tool-bench.ts";
import { waitFor } from "../../support/wait.ts";

const sandbox = await detectSandbox({ log: silentLogger });
const why = sandbox.available ? "" : ` (skipped: ${sandbox.reason})`;
const MB = 1024 * 1024;

let bench: ToolBench;
beforeEach(async () => {
  bench = await createToolBench();
});
afterEach(() => bench.remove());

const execWith = (limits: Partial<typeof EXEC_DEFAULTS.limits>, maxConcurrent = 8) =>
  createExecTool({ sandbox, ...EXEC_DEFAULTS, maxConcurrent, limits: { ...EXEC_DEFAULTS.limits, ...limits } });
const has = (name: string): boolean => existsSync(join(bench.workspace, name));
const ended = (reason: string) => ({ isError: true, text: expect.stringMatching(`\\[ended because ${reason}`) });
const done = { text: expect.stringMatching(/\[exit code 0/) };
/** Holds so many bytes of its own until it is told to go. */
const hold = (megabytes: number, name: string) =>
  `perl -e 'my $x = ""; vec($x, ${megabytes * MB}, 8) = 1; open F, ">${name}"; close F; select(undef, undef, undef, 0.05) until -e "go"'`;

describe.skipIf(!sandbox.available)(`what commands use together${why}`, () => {
  it("[TL10] memory counts over all of them, and the one that holds the most ends", async () => {
    const exec = execWith({ memoryBytes: 400 * MB });
    const small = bench.call(exec, { command: hold(120, "small"), timeoutSeconds: 20 });
    const large = bench.call(exec, { command: hold(200, "large"), timeoutSeconds: 20 });
    await waitFor("both to hold theirs", () => has("small") && has("large"));
    const late = bench.call(exec, { command: hold(120, "late"), timeoutSeconds: 20 });
    expect(await large).toMatchObject(ended("the running commands together took more than 400.0 MB of memory.*memoryMegabytes"));
    await waitFor("the late one to hold its own", () => has("late"));
    await bench.call(exec, { command: "touch go" });
    expect([await small, await late]).toMatchObject([done, done]);
  });

  it.each(["/tmp", "/dev/shm", "/scratch"])("[TL10] files in %s are memory, empty ones too", async (folder) => {
    const exec = execWith({ memoryBytes: 60 * MB });
    const call = (command: string) => bench.call(exec, { command, timeoutSeconds: 20 }, { readOnly: folder === "/scratch" });
    const big = call(`head -c 100000000 /dev/zero > ${folder}/x; sleep 15`);
    expect(await big).toMatchObject(ended(".*more than 60.0 MB of memory"));
    const many = call(`perl -e 'for my $n (1..70000) { open F, ">${folder}/$n"; close F } sleep 15'`);
    expect(await many).toMatchObject(ended(".*more than 60.0 MB of memory"));
  });

  it("[TL10] shared memory counts, also when its pages were let go of and show in no process", async (test) => {
    if (findOnPath("python3", "/usr/bin") === null) return test.skip("no python3 here");
    const exec = execWith({ memoryBytes: 300 * MB });
    const script =
      "import mmap,time\nm=mmap.mmap(-1,400<<20)\nfor n in range(100):\n  m[n<<22:(n+1)<<22]=b'x'*(1<<22)\n  m.madvise(mmap.MADV_DONTNEED)\ntime.sleep(15)";
    expect(await bench.call(exec, { command: ["python3", "-c", script], timeoutSeconds: 20 })).toMatchObject(ended(".*of memory"));
  });

  it("[TL10] the tables the kernel keeps for a mapping count, though nothing is in it", async (test) => {
    if (findOnPath("python3", "/usr/bin") === null) return test.skip("no python3 here");
    const exec = execWith({ memoryBytes: 100 * MB });
    // One byte read of each 2 MB: a page of tables each, and always the same page of zeros.
    const script =
      "import mmap,time\nm=mmap.mmap(-1,80<<30,flags=mmap.MAP_PRIVATE|mmap.MAP_ANONYMOUS|0x4000,prot=mmap.PROT_READ)\nm.madvise(mmap.MADV_NOHUGEPAGE)\nfor n in range(40000):\n  m[n<<21]\ntime.sleep(15)";
    expect(await bench.call(exec, { command: ["python3", "-c", script], timeoutSeconds: 20 })).toMatchObject(ended(".*of memory"));
  });

  it("[TL10] when the machine is short of memory the largest one ends, and the kernel would take it first", async () => {
    const short = await bench.call(execWith({ freeMemoryBytes: Number.MAX_SAFE_INTEGER }), { command: "sleep 15", timeoutSeconds: 20 });
    expect(short).toMatchObject(ended("the machine had less than .* of memory left"));
    const command = "until test $(cat /proc/self/oom_score_adj) = 1000; do sleep 0.1; done";
    expect(await bench.call(execWith({}), { command, timeoutSeconds: 5 })).toMatchObject(done);
  });

  // Here and below: others use this disk too, and may take or give back a lot of it in just this second.
  it("[TL10] what is added to the disk counts over all of them, written twice or held by others it does not", { retry: 3 }, async () => {
    const exec = execWith({ diskBytes: 100 * MB });
    // 40 MB again and again in one place, and 300 MB through a pipe.
    const busy =
      "for n in 1 2 3 4 5 6; do head -c 40000000 /dev/zero > same; done; head -c 300000000 /dev/zero | wc -c; touch busy; until test -e go; do sleep 0.1; done";
    const first = bench.call(exec, { command: busy, timeoutSeconds: 20 });
    // Somebody else on the same disk, who writes more than the limit meanwhile.
    const other = await createToolBench();
    for (let n = 0; n < 8; n++) await writeFile(join(other.workspace, `${n}`), Buffer.alloc(60 * MB, n));
    await waitFor("the first to have written", () => has("busy"), 15_000);
    await other.remove();
    const fill = "for n in $(seq 50); do head -c 20000000 /dev/zero > part$n; sleep 0.1; done";
    expect(await bench.call(exec, { command: fill, timeoutSeconds: 20 })).toMatchObject(
      ended(".*added more than 100.0 MB to the disk.*diskMegabytes"),
    );
    await bench.call(exec, { command: "rm part*; touch go" });
    expect(await first).toMatchObject(done);
  });

  it.each([
    ["in files", "open F, '>', \"s$n\"; print F $b for 1..20; exit"],
    ["in a file that was there before", "open F, '>>', 'old'; print F $b for 1..20; exit"],
    ["in a file without a name, which its parent holds", "print H $b for 1..20; close H; exit"],
  ])("[TL10] what is written by processes whose parent waits for none counts, %s", { retry: 3 }, async (_, write) => {
    await writeFile(join(bench.workspace, "old"), "");
    const exec = execWith({ diskBytes: 100 * MB });
    const script = `$SIG{CHLD} = 'IGNORE'; open H, '>', 'held'; unlink 'held'; my $b = 'x' x 1048576; for my $n (1..40) { if (fork() == 0) { ${write} } select(undef, undef, undef, 0.15) }`;
    expect(await bench.call(exec, { command: ["perl", "-e", script], timeoutSeconds: 30 })).toMatchObject(ended(".*to the disk"));
  });

  it("[TL10] a command ends when it makes more files than it may; those that were there don't count", async () => {
    const exec = execWith({ files: 1000 });
    const make = (count: number) => `mkdir -p d; for n in $(seq ${count}); do : > d/$RANDOM-$n; done`;
    expect(await bench.call(exec, { command: make(900) })).toMatchObject(done);
    const few = bench.call(exec, { command: "touch few; sleep 2.5" });
    expect(await few).toMatchObject(done);
    const many = bench.call(exec, { command: `${make(1100)}; sleep 15`, timeoutSeconds: 20 });
    expect(await many).toMatchObject(ended("it made more than 1000 files.*maxFiles"));
  });

  it("[TL10] files in folders nested deeper than a path is long are not overlooked", async () => {
    const deep = "my $d = 'd' x 250; for (1..18) { mkdir $d; chdir $d } for my $n (1..1100) { open F, '>', $n; close F } sleep 15";
    const many = bench.call(execWith({ files: 1000 }), { command: ["perl", "-e", deep], timeoutSeconds: 20 });
    expect(await many).toMatchObject(ended("what it has made in d+ can't be counted .*maxFiles"));
    // Who is told so can put it right, also with the next command.
    expect(await bench.call(execWith({ files: 1000 }), { command: "rm -r d*" })).toMatchObject(done);
  });

  it.skipIf(process.getuid?.() === 0)("[TL10] nor those in a folder that was closed (root looks into any)", async () => {
    const command = "mkdir shut; touch shut/x; chmod 300 shut; sleep 15";
    const closed = bench.call(execWith({}), { command, timeoutSeconds: 20 });
    expect(await closed).toMatchObject(ended("what it has made in shut can't be counted"));
    await bench.call(execWith({}), { command: "chmod 700 shut" });
  });

  it("[TL10] below the floor of free disk nothing that could write is run", async () => {
    const { bavail, bsize } = await statfs(bench.workspace);
    const exec = execWith({ freeDiskBytes: bavail * bsize * 2 });
    const none = await bench.call(exec, { command: "touch ran" });
    expect(none).toMatchObject({
      isError: true,
      text: expect.stringMatching(/^The command was not run: less than .* of the disk is free/),
    });
    expect(readdirSync(bench.workspace)).toEqual([]);
    // Who only reads can go on: nothing of it is on the disk.
    expect(await bench.call(exec, { command: "ls" }, { readOnly: true })).toMatchObject(done);
  });

  it("[TL10] a command is ended when the disk comes to the floor, whoever fills it", { retry: 3 }, async () => {
    const { bavail, bsize } = await statfs(bench.workspace);
    const exec = execWith({ freeDiskBytes: bavail * bsize - 50 * MB });
    // Looked at several times by then, it has written nothing lately.
    const running = bench.call(exec, { command: "sleep 15", timeoutSeconds: 20 });
    expect(await bench.call(exec, { command: "sleep 1.5" })).toMatchObject(done);
    await writeFile(join(bench.outer, "full"), Buffer.alloc(150 * MB, 1));
    expect(await running).toMatchObject(ended("less than .* of the disk is free"));
  });

  it("[TL10] a command that writes is ended when it comes to the floor", { retry: 3 }, async () => {
    const { bavail, bsize } = await statfs(bench.workspace);
    const exec = execWith({ freeDiskBytes: bavail * bsize - 50 * MB });
    const command = "for n in $(seq 10); do head -c 20000000 /dev/zero > part$n; sleep 0.1; done; sleep 15";
    expect(await bench.call(exec, { command, timeoutSeconds: 20 })).toMatchObject(ended("less than .* of the disk is free"));
  });
});

describe.skipIf(!sandbox.available)(`commands at the same time${why}`, () => {
  it("[TL10] are so many and no more, the rest wait; one place is kept for main sessions; a stop takes one out of the line", async () => {
    const exec = execWith({}, 2);
    const until = (name: string) => ({ command: `touch ${name}; until test -e go; do sleep 0.05; done`, timeoutSeconds: 20 });
    const seen: string[] = [];
    const child = (name: string, over = {}) =>
      bench.call(exec, until(name), { runId: "run", progress: (line: string) => seen.push(line), ...over });
    const stop = new AbortController();
    const children = [child("a"), child("b"), child("c", { signal: stop.signal })];
    await waitFor("the first to run", () => has("a"));
    expect(seen).toEqual(Array(2).fill("waiting until one of 2 running commands has ended"));
    const main = bench.call(exec, until("main"));
    await waitFor("the main session's to run", () => has("main"));
    stop.abort();
    expect(await children[2]).toMatchObject({ isError: true, text: expect.stringContaining("stopped") });
    expect(["b", "c"].filter(has)).toEqual([]);
    await writeFile(join(bench.workspace, "go"), "");
    const results: ToolResult[] = await Promise.all([children[0], children[1], main] as Promise<ToolResult>[]);
    expect(results).toMatchObject([done, done, done]);
    expect(has("b")).toBe(true);
  });
});

describe("at most so many at a time", () => {
  it("[TL10] in the order they came, also when some give up or fail", async () => {
    const atMost = createAtMost(2);
    const order: string[] = [];
    const gates = new Map<string, PromiseWithResolvers<void>>();
    const signal = new AbortController().signal;
    const enter = (name: string, own = signal) =>
      atMost({ signal: own }, async () => {
        order.push(name);
        const gate = Promise.withResolvers<void>();
        gates.set(name, gate);
        await gate.promise;
      });
    const stop = new AbortController();
    const first = enter("a");
    const second = enter("b").catch(() => "failed");
    const third = enter("c", stop.signal);
    const fourth = enter("d");
    const fifth = enter("e");
    expect(order).toEqual(["a", "b"]);
    gates.get("b")?.reject(new Error("it failed"));
    expect(await second).toBe("failed");
    expect(order).toEqual(["a", "b", "c"]);
    const given = enter("f", stop.signal);
    stop.abort();
    await waitFor("who gave up to be let through", () => order.includes("f"));
    gates.get("f")?.resolve();
    await given;
    gates.get("a")?.resolve();
    await first;
    expect(order).toEqual(["a", "b", "c", "f", "d"]);
    for (const name of ["c", "d"]) gates.get(name)?.resolve();
    await Promise.all([third, fourth]);
    await waitFor("the last one", () => order.includes("e"));
    gates.get("e")?.resolve();
    await fifth;
  });
});
