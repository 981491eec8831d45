// `herald auth set <agent> <provider>` (also `list`, `remove`): keeps provider keys by agent id in
// <state>/agents/<agentId>/auth.json, mode 0600. The key comes from stdin, never from the command line, and is shown nowhere.
import {
  chmodSync,
  closeSync,
  existsSync,
  fsyncSync,
  mkdirSync,
  openSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  writeSync,
} from "node:fs";
import { dirname, join } from "node:path";
import { AppError } from "../core/errors.ts";
import { isAgentId, newId } from "../core/ids.ts";
import { type AuthKeys, authPath, parseAuth } from "../models/credentials.ts";
import { isProviderName } from "../models/provider.ts";
import { withLock } from "../stores/lock.ts";
import { type Call, EXIT, UsageError } from "./command.ts";
import { stateFolderOf } from "./state-folder.ts";
import type { Terminal } from "./terminal.ts";

const MAX_KEY_LENGTH = 8 * 1024;

interface Desk {
  readonly stateDir: string;
  readonly terminal: Terminal;
}

const WORDS: Readonly<Record<string, (desk: Desk, agentId: string, provider: string) => Promise<void> | void>> = {
  async set(desk, agentId, provider) {
    checkNames(agentId, provider);
    // Before it is asked for: a file that can't be read is told without a key typed in vain.
    readKeys(desk, agentId);
    const apiKey = (await readKey(desk, agentId, provider)).trim();
    if (apiKey === "") throw new AppError("invalid", "No key was given on stdin; nothing changed.");
    if (!/^[\x21-\x7e]+$/.test(apiKey)) throw new AppError("invalid", "The key has blanks or characters no key has; nothing changed.");
    changeKeys(desk, agentId, (keys) => keys.set(provider, apiKey));
    desk.terminal.say(`The key for ${provider} is set for agent ${agentId}.`);
  },
  remove(desk, agentId, provider) {
    checkNames(agentId, provider);
    changeKeys(desk, agentId, (keys) => {
      if (!keys.delete(provider)) throw new AppError("invalid", `Agent ${agentId} has no key for ${provider}.`);
    });
    desk.terminal.say(`The key for ${provider} is removed from agent ${agentId}.`);
  },
  list(desk) {
    const folder = join(desk.stateDir, "agents");
    const agentIds = existsSync(folder) ? readdirSync(folder).filter(isAgentId).sort() : [];
    const lines = agentIds.map((id) => `${id}: ${[...readKeys(desk, id).keys()].sort().join(", ")}`).filter((line) => !line.endsWith(": "));
    desk.terminal.say(lines.length === 0 ? "No keys are stored." : lines.join("\n"));
  },
};

function checkNames(agentId: string, provider: string): void {
  if (agentId === "" || provider === "") throw new UsageError("");
  if (!isAgentId(agentId)) throw new AppError("invalid", "The agent id must match a-z, 0-9, _ and -, at most 64 characters.");
  if (!isProviderName(provider)) throw new AppError("invalid", "The provider must be a name such as anthropic or openai.");
}

function readKeys({ stateDir }: Desk, agentId: string): AuthKeys {
  const path = authPath(stateDir, agentId);
  return existsSync(path) ? parseAuth(readFileSync(path, "utf8"), path) : new Map();
}

/** Read again under the lock: somebody else may have set a key while this one was typed. */
function changeKeys(desk: Desk, agentId: string, change: (keys: Map<string, string>) => void): void {
  const folder = desk.stateDir;
  mkdirSync(folder, { recursive: true, mode: 0o700 });
  withLock(join(folder, "auth.lock"), () => {
    const keys = new Map(readKeys(desk, agentId));
    change(keys);
    writeKeys(desk, agentId, keys);
  });
}

/** Whole file or none: a gateway that reads meanwhile sees the old keys or the new ones. */
function writeKeys({ stateDir }: Desk, agentId: string, keys: AuthKeys): void {
  const path = authPath(stateDir, agentId);
  const folder = dirname(path);
  mkdirSync(folder, { recursive: true, mode: 0o700 });
  chmodSync(folder, 0o700);
  const temporary = `${path}.${newId()}`;
  try {
    const file = openSync(temporary, "wx", 0o600);
    try {
      writeSync(file, `${JSON.stringify(Object.fromEntries([...keys].map(([name, apiKey]) => [name, { apiKey }])), null, 2)}\n`);
      fsyncSync(file);
    } finally {
      closeSync(file);
    }
    renameSync(temporary, path);
  } finally {
    rmSync(temporary, { force: true });
  }
}

/** One line of stdin; on a terminal without echo. */
async function readKey({ terminal }: Desk, agentId: string, provider: string): Promise<string> {
  const { stdin } = terminal;
  if (stdin.isTTY) {
    terminal.write(`Key for ${provider} (agent ${agentId}; not shown, Enter to finish): `);
    stdin.setRawMode(true);
  }
  let typed = "";
  try {
    for await (const chunk of stdin.setEncoding("utf8")) {
      for (const character of String(chunk)) {
        if (character === "\u0003") throw new AppError("invalid", "Cancelled; nothing changed.");
        if (character === "\r" || character === "\n") return typed;
        typed = character === "\u007f" || character === "\b" ? typed.slice(0, -1) : typed + character;
      }
      if (typed.length > MAX_KEY_LENGTH) throw new AppError("invalid", "That is too long for a key; nothing changed.");
    }
    return typed;
  } finally {
    if (stdin.isTTY) {
      stdin.setRawMode(false);
      terminal.write("\n");
    }
  }
}

export async function auth({ words: [name = "", agentId = "", provider = "", ...more], terminal }: Call): Promise<number> {
  // A fourth word is most likely the key itself: refuse it without repeating it.
  if (more.length > 0) throw new UsageError("Too many words; the key is read from stdin.");
  const work = Object.hasOwn(WORDS, name) ? WORDS[name] : undefined;
  if (work === undefined) throw new UsageError("");
  await work({ stateDir: stateFolderOf(terminal, { isWritten: name !== "list" }), terminal }, agentId, provider);
  return EXIT.fine;
}
