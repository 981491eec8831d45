// Which system calls a command in the sandbox may make: a program for the kernel's seccomp filter, assembled here and
// handed to bwrap (sandbox.ts), which installs it just before the command starts. It stays for all the command starts.
// Every call below NEWEST that is not named here is allowed; what a later kernel adds is not there, until somebody has
// looked at it. The namespaces already keep most of the machine out of sight; this keeps commands away from the parts of
// the kernel no namespace divides, and from memory and disk that nobody could count (usage.ts).

/** The two machines' numbers for one call; null: that machine does not have it. */
type Numbers = readonly [x64: number, arm64: number | null];

/** Answered with EPERM. */
const REFUSED: Readonly<Record<string, Numbers>> = {
  // Keys of the gateway's user, shared by all namespaces.
  add_key: [248, 217],
  request_key: [249, 218],
  keyctl: [250, 219],
  // Parts of the kernel where most holes have been found.
  bpf: [321, 280],
  perf_event_open: [298, 241],
  userfaultfd: [323, 282],
  fanotify_init: [300, 262],
  fanotify_mark: [301, 263],
  // Into other processes.
  ptrace: [101, 117],
  process_vm_readv: [310, 270],
  process_vm_writev: [311, 271],
  process_madvise: [440, 440],
  kcmp: [312, 272],
  pidfd_getfd: [438, 438],
  // File systems and namespaces; clone is looked at below.
  mount: [165, 40],
  umount2: [166, 39],
  pivot_root: [155, 41],
  chroot: [161, 51],
  open_tree: [428, 428],
  move_mount: [429, 429],
  fsopen: [430, 430],
  fsconfig: [431, 431],
  fsmount: [432, 432],
  fspick: [433, 433],
  mount_setattr: [442, 442],
  unshare: [272, 97],
  setns: [308, 268],
  name_to_handle_at: [303, 264],
  open_by_handle_at: [304, 265],
  quotactl: [179, 60],
  quotactl_fd: [443, 443],
  // The machine itself: its kernel, clock, name, log and ports.
  kexec_load: [246, 104],
  kexec_file_load: [320, 294],
  create_module: [174, null],
  init_module: [175, 105],
  delete_module: [176, 106],
  get_kernel_syms: [177, null],
  query_module: [178, null],
  finit_module: [313, 273],
  reboot: [169, 142],
  swapon: [167, 224],
  swapoff: [168, 225],
  acct: [163, 89],
  syslog: [103, 116],
  settimeofday: [164, 170],
  clock_settime: [227, 112],
  clock_adjtime: [305, 266],
  adjtimex: [159, 171],
  sethostname: [170, 161],
  setdomainname: [171, 162],
  vhangup: [153, 58],
  iopl: [172, null],
  ioperm: [173, null],
  modify_ldt: [154, null],
  personality: [135, 92],
  uselib: [134, null],
  ustat: [136, null],
  sysfs: [139, null],
  _sysctl: [156, null],
  nfsservctl: [180, 42],
  lookup_dcookie: [212, 18],
  // Where memory lies, and memory nobody else can look at.
  mbind: [237, 235],
  set_mempolicy: [238, 237],
  get_mempolicy: [239, 236],
  migrate_pages: [256, 238],
  move_pages: [279, 239],
  set_mempolicy_home_node: [450, 450],
  memfd_secret: [447, 447],
};

/** Answered with ENOSYS: programs then do it the older way, which can be looked at or counted. */
const UNKNOWN: Readonly<Record<string, Numbers>> = {
  io_uring_setup: [425, 425],
  io_uring_enter: [426, 426],
  io_uring_register: [427, 427],
  clone3: [435, 435], // its flags lie in memory, where a filter can't see them
  memfd_create: [319, 279], // a file in memory that no mount and no process shows
  vmsplice: [278, 75], // a pipe then holds pages, huge ones too, that no process shows
  semget: [64, 190], // these two keep memory that belongs to no process
  msgget: [68, 186],
};

const CLONE: Numbers = [56, 220];
const SOCKET: Numbers = [41, 198];
const SOCKETPAIR: Numbers = [53, 199];
const SHMGET: Numbers = [29, 194];
/** Takes disk without writing, so nobody could count it; programs then write zeros. */
const FALLOCATE: Numbers = [285, 47];
/** futex_requeue, the last call of Linux 6.7. */
const NEWEST = 456;

const MACHINES = {
  x64: { column: 0, audit: 0xc000003e },
  arm64: { column: 1, audit: 0xc00000b7 },
} as const;

/** x86-64 has a second set of calls under this bit, with other numbers. */
const X32_BIT = 0x40000000;
/** CLONE_NEWNS, NEWCGROUP, NEWUTS, NEWIPC, NEWUSER, NEWPID, NEWNET. */
const NEW_NAMESPACE = 0x7e020000;
/** Segments outlive who made them and show in no process; there may be 4096 of them. */
const SHM_BYTES = 64 * 1024;

