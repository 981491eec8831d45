// The filter is run here as the kernel would run it, for both machines; then by the kernel itself, in the sandbox.
import { describe, expect, it } from "vitest";
import { silentLogger } from "../../../src/core/logger.ts";
import { createExecTool } from "../../../src/tools/exec.ts";
import { findOnPath } from "../../../src/tools/find-on-path.ts";
import { detectSandbox } from "../../../src/tools/sandbox.ts";
import { seccompFilter } from "../../../src/tools/seccomp.ts";
import { createToolBench, EXEC_DEFAULTS } from "../../support/tool-bench.ts";

const AUDIT = { x64: 0xc000003e, arm64: 0xc00000b7 } as const;
type Machine = keyof typeof AUDIT;

/** What the kernel does with a call: a classic BPF machine with the five instructions filters are made of. */
function decide(machine: Machine, call: { nr: number; args?: readonly bigint[]; audit?: number }): string {
  const program = seccompFilter(machine) ?? Buffer.alloc(0);
  const data = Buffer.alloc(64);
  data.writeUInt32LE(call.nr >>> 0, 0);
  data.writeUInt32LE(call.audit ?? AUDIT[machine], 4);
  for (const [n, arg] of (call.args ?? []).entries()) data.writeBigUInt64LE(arg, 16 + 8 * n);
  let loaded = 0;
  for (let at = 0; at < program.length / 8; at++) {
    const [code, yes, no, k] = [
      program.readUInt16LE(at * 8),
      program[at * 8 + 2] ?? 0,
      program[at * 8 + 3] ?? 0,
      program.readUInt32LE(at * 8 + 4),
    ];
    if (code === 0x06) return answerOf(k);
    else if (code === 0x20) loaded = data.readUInt32LE(k);
    else if (code === 0x15) at += loaded === k ? yes : no;
    else if (code === 0x25) at += loaded > k ? yes : no;
    else if (code === 0x45) at += (loaded & k) !== 0 ? yes : no;
    else throw new Error(`instruction ${code}`);
  }
  throw new Error("the program ran off its end");
}

const NAMES: Readonly<Record<number, string>> = {
  1: "EPERM",
  22: "EINVAL",
  38: "ENOSYS",
  93: "EPROTONOSUPPORT",
  95: "EOPNOTSUPP",
  97: "EAFNOSUPPORT",
};

function answerOf(value: number): string {
  if (value === 0x7fff0000) return "allow";
  if (value === 0x80000000) return "kill";
  return NAMES[value - 0x50000] ?? `errno ${value - 0x50000}`;
}

// The numbers are the kernel's: arch/x86/entry/syscalls/syscall_64.tbl and include/uapi/asm-generic/unistd.h.
const CALLS: [name: string, x64: number, arm64: number, args: bigint[], answer: string][] = [
  ["read", 0, 63, [], "allow"],
  ["execve", 59, 221, [], "allow"],
  ["futex_requeue", 456, 456, [], "allow"],
  ["statmount, newer than the list", 457, 457, [], "ENOSYS"],
  ["keyctl", 250, 219, [], "EPERM"],
  ["vmsplice", 278, 75, [], "ENOSYS"],
  ["splice", 275, 76, [], "allow"],
  ["add_key", 248, 217, [], "EPERM"],
  ["request_key", 249, 218, [], "EPERM"],
  ["bpf", 321, 280, [], "EPERM"],
  ["perf_event_open", 298, 241, [], "EPERM"],
  ["userfaultfd", 323, 282, [], "EPERM"],
  ["ptrace", 101, 117, [], "EPERM"],
  ["process_vm_writev", 311, 271, [], "EPERM"],
  ["kexec_load", 246, 104, [], "EPERM"],
  ["init_module", 175, 105, [], "EPERM"],
  ["mount", 165, 40, [], "EPERM"],
  ["fsopen", 430, 430, [], "EPERM"],
  ["unshare", 272, 97, [0x10000000n], "EPERM"],
  ["setns", 308, 268, [], "EPERM"],
  ["open_by_handle_at", 304, 265, [], "EPERM"],
  ["memfd_secret", 447, 447, [], "EPERM"],
  ["io_uring_setup", 425, 425, [], "ENOSYS"],
  ["clone3", 435, 435, [], "ENOSYS"],
  ["memfd_create", 319, 279, [], "ENOSYS"],
  ["semget", 64, 190, [], "ENOSYS"],
  ["fallocate", 285, 47, [], "EOPNOTSUPP"],
  ["clone for a thread", 56, 220, [0x3d0f00n], "allow"],
  ["clone for a process, odd upper half", 56, 220, [0xffffffff00000011n], "allow"],
  ...[0x20000n, 0x2000000n, 0x4000000n, 0x8000000n, 0x10000000n, 0x20000000n, 0x40000000n].map((flag): (typeof CALLS)[number] => [
    `clone with namespace flag ${flag.toString(16)}`,
    56,
    220,
    [flag | 17n],
    "EPERM",
  ]),
  ["socket AF_UNIX", 41, 198, [1n, 1n, 0n], "allow"],
  ["socket AF_INET, TCP", 41, 198, [2n, 1n, 6n], "allow"],
  ["socket AF_INET6, UDP", 41, 198, [10n, 2n, 17n], "allow"],
  ["socket AF_INET, SCTP", 41, 198, [2n, 1n, 132n], "EPROTONOSUPPORT"],
  ["socket AF_NETLINK, route", 41, 198, [16n, 3n, 0n], "allow"],
  ["socket AF_NETLINK, netfilter", 41, 198, [16n, 3n, 12n], "EPROTONOSUPPORT"],
  ...[0n, 3n, 9n, 17n, 29n, 30n, 38n, 40n, 44n].map((family): (typeof CALLS)[number] => [
    `socket of family ${family}`,
    41,
    198,
    [family, 1n, 0n],
    "EAFNOSUPPORT",
  ]),
  // The kernel reads an int: what stands above it must not change the answer.
  ["socket AF_VSOCK, odd upper half", 41, 198, [0x100000000n + 40n, 1n, 0n], "EAFNOSUPPORT"],
  ["socketpair AF_UNIX", 53, 199, [1n], "allow"],
  ["socketpair AF_TIPC", 53, 199, [30n], "EAFNOSUPPORT"],
  ["shmget of 56 bytes", 29, 194, [0n, 56n], "allow"],
  ["shmget of 1 MB", 29, 194, [0n, 1048576n], "EINVAL"],
  ["shmget of 4 GB and 1", 29, 194, [0n, 0x100000001n], "EINVAL"],
];

