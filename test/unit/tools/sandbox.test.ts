// The probes of POL-005. Each prints REACHED when it gets somewhere it must not; all are harmless even then.
import { execFile } from "node:child_process";
import { once } from "node:events";
import { readdirSync } from "node:fs";
import { chmod, mkdir, symlink, writeFile } from "node:fs/promises";
import { type AddressInfo, createServer } from "node:net";
import { join } from "node:path";
import { promisify } from "node:util";
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { silentLogger } from "../../../src/core/logger.ts";
import { createExecTool } from "../../../src/tools/exec.ts";
import { detectSandbox } from "../../../src/tools/sandbox.ts";
import { createToolBench, EXEC_DEFAULTS, type ToolBench } from "../../support/tool-bench.ts";

const sandbox = await detectSandbox({ log: silentLogger });
const why = sandbox.available ? "" : ` (skipped: ${sandbox.reason}; ${sandbox.howTo})`;
const exec = sandbox.available ? createExecTool({ sandbox, ...EXEC_DEFAULTS, envAllow: ["PROBE_ALLOWED"] }) : null;

let bench: ToolBench;
beforeEach(async () => {
  bench = await createToolBench();
});
afterEach(() => bench.remove());

const run = async (command: string, over = {}) => (await bench.call(exec, { command, timeoutSeconds: 20 }, over)).text;

beforeAll(() => {
  process.env.PROBE_ALLOWED = "may-be-seen";
  process.env.PROBE_SECRET = "must-not-be-seen";
});
afterAll(() => {
  delete process.env.PROBE_ALLOWED;
  delete process.env.PROBE_SECRET;
});

const PROBES: Record<string, string> = {
  "home folders": "ls -A /root /home 2>/dev/null | grep -q . && echo REACHED",
  "the host's accounts": "cat /etc/shadow 2>/dev/null && echo REACHED; grep -v '^herald:' /etc/passwd /etc/group && echo REACHED",
  "sockets of services": "for f in /run /var/run /var/run/docker.sock; do test -e $f && echo REACHED $f; done",
  "the environment of the gateway": "cat /proc/*/environ /proc/self/environ | tr '\\0' '\\n' | grep must-not-be-seen && echo REACHED",
  "devices of the host": "for f in sda vda mem kmsg kvm fuse; do test -e /dev/$f && echo REACHED $f; done",
  "writing to the system":
    "for f in / /etc /usr /usr/bin /etc/passwd /dev /proc /proc/sys/kernel/core_pattern /proc/sysrq-trigger /proc/sys/kernel/hostname; do test -w $f && echo REACHED $f; done",
  "the gateway's process": `kill -0 ${process.pid} 2>/dev/null && echo REACHED; test -d /proc/${process.pid} && echo REACHED`,
  mounting: "mkdir /tmp/m && mount -t tmpfs none /tmp/m 2>/dev/null && echo REACHED",
  "a nested user namespace":
    "unshare --user true 2>/dev/null && echo REACHED; unshare --user --map-root-user --mount true 2>/dev/null && echo REACHED",
  capabilities:
    "grep -E '^Cap(Inh|Prm|Eff|Bnd|Amb)' /proc/self/status | grep -v '0000000000000000' && echo REACHED; grep -q 'NoNewPrivs:.1' /proc/self/status || echo REACHED",
  "network devices": "grep -vE 'Inter|face|lo:' /proc/net/dev && echo REACHED",
  "open files of the gateway":
    "for f in /proc/$$/fd/*; do readlink $f; done | grep -vE '^(/dev/null|socket:.*|pipe:.*|/proc/.*)$' && echo REACHED",
};

