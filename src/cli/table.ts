// All commands: their words, their flags, and the file that does them, which is loaded only by whoever asks for it.
import { SCOPES } from "../core/program.ts";
import type { Command } from "./command.ts";
import { SETUP_OPTIONS } from "./setup-flags.ts";

const JSON_FLAG = { type: "boolean", about: "for programs: one object a line and nothing else" } as const;

export const COMMANDS: readonly Command[] = [
  {
    name: "start",
    summary: "Serve the page and the channels that are set up",
    usage: [["[--role ROLE]", ""]],
    options: {
      role: {
        type: "string",
        value: "ROLE",
        about: "with store.url: gateway (page and channels), worker (turns and sub-agents) or all, which it is without",
      },
    },
    run: async (call) => (await import("./start.ts")).start(call),
  },
  {
    name: "setup",
    summary: "Connect a model and channels, each tried before it is kept",
    usage: [
      ["", "asks, on a terminal"],
      ["--model openai --key-env OPENAI_API_KEY", "a model without a question"],
      ["--telegram-token-env BOT_TOKEN", "a bot without a question; what no flag names stays as it is"],
    ],
    options: SETUP_OPTIONS,
    notes: `Nothing is written before all of it was tried, and then at once: secrets into .env, the rest into the settings, whose comments stay. A secret is never given as a flag: the flag names the variable that holds it, or - for a line of stdin. Exit code 1 when something could not be tried with success, 2 when a flag is missing or wrong; nothing is written then.`,
    isWork: true,
    run: async (call) => (await import("./setup.ts")).setup(call),
  },
  {
    name: "status",
    summary: "Tell whether the gateway runs, and how things stand",
    usage: [["[--json]", "exit code 1 when it does not run"]],
    options: { json: JSON_FLAG },
    run: async (call) => (await import("./status.ts")).status(call),
  },
  {
    name: "runs",
    summary: "Watch and steer sub-agents",
    usage: [
      ["[list] [--once] [--json]", "all of them; on a terminal for as long as you look"],
      ["info RUN [--json]", "everything on record about one"],
      ["log RUN [-n COUNT] [-f] [--json]", "its last words and calls; -f goes on until it ends"],
      ["stop RUN [--json]", "end it and everything below it"],
      ["send RUN TEXT [--json]", "tell it something; one that ended goes on with it"],
      ["spawn TASK [--chat ID] [--json]", "send one out; its result is announced in that chat"],
      ["rerun RUN [TASK] [--model NAME] [--json]", "the same once more, or with another model or task"],
      ["answer RUN TEXT [--json]", "answer what it asks, in words or by number; yes, run, always or no to an approval"],
    ],
    options: {
      json: JSON_FLAG,
      once: { type: "boolean", about: "list: as it is now, and end" },
      follow: { type: "boolean", short: "f", about: "log: go on until the run ends" },
      lines: { type: "string", short: "n", value: "COUNT", about: "log: how many to begin with (20)" },
      chat: { type: "string", value: "ID", about: "spawn: which chat of the page (main)" },
      model: { type: "string", value: "NAME", about: "rerun: with this model" },
    },
    notes: `RUN is an id or its beginning (4 signs or more), a label, or last. While no gateway runs, list, info and log read the state folder.`,
    endsItself: true,
    run: async (call) => (await import("./runs.ts")).runs(call),
  },
  {
    name: "pair",
    summary: "Let people in, or keep them out",
    usage: [
      ["", "who is paired, waits or was refused"],
      ["CODE", "let the person in who was shown this code"],
      ["refuse CODE", "keep them out; they are told so once"],
      ["revoke CHANNEL ID", "take it back: who was let in is a stranger again, who was refused may ask again"],
    ],
    options: {},
    isRaw: true,
    run: async (call) => (await import("./pair.ts")).pair(call),
  },
  {
    name: "auth",
    summary: "Keep keys of model providers for an agent",
    usage: [
      ["set AGENT PROVIDER", "reads the key from stdin"],
      ["remove AGENT PROVIDER", ""],
      ["list", ""],
    ],
    options: {},
    isRaw: true,
    run: async (call) => (await import("./auth.ts")).auth(call),
  },
  {
    name: "token",
    summary: "Make, list and take back tokens for other programs",
    usage: [
      ["[list] [--json]", "the tokens there are"],
      ["new NAME [--scope LIST] [--chat KEY] [--agent ID] [--days N]", "make one; it is shown once"],
      ["revoke NAME", "take it back: its next request is refused, and what waits ends"],
    ],
    options: {
      scope: { type: "string", value: "LIST", about: `new: what it may do, of ${SCOPES.join(",")} (spawn,read)` },
      chat: {
        type: "string",
        value: "KEY",
        about: "new: announce its runs in this chat too: a session key, as the page and /subagents show it",
      },
      agent: { type: "string", value: "ID", about: "new: whose session it is (the chat's agent, or the default one)" },
      days: { type: "string", value: "N", about: "new: how long it holds (until it is taken back)" },
      json: JSON_FLAG,
    },
    run: async (call) => (await import("./token.ts")).token(call),
  },
  {
    name: "move",
    summary: "Bring everything into PostgreSQL, or back",
    usage: [
      ["--to postgres", "from the state folder into the database of store.url or DATABASE_URL"],
      ["--to postgres://…", "into this one; npm prints the address together with the command"],
      ["--to embedded", "from the database of store.url or DATABASE_URL into the state folder"],
      ["--to embedded --aside", "what the state folder holds is put aside first, in a folder of its own"],
    ],
    options: {},
    isRaw: true,
    notes: "Stop Herald first, on every machine. It can be broken off and repeated; the side it comes from is only read.",
    isWork: true,
    run: async (call) => (await import("./move.ts")).move(call),
  },
  {
    name: "doctor",
    summary: "Look whether everything it needs is there, and say what to do",
    usage: [["[--online] [--json]", "exit code 1 when something has to be done first"]],
    options: {
      json: JSON_FLAG,
      online: { type: "boolean", about: "also ask providers and platforms whether they take your keys and tokens" },
    },
    run: async (call) => (await import("./doctor.ts")).doctor(call),
  },
  {
    name: "backup",
    summary: "Write everything into one file, also while the gateway runs",
    usage: [["FILE [--with-secrets]", "a .tar.gz; a file that is there is not replaced"]],
    options: { "with-secrets": { type: "boolean", about: "keys, tokens and .env too: whoever has the file then has them" } },
    notes: "Rows, transcripts, documents, the workspaces below the state folder, settings. PostgreSQL is backed up with pg_dump.",
    endsItself: true,
    isWork: true,
    run: async (call) => (await import("./backup.ts")).backup(call),
  },
  {
    name: "restore",
    summary: "Make a state folder of a backup",
    usage: [["FILE", "into the state folder, which has to be empty; all or nothing"]],
    options: {},
    endsItself: true,
    isWork: true,
    run: async (call) => (await import("./backup.ts")).restore(call),
  },
  {
    name: "service",
    summary: "Print a systemd unit for this folder, or install it",
    usage: [["[--as USER] [--install]", "one of your own user; with --as one of the system that runs as USER"]],
    options: {
      as: { type: "string", value: "USER", about: "a unit of the system that runs as this user" },
      install: { type: "boolean", about: "write it where systemd looks; one that says something else stays" },
    },
    run: async (call) => (await import("./unit.ts")).service(call),
  },
];