describe("the system call filter", () => {
  it.each(CALLS)("[TL5] %s", (_name, x64, arm64, args, answer) => {
    expect(decide("x64", { nr: x64, args })).toBe(answer);
    expect(decide("arm64", { nr: arm64, args })).toBe(answer);
  });

  it("[TL5] calls under another machine's numbers, and x86-64's second set of them, end the command", () => {
    expect(decide("x64", { nr: 0, audit: 0x40000003 })).toBe("kill"); // i386
    expect(decide("arm64", { nr: 63, audit: 0x40000028 })).toBe("kill"); // 32-bit ARM
    expect(decide("x64", { nr: 63, audit: AUDIT.arm64 })).toBe("kill");
    for (const nr of [0x40000000, 0x40000000 + 41, 0xffffffff]) expect(decide("x64", { nr })).toBe("kill");
  });

  it("[TL5] there is none for a machine nobody has listed the calls of", () => {
    for (const arch of ["riscv64", "arm", "ia32", "s390x"]) expect(seccompFilter(arch)).toBeNull();
  });
});

const sandbox = await detectSandbox({ log: silentLogger });
const hasPerl = findOnPath("perl", "/usr/bin") !== null;

describe.skipIf(!sandbox.available || !hasPerl || process.arch !== "x64")("in the sandbox the kernel", () => {
  it("[TL5] refuses the keyring, AF_VSOCK, io_uring, bpf, memfd, namespaces and big segments; threads and loopback work", async () => {
    const bench = await createToolBench();
    const probe = (nr: number, ...args: number[]) =>
      `$r = syscall(${[nr, ...args].join(", ")}); print "${nr}:", ($r < 0 ? $!+0 : "ok"), "\\n";`;
    // keyctl, socket(AF_VSOCK), io_uring_setup, bpf, memfd_create, unshare, shmget, perf_event_open, userfaultfd, a new one
    const probes = [
      probe(250, 0, 0, 0),
      probe(41, 40, 1, 0),
      probe(425, 1, 0),
      probe(321, 0, 0, 0),
      probe(319, 0, 0),
      probe(272, 0x10000000),
    ];
    const more = [probe(29, 0, 100_000_000, 0o1600), probe(298, 0, 0, 0, 0, 0), probe(323, 0), probe(457, 0), probe(41, 2, 1, 0)];
    const { text } = await bench.call(createExecTool({ sandbox, ...EXEC_DEFAULTS }), {
      command: ["perl", "-e", [...probes, ...more].join("")],
    });
    await bench.remove();
    expect(text.split("\n").slice(0, 11)).toEqual([
      ...["250:1", "41:97", "425:38", "321:1", "319:38", "272:1"],
      ...["29:22", "298:1", "323:1", "457:38", "41:ok"],
    ]);
  });
});