describe.skipIf(!sandbox.available)(`sandbox${why}`, () => {
  it.each(Object.entries(PROBES))("[TL5] POL-005 does not reach %s", async (_name, probe) => {
    expect(await run(`${probe}; echo probe ran to its end`)).toMatch(/probe ran to its end\n\n\[exit code 0/);
    expect(await run(probe)).not.toContain("REACHED");
  });

  it("[TL5] does not reach files beside the workspace, by path or by link", async () => {
    const secret = join(bench.outer, "secret.txt");
    await writeFile(secret, "TOP SECRET");
    await symlink(secret, join(bench.workspace, "link"));
    await symlink("../secret.txt", join(bench.workspace, "relative"));
    const text = await run(`cat ${secret} link relative /proc/1/root${secret} /proc/self/root${secret}; ls ${bench.outer}`);
    expect(text).not.toContain("TOP SECRET");
    expect(text.match(/No such file|Permission denied/g)?.length).toBe(6);
  });

  it("[TL5] does not reach a server on loopback or an abstract socket", async () => {
    let connections = 0;
    const tcp = createServer(() => {
      connections += 1;
    }).listen(0, "127.0.0.1");
    const name = `herald-probe-${process.pid}`;
    const abstract = createServer().listen(`\0${name}`);
    await Promise.all([once(tcp, "listening"), once(abstract, "listening")]);
    const { port } = tcp.address() as AddressInfo;
    const text = await run(`(exec 3<>/dev/tcp/127.0.0.1/${port}) && echo REACHED; grep ${name} /proc/net/unix && echo REACHED; echo end`);
    expect(text).toContain("end");
    expect(text).not.toContain("REACHED");
    expect(connections).toBe(0);
    tcp.close();
    abstract.close();
    await Promise.all([once(tcp, "close"), once(abstract, "close")]);
  });

  it("[TL5] starts from an empty environment plus the allow-list", async () => {
    const names = (await run("env")).split("\n").flatMap((line) => /^(\w+)=/.exec(line)?.[1] ?? []);
    expect(names.filter((name) => !["_", "PWD", "SHLVL", "OLDPWD"].includes(name)).sort()).toEqual([
      "HOME",
      "LANG",
      "PATH",
      "PROBE_ALLOWED",
      "TERM",
    ]);
  });

  it("[TL5] writes in the workspace belong to the gateway's user", async () => {
    await chmod(bench.workspace, 0o700);
    expect(await run("echo made > made.txt && cat made.txt && whoami")).toContain("made\nherald");
    expect(await bench.call(exec, { command: ["cat", "made.txt"] })).toMatchObject({ text: expect.stringContaining("made") });
  });

  it("[TL5] holds memory file systems and single files to a size", async () => {
    const text = await run("df -k /tmp /dev/shm | tail -n 2 | awk '{print \"size\", $2}'; ulimit -f -c; head -c 300000000 /dev/zero > big");
    expect(text.match(/size 524288/g)?.length).toBe(2);
    expect(text).toContain("SIGXFSZ");
  });

  it("[RO2] a read-only workspace can't be written, /scratch can", async () => {
    await mkdir(join(bench.workspace, "sub"));
    const text = await run("touch a; touch sub/a; mkdir b; echo kept > /scratch/x && cat /scratch/x", { readOnly: true });
    expect(text.match(/Read-only file system/g)?.length).toBe(3);
    expect(text).toContain("kept");
  });

  it("[TL5] an open folder the gateway inherited does not come along", async () => {
    const script = `
      import { createExecTool } from ${JSON.stringify(new URL("../../../src/tools/exec.ts", import.meta.url).href)};
      import { callTool } from ${JSON.stringify(new URL("../../support/tool-context.ts", import.meta.url).href)};
      const tool = createExecTool({ sandbox: ${JSON.stringify(sandbox)}, ...${JSON.stringify(EXEC_DEFAULTS)} });
      const command = "readlink /proc/$$/fd/200; ls /proc/$$/fd/200/ && echo REACHED; echo end";
      process.stdout.write((await callTool(tool, { command }, { workspace: ${JSON.stringify(bench.workspace)} })).text);`;
    const shell = 'exec 200</; exec "$0" --input-type=module -e "$1"';
    const { stdout } = await promisify(execFile)("bash", ["-c", shell, process.execPath, script], { timeout: 20_000 });
    expect(stdout).toContain("end");
    expect(stdout).not.toContain("REACHED");
  });
});

describe.skipIf(!sandbox.available)(`folders the sandbox hides${why}`, () => {
  const detect = (...hide: string[]) => detectSandbox({ log: silentLogger, hide });
  const [below = ""] = readdirSync("/usr/share", { withFileTypes: true }).flatMap((entry) => (entry.isDirectory() ? entry.name : []));

  it("[TL5] POL-005 a private folder below /usr is empty inside, by every name; a workspace in it still works", async () => {
    await symlink("/usr/share", join(bench.outer, "link"));
    const hiding = await detect(`/usr/share/${below}`, join(bench.outer, "link"), "/usr/share/not-there", bench.outer, "/");
    const tool = createExecTool({ sandbox: hiding, ...EXEC_DEFAULTS });
    // Both streams in one: which of two is read first is anybody's guess.
    const command = "exec 2>&1; find /usr/share; touch /usr/share/x; echo; find /workspace -maxdepth 0; ls -d /usr/bin/env";
    const { text } = await bench.call(tool, { command }, { workspace: `/usr/share/${below}`, readOnly: true });
    expect(text).toContain("/usr/share\n");
    expect(text).not.toContain(`/usr/share/${below}`);
    expect(text).toContain("Read-only file system");
    expect(text).toContain("/workspace\n/usr/bin/env");
  });

  it.each(["/usr", "/usr/bin"])("[TL5] no exec where %s itself would have to be hidden", async (folder) => {
    const missing = await detect(folder);
    const none = { available: false, reason: expect.stringContaining(folder), howTo: expect.stringContaining("move") };
    expect(missing).toMatchObject(none);
  });
});

describe("detectSandbox", () => {
  // Where the sandbox must be there (CI), a broken profile may not pass as "skipped".
  it.runIf(process.env.HERALD_REQUIRE_SANDBOX === "1")("[TL5] finds the sandbox on this machine", () => {
    expect(sandbox).toMatchObject({ available: true, kind: "bubblewrap" });
  });

  it("[TL5] says why there is no sandbox and how to get one, and never throws", async () => {
    const missing = await detectSandbox({ log: silentLogger, path: "/nonexistent" });
    expect(missing).toMatchObject({
      available: false,
      reason: expect.stringContaining("not installed"),
      howTo: expect.stringContaining("apt-get install bubblewrap"),
    });
  });

  it.skipIf(process.platform !== "linux")("[TL5] a bwrap that fails or hangs counts as none, with its own words", async () => {
    for (const [script, words] of [
      ["echo 'No permissions to create new namespace' >&2; exit 1", "No permissions to create new namespace"],
      ["sleep 60", "no answer"],
    ] as const) {
      await writeFile(join(bench.outer, "bwrap"), `#!/bin/sh\ntest "$1" = --version && echo bubblewrap 9.9 && exit 0\n${script}\n`, {
        mode: 0o755,
      });
      await writeFile(join(bench.outer, "prlimit"), "#!/bin/sh\n", { mode: 0o755 });
      const found = await detectSandbox({ log: silentLogger, path: bench.outer });
      expect(found).toMatchObject({ available: false, reason: expect.stringContaining(words) });
    }
  });

  it("[TL5] without a sandbox there is no exec, unless the operator chose so", () => {
    const none = { available: false, reason: "none", howTo: "none" } as const;
    expect(createExecTool({ sandbox: none, ...EXEC_DEFAULTS })).toBeNull();
    expect(createExecTool({ sandbox: none, ...EXEC_DEFAULTS, unsandboxed: true })?.name).toBe("exec");
  });
});
