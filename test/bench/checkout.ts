// A gateway of a checkout, as the real process on a folder of its own, looked at from outside: what it answered, the CPU time
// it took, the memory it holds. The same for this checkout and for the one it is compared with.
import { spawn } from "node:child_process";
import { randomUUID } from "node:crypto";
import { once } from "node:events";
import { mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { waitFor } from "../support/wait.ts";
import { rssMb } from "./measure.ts";

export interface Checkout {
  /** Posts to a chat of the page; resolves when it is accepted. */
  post(chat: string, text: string): Promise<void>;
  /** Resolves when the agent has said so much in all chats together. */
  said(count: number): Promise<void>;
  countSaid(): number;
  /** All threads of the process, since its start. */
  cpuMs(): number;
  rssMb(): number;
  stop(): Promise<void>;
}

const DEADLINE_MS = 120_000;
const WAIT_MS = 500;
const MAX_WAITS = 60;

export async function startCheckout(root: string, folder: string, config: Record<string, unknown>): Promise<Checkout> {
  mkdirSync(join(folder, "config"), { recursive: true });
  const whole = { ...config, web: { port: 0 }, models: { probeLocal: false, ...(config.models as object | undefined) } };
  writeFileSync(join(folder, "config/herald.json5"), JSON.stringify(whole), { mode: 0o600 });
  const stateDir = join(folder, "state");
  // Its own words for it: they were others in earlier code.
  const { scripts } = JSON.parse(readFileSync(join(root, "package.json"), "utf8")) as { scripts: { start: string } };
  const [, entry = "", ...words] = scripts.start.split(" ");
  const child = spawn(join(root, "node_modules/.bin/node"), [join(root, entry), ...words], {
    cwd: folder,
    env: { PATH: process.env.PATH, HOME: folder, HERALD_STATE_DIR: stateDir },
    stdio: ["ignore", "pipe", "pipe"],
  });
  let output = "";
  for (const stream of [child.stdout, child.stderr]) stream.on("data", (chunk: Buffer) => (output += chunk.toString()));
  const origin = await waitFor(
    "the gateway to be ready",
    () => /^Page: +(http:\S+?\/?)(?: |#|$)[\s\S]*^exec: /m.exec(output)?.[1],
    DEADLINE_MS,
  );
  const pid = child.pid ?? 0;
  const token = readFileSync(join(stateDir, "web-token"), "utf8").trim();
  const db = new DatabaseSync(join(stateDir, "herald.db"), { readOnly: true });
  const count = db.prepare("SELECT count(*) AS n FROM web_messages WHERE author = 'agent'");
  const countSaid = (): number => (count.get() as { n: number }).n;
  return {
    async post(chat, text) {
      const headers = { authorization: `Bearer ${token}`, "content-type": "application/json" };
      const body = JSON.stringify({ id: randomUUID(), text, kind: "message" });
      const send = (): Promise<Response> => fetch(`${origin}/api/chats/${chat}/messages`, { method: "POST", headers, body });
      let answer = await send();
      // Faster than a page may post: waiting costs neither side anything that is measured.
      for (let tries = 0; answer.status === 429 && tries < MAX_WAITS; tries++) {
        await new Promise((resolve) => setTimeout(resolve, WAIT_MS));
        answer = await send();
      }
      if (!answer.ok) throw new Error(`${root} refused a message: ${answer.status} ${await answer.text()}`);
    },
    countSaid,
    said: async (wanted) => void (await waitFor(`${wanted} answers`, () => countSaid() >= wanted, DEADLINE_MS)),
    cpuMs: () => cpuMs(pid),
    rssMb: () => rssMb(pid),
    async stop() {
      db.close();
      const exited = once(child, "exit");
      child.kill("SIGTERM");
      await exited;
    },
  };
}

/** What the scheduler gave each of its threads, in nanoseconds: /proc/pid/stat only counts hundredths of a second. */
function cpuMs(pid: number): number {
  const threads = readdirSync(`/proc/${pid}/task`);
  const used = threads.map((thread) => Number(readFileSync(`/proc/${pid}/task/${thread}/schedstat`, "utf8").split(" ")[0]));
  return used.reduce((sum, ns) => sum + ns, 0) / 1e6;
}
