// One or several real gateways, embedded or on one PostgreSQL, looked at from outside through the page: what the bench of several
// machines compares. A chat is followed on the event stream of one process, whoever answers it.
import { type ChildProcess, spawn } from "node:child_process";
import { randomUUID } from "node:crypto";
import { once } from "node:events";
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { waitFor } from "../support/wait.ts";

export interface Member {
  readonly name: string;
  readonly pid: number;
  readonly origin: string;
  output(): string;
  end(signal: NodeJS.Signals): Promise<void>;
  signal(signal: NodeJS.Signals): void;
}

export interface Group {
  readonly members: Member[];
  post(member: Member, chat: string, text: string): Promise<void>;
  /** Follows a chat from now on. */
  follow(member: Member, chat: string): Promise<Chat>;
  start(name: string): Promise<Member>;
  stop(): Promise<void>;
}

export interface Chat {
  /** Resolves once the agent has said so much since it was followed, with the moment it came in. */
  said(count: number): Promise<number>;
  readonly texts: string[];
  close(): void;
}

const HERE = new URL("../../", import.meta.url).pathname;
const DEADLINE_MS = 180_000;

export async function startGroup(
  folder: string,
  config: Record<string, unknown>,
  names: readonly string[],
  url: string | null,
): Promise<Group> {
  const members: Member[] = [];
  let token = "";
  const start = async (name: string): Promise<Member> => {
    const member = await startMember(join(folder, name), name, config, url);
    members.push(member);
    token ||= readToken(join(folder, name));
    return member;
  };
  for (const name of names) await start(name);
  const headers = () => ({ authorization: `Bearer ${token}`, "content-type": "application/json" });
  return {
    members,
    start,
    async post(member, chat, text) {
      const body = JSON.stringify({ id: randomUUID(), text, kind: "message" });
      const answer = await fetch(`${member.origin}/api/chats/${chat}/messages`, { method: "POST", headers: headers(), body });
      if (!answer.ok) throw new Error(`a message was refused: ${answer.status} ${await answer.text()}`);
    },
    follow: (member, chat) => follow(member, chat, headers()),
    async stop() {
      await Promise.all(members.map((member) => member.end("SIGTERM")));
    },
  };
}

/** The link holds the token that counts for all of them. */
const readToken = (folder: string): string => readFileSync(join(folder, "state/sign-in-link"), "utf8").trim().split("#token=")[1] ?? "";

async function startMember(folder: string, name: string, config: Record<string, unknown>, url: string | null): Promise<Member> {
  mkdirSync(join(folder, "config"), { recursive: true });
  const whole = { ...config, web: { port: 0 }, models: { probeLocal: false, ...(config.models as object | undefined) } };
  writeFileSync(join(folder, "config/herald.json5"), JSON.stringify(whole), { mode: 0o600 });
  const store = url === null ? {} : { DATABASE_URL: url, HERALD_NODE: name };
  const child: ChildProcess = spawn(join(HERE, "node_modules/.bin/node"), [join(HERE, "src/herald.js"), "start"], {
    cwd: folder,
    env: { PATH: process.env.PATH, HOME: folder, HERALD_STATE_DIR: join(folder, "state"), ...store },
    stdio: ["ignore", "pipe", "pipe"],
  });
  let output = "";
  for (const stream of [child.stdout, child.stderr]) stream?.on("data", (chunk: Buffer) => (output += chunk.toString()));
  const exited = once(child, "exit");
  const isReady = () => /^Page: +(http:\S+?\/?)(?: |#|$)[\s\S]*^exec: /m.exec(output)?.[1];
  const origin = await waitFor("a gateway to be ready", isReady, DEADLINE_MS);
  return {
    name,
    pid: child.pid ?? 0,
    origin,
    output: () => output,
    signal: (signal) => void child.kill(signal),
    async end(signal) {
      if (child.exitCode !== null || child.signalCode !== null) return;
      child.kill(signal);
      await exited;
    },
  };
}

async function follow({ origin }: Member, chat: string, headers: Record<string, string>): Promise<Chat> {
  const over = new AbortController();
  const response = await fetch(`${origin}/api/events?chat=${chat}`, { headers, signal: over.signal });
  if (!response.ok || response.body === null) throw new Error(`the stream answered ${response.status}`);
  const texts: string[] = [];
  const times: number[] = [];
  const wakers = new Set<() => void>();
  const hear = (block: string): void => {
    if (!/^event: message$/m.test(block)) return;
    const data = JSON.parse(/^data: ?(.*)$/m.exec(block)?.[1] ?? "{}") as { author?: string; html?: string };
    if (data.author !== "agent") return;
    texts.push(data.html ?? "");
    times.push(performance.now());
    for (const wake of [...wakers]) wake();
  };
  void read(response.body, hear).catch(() => {});
  return {
    texts,
    said: (count) =>
      new Promise((resolve, reject) => {
        const timer = setTimeout(() => reject(new Error(`${texts.length} of ${count} answers came`)), DEADLINE_MS);
        const look = (): void => {
          const at = times[count - 1];
          if (at === undefined) return;
          clearTimeout(timer);
          wakers.delete(look);
          resolve(at);
        };
        wakers.add(look);
        look();
      }),
    close: () => over.abort(),
  };
}

async function read(body: ReadableStream<Uint8Array>, hear: (block: string) => void): Promise<void> {
  let rest = "";
  const decoder = new TextDecoder();
  for await (const chunk of body) {
    rest += decoder.decode(chunk, { stream: true });
    const blocks = rest.split("\n\n");
    rest = blocks.pop() ?? "";
    for (const block of blocks) hear(block);
  }
}