const AF = { UNIX: 1, INET: 2, INET6: 10, NETLINK: 16 } as const;
/** Any, ICMP, TCP, UDP, ICMPv6: asking for others makes the kernel load code nobody needs here. */
const INTERNET_PROTOCOLS = [0, 1, 6, 17, 58];
const NETLINK_ROUTE = 0;

const EPERM = 1;
const EINVAL = 22;
const ENOSYS = 38;
const EPROTONOSUPPORT = 93;
const EOPNOTSUPP = 95;
const EAFNOSUPPORT = 97;

type Instruction = readonly [code: number, ifTrue: number, ifFalse: number, value: number];
type Block = readonly Instruction[];

const ALLOW = 0x7fff0000;
const KILL = 0x80000000;
const errno = (code: number): number => 0x00050000 | code;

const NUMBER = 0;
const MACHINE = 4;
const argument = (n: number): number => 16 + 8 * n;
const upperHalf = (offset: number): number => offset + 4;

const load = (offset: number): Instruction => [0x20, 0, 0, offset];
const answer = (value: number): Instruction => [0x06, 0, 0, value];
/** The block when the loaded value is this one; it must end with an answer on every way. */
const when = (value: number, block: Block): Block => [[0x15, 0, block.length, value], ...block];
const whenAbove = (value: number, block: Block): Block => [[0x25, 0, block.length, value], ...block];
const whenAnyBit = (bits: number, block: Block): Block => [[0x45, 0, block.length, bits], ...block];
/** The block when it is one of these: each jumps over the rest of them, the last one over the block when it isn't. */
const whenOneOf = (values: readonly number[], block: Block): Block => [
  ...values.map((value, n): Instruction => [0x15, values.length - 1 - n, n === values.length - 1 ? block.length : 0, value]),
  ...block,
];

/** The filter as bwrap reads it, or null for a machine whose calls are not listed here. */
export function seccompFilter(arch: string): Buffer | null {
  const machine = arch === "x64" || arch === "arm64" ? MACHINES[arch] : null;
  if (machine === null) return null;
  const number = (numbers: Numbers): number[] => [numbers[machine.column]].filter((one) => one !== null);
  const all = (calls: Readonly<Record<string, Numbers>>): number[] => Object.values(calls).flatMap(number);
  const on = (numbers: Numbers, block: Block): Block => number(numbers).flatMap((one) => when(one, block));
  const program: Block = [
    load(MACHINE),
    ...when(machine.audit, [
      load(NUMBER),
      ...(arch === "x64" ? whenAbove(X32_BIT - 1, [answer(KILL)]) : []),
      ...whenAbove(NEWEST, [answer(errno(ENOSYS))]),
      ...whenOneOf(all(REFUSED), [answer(errno(EPERM))]),
      ...whenOneOf(all(UNKNOWN), [answer(errno(ENOSYS))]),
      ...on(FALLOCATE, [answer(errno(EOPNOTSUPP))]),
      ...on(CLONE, [load(argument(0)), ...whenAnyBit(NEW_NAMESPACE, [answer(errno(EPERM))]), answer(ALLOW)]),
      ...on(SOCKET, SOCKETS),
      ...on(SOCKETPAIR, [load(argument(0)), ...when(AF.UNIX, [answer(ALLOW)]), answer(errno(EAFNOSUPPORT))]),
      ...on(SHMGET, SEGMENTS),
      answer(ALLOW),
    ]),
    // Another machine's numbers would mean other calls.
    answer(KILL),
  ];
  return assemble(program);
}

const SOCKETS: Block = [
  load(argument(0)),
  ...when(AF.UNIX, [answer(ALLOW)]),
  ...whenOneOf([AF.INET, AF.INET6], [load(argument(2)), ...whenOneOf(INTERNET_PROTOCOLS, [answer(ALLOW)]), answer(errno(EPROTONOSUPPORT))]),
  // How programs list network devices; the other protocols reach into the kernel's insides.
  ...when(AF.NETLINK, [load(argument(2)), ...when(NETLINK_ROUTE, [answer(ALLOW)]), answer(errno(EPROTONOSUPPORT))]),
  answer(errno(EAFNOSUPPORT)),
];

const SEGMENTS: Block = [
  load(upperHalf(argument(1))),
  ...whenAbove(0, [answer(errno(EINVAL))]),
  load(argument(1)),
  ...whenAbove(SHM_BYTES, [answer(errno(EINVAL))]),
  answer(ALLOW),
];

/** struct sock_filter: u16 code, u8 and u8 how far to jump, u32 value. Both machines are little-endian. */
function assemble(program: Block): Buffer {
  const buffer = Buffer.alloc(program.length * 8);
  for (const [n, [code, ifTrue, ifFalse, value]] of program.entries()) {
    buffer.writeUInt16LE(code, n * 8);
    buffer.writeUInt8(ifTrue, n * 8 + 2);
    buffer.writeUInt8(ifFalse, n * 8 + 3);
    buffer.writeUInt32LE(value, n * 8 + 4);
  }
  return buffer;
}
