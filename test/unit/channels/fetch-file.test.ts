// Files that people send, fetched by each channel and read later, as the intake does.
import { setTimeout as sleep } from "node:timers/promises";
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import { expect, it } from "vitest";
import { fetchFile as fromDiscord } from "../../../src/channels/discord/fetch-file.ts";
import { fetchFile as fromMatrix } from "../../../src/channels/matrix/fetch-file.ts";
import { fetchFile as fromSlack } from "../../../src/channels/slack/fetch-file.ts";
import { fetchFile as fromTelegram } from "../../../src/channels/telegram/fetch-file.ts";
import type { FetchedFile } from "../../../src/core/attachment.ts";
import { readBytes } from "../../../src/core/read-bytes.ts";
import { openFakeServer } from "../../support/fake-platform.ts";

setFlagsFromString("--expose-gc");
const collect = runInNewContext("gc") as () => void;

type Fetch = (origin: string, signal: AbortSignal) => Promise<FetchedFile>;

const CHANNELS: readonly [string, Fetch][] = [
  [
    "discord",
    (origin, signal) => {
      const getMessage = async () => ({ attachments: [{ id: "3", url: `${origin}/notes.txt` }] });
      const api = { channels: { getMessage } } as unknown as Parameters<typeof fromDiscord>[0]["api"];
      return fromDiscord({ api, apiUrl: origin, timeoutMs: 5_000 }, "1/2/3", signal);
    },
  ],
  ["matrix", (origin, signal) => fromMatrix({ homeserver: origin, accessToken: "t", timeoutMs: 5_000 }, "mxc://home.test/one", signal)],
  ["slack", (origin, signal) => fromSlack({ apiUrl: origin, botToken: "t", timeoutMs: 5_000 }, `${origin}/notes.txt`, signal)],
  [
    "telegram",
    (origin, signal) => {
      const api = { getFile: async () => ({ file_path: "documents/notes.txt" }) } as unknown as Parameters<typeof fromTelegram>[0]["api"];
      return fromTelegram({ api, apiRoot: origin, botToken: "1:t", timeoutMs: 5_000 }, "one", signal);
    },
  ],
];

it.each(CHANNELS)(
  "[CH2] %s: a file is whole when memory is cleared up between its first byte and its first reader",
  async (_name, fetchFile) => {
    const text = "all of it, ".repeat(1_000);
    const { port, close } = await openFakeServer(async (_request, response) => void response.end(text));
    try {
      const file = await fetchFile(`http://127.0.0.1:${port}`, new AbortController().signal);
      // The intake asks the database before it reads. Found by the collector, an answer is given up in a task of its own.
      for (let n = 0; n < 3; n++) {
        await sleep(20);
        collect();
      }
      await sleep(20);
      expect(file.status).toBe("open");
      expect(file.status === "open" && String(await readBytes(file.pieces, 1_000_000))).toBe(text);
    } finally {
      await close();
    }
  },
);
