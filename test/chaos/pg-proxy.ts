// The way from one process to PostgreSQL in a chaos run: carries everything until it is told to swallow notifications, to let nothing
// through, to cut its lines, or to lose the answer to a COMMIT that the server carries out.
import { connect, createServer, type Socket } from "node:net";

export interface PgProxy {
  readonly port: number;
  /** Notifications don't arrive any more; everything else does. */
  deafen(isDeaf: boolean): void;
  /** Nothing goes through, either way. Its lines stay open, and neither end is told. */
  hold(isHeld: boolean): void;
  cut(): void;
  /** The next COMMIT arrives; its answer doesn't, and its line is cut. */
  loseAnswer(): void;
  counts(): { readonly bells: number; readonly answers: number };
  close(): Promise<void>;
}

interface Line {
  readonly near: Socket;
  readonly far: Socket;
}

interface State {
  readonly serverPort: number;
  readonly lines: Set<Line>;
  isDeaf: boolean;
  isHeld: boolean;
  losesAnswer: boolean;
  bells: number;
  answers: number;
}

const HOST = "127.0.0.1";
const NOTIFICATION = 0x41;
/** The end of a simple query whose last word it is, as it stands on the line. */
const COMMIT = Buffer.from("COMMIT\0");

export async function createPgProxy(serverPort: number): Promise<PgProxy> {
  const state: State = { serverPort, lines: new Set(), isDeaf: false, isHeld: false, losesAnswer: false, bells: 0, answers: 0 };
  const server = createServer((near) => carry(state, near));
  await new Promise<void>((resolve) => server.listen(0, HOST, resolve));
  const cut = (): void => {
    for (const { near, far } of state.lines) for (const socket of [near, far]) socket.destroy();
  };
  return {
    port: (server.address() as { port: number }).port,
    deafen(isDeaf) {
      state.isDeaf = isDeaf;
    },
    hold(isHeld) {
      state.isHeld = isHeld;
      for (const { near, far } of state.lines) for (const socket of [near, far]) isHeld ? socket.pause() : socket.resume();
    },
    cut,
    loseAnswer() {
      state.losesAnswer = true;
    },
    counts: () => ({ bells: state.bells, answers: state.answers }),
    async close() {
      cut();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}

function carry(state: State, near: Socket): void {
  const far = connect(state.serverPort, HOST);
  const line: Line = { near, far };
  state.lines.add(line);
  near.setNoDelay(true);
  far.setNoDelay(true);
  const drop = (): void => {
    state.lines.delete(line);
    near.destroy();
    far.destroy();
  };
  for (const socket of [near, far]) socket.on("error", drop).on("close", drop);
  const sift = createSieve(state);
  near.on("data", (bytes) => {
    far.write(bytes);
    if (!state.losesAnswer || !bytes.subarray(-COMMIT.length).equals(COMMIT)) return;
    state.losesAnswer = false;
    state.answers++;
    // The server reads it and then finds the line at its end.
    far.removeAllListeners("data").resume();
    far.end();
    near.destroy();
    state.lines.delete(line);
  });
  far.on("data", (bytes) => void near.write(sift(bytes)));
  if (state.isHeld) for (const socket of [near, far]) socket.pause();
}

/** Whole messages of the server (a letter, a length, the rest); notifications are left out while nobody is to hear them. */
function createSieve(state: State): (bytes: Buffer) => Buffer {
  let rest: Buffer = Buffer.alloc(0);
  return (bytes) => {
    const all = rest.length === 0 ? bytes : Buffer.concat([rest, bytes]);
    const kept: Buffer[] = [];
    let at = 0;
    for (;;) {
      const end = all.length - at < 5 ? Number.POSITIVE_INFINITY : at + 1 + all.readUInt32BE(at + 1);
      if (end > all.length) break;
      const isDropped = state.isDeaf && all[at] === NOTIFICATION;
      if (isDropped) state.bells++;
      else kept.push(all.subarray(at, end));
      at = end;
    }
    rest = all.subarray(at);
    return Buffer.concat(kept);
  };
}
