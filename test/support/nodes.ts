// Several processes on one PostgreSQL, each on a folder of its own, as one Harness: what is asked goes to them in turn, a crash is one of
// all of them. `members` are the single ones, for a test that kills or freezes one.
import { createHarness, type Harness, type HarnessOptions } from "./harness.ts";
import { createLook } from "./look.ts";
import { createSchema } from "./postgres.ts";
import type { PostgresProxy } from "./postgres-proxy.ts";

const NODES = Number(process.env.HERALD_TEST_NODES ?? 1);
/** This run of a suite is one over several processes on PostgreSQL: transcripts are rows there, and a crash is one of all of them. */
export const isShared = NODES > 1;

/** One process on its folder; in a run of the suite over several, that many. */
export const createHerald = (options: HarnessOptions): Promise<Harness> =>
  isShared ? createNodes(NODES, options) : createHarness(options);

export interface Nodes extends Harness {
  /** Of the schema they share. */
  readonly url: string;
  /** Starts one more. */
  join(options?: NodeOptions): Promise<Harness>;
}

export interface NodeOptions extends HarnessOptions {
  readonly node?: string;
  /** Of the command line. */
  readonly args?: readonly string[];
  /** Another way to the same database. */
  readonly through?: Pick<PostgresProxy, "through">;
}

/** `own`: what one of them has besides. */
export async function createNodes(count: number, options: HarnessOptions = {}, own: readonly NodeOptions[] = []): Promise<Nodes> {
  const schema = await createSchema();
  const look = createLook(schema.url);
  const members: Harness[] = [];
  const start = async ({ node = `n${members.length + 1}`, args = [], through, ...more }: NodeOptions = {}): Promise<Harness> => {
    const env = { ...options.env, ...more.env };
    const url = through?.through(schema.url) ?? schema.url;
    const one = await createHarness({ ...options, ...more, env, shared: { url, node, args, rows: look.rows } });
    members.push(one);
    return one;
  };
  const close = async (): Promise<void> => {
    await look.close();
    await schema[Symbol.asyncDispose]();
  };
  try {
    for (let n = 0; n < count; n++) await start(own[n]);
  } catch (error) {
    await endAll(members).catch(() => {});
    await close();
    throw error;
  }
  return {
    ...asOne(members),
    url: schema.url,
    join: start,
    async [Symbol.asyncDispose]() {
      try {
        await endAll(members);
      } finally {
        await close();
      }
    },
  };
}

/** One after the other: what the first leaves undone the next may still do, but the last. */
async function endAll(members: readonly Harness[]): Promise<void> {
  const failures: unknown[] = [];
  for (const one of members) {
    try {
      await one[Symbol.asyncDispose]();
    } catch (error) {
      failures.push(error);
    }
  }
  if (failures.length > 0) throw new AggregateError(failures, failures.map(String).join("\n"));
}

function asOne(members: readonly Harness[]): Omit<Harness, typeof Symbol.asyncDispose> {
  const first = (): Harness => members[0] as Harness;
  let turns = 0;
  const next = (): Harness => {
    const able = members.filter((one) => one.isRunning() && one.origin().startsWith("http"));
    return able[turns++ % able.length] ?? first();
  };
  const each = <T>(work: (one: Harness) => Promise<T>): Promise<T[]> => Promise.all(members.map(work));
  return {
    members,
    stateDir: first().stateDir,
    dir: first().dir,
    origin: () => next().origin(),
    pid: () => first().pid(),
    say: (...args) => next().say(...args),
    messages: (chat) => first().messages(chat),
    replies: (chat) => first().replies(chat),
    announcements: (chat) => first().announcements(chat),
    reply: (...args) => first().reply(...args),
    crash: async () => void (await each((one) => one.crash())),
    restart: async (options) => void (await each((one) => one.restart(options))),
    stop: async () => (await each((one) => one.stop())).find((code) => code !== 0) ?? 0,
    isRunning: () => members.some((one) => one.isRunning()),
    exited: async (timeoutMs) => void (await each((one) => one.exited(timeoutMs))),
    rows: first().rows,
    output: () => members.map((one) => one.output()).join("\n"),
    request: (...args) => next().request(...args),
  };
}

/** What stands beside an app in the test's own process in such a run: another one, as a process. */
export interface Companion extends AsyncDisposable {
  /** For the app itself. */
  readonly env: Record<string, string>;
  readonly rows: Harness["rows"];
  /** After the app: whoever comes first is the one that people talk to. */
  start(config: Record<string, unknown>): Promise<void>;
}

export async function createCompanion(): Promise<Companion | null> {
  if (!isShared) return null;
  const schema = await createSchema();
  const look = createLook(schema.url);
  let process: Harness | null = null;
  return {
    env: { DATABASE_URL: schema.url, HERALD_NODE: "n1" },
    rows: look.rows,
    async start(config) {
      process = await createHarness({ config, shared: { url: schema.url, node: "n2", rows: look.rows } });
    },
    async [Symbol.asyncDispose]() {
      await process?.[Symbol.asyncDispose]();
      await look.close();
      await schema[Symbol.asyncDispose]();
    },
  };
}
