// Tabs of the page in a chaos run: each follows one chat over the event stream, loses its connection with every kill, and
// takes it up again where it left off. What a tab was shown must be the chat itself: every message once, in order.
import { delay, type GatewayProcess } from "./gateway-process.ts";

export interface Tabs {
  /** Opens a tab on a chat; the oldest one is closed when there are too many. */
  open(chat: string): void;
  /** What the open ones have not been shown yet, given every message there is. */
  behind(messages: readonly ChatMessage[]): number;
  /** One sentence for each tab that was shown something twice, out of order, or missed something on the way. */
  faults(messages: readonly ChatMessage[]): string[];
  close(): Promise<void>;
}

export interface ChatMessage {
  readonly chat: string;
  readonly seq: number;
}

interface Tab {
  readonly chat: string;
  readonly shown: number[];
  readonly closing: AbortController;
  readonly reading: Promise<void>;
}

const MAX_OPEN = 12;
const RECONNECT_MS = 100;

export function createTabs(gateway: Pick<GatewayProcess, "request">): Tabs {
  const open: Tab[] = [];
  const closed: Tab[] = [];
  const closeOldest = (): void => {
    const tab = open.shift();
    if (tab === undefined) return;
    tab.closing.abort();
    closed.push(tab);
  };
  return {
    open(chat) {
      const shown: number[] = [];
      const closing = new AbortController();
      open.push({ chat, shown, closing, reading: follow(gateway, chat, shown, closing.signal) });
      if (open.length > MAX_OPEN) closeOldest();
    },
    behind: (messages) =>
      open.reduce((sum, tab) => sum + messages.filter(({ chat, seq }) => chat === tab.chat && seq > (tab.shown.at(-1) ?? 0)).length, 0),
    faults: (messages) => [...open, ...closed].flatMap((tab) => faultOf(tab, messages)),
    async close() {
      while (open.length > 0) closeOldest();
      await Promise.all(closed.map((tab) => tab.reading));
    },
  };
}

function faultOf({ chat, shown }: Tab, messages: readonly ChatMessage[]): string[] {
  const last = shown.at(-1) ?? 0;
  const wanted = messages.filter((message) => message.chat === chat && message.seq <= last).map((message) => message.seq);
  return wanted.join() === shown.join() ? [] : [`a tab on ${chat} was shown ${shown.join()} where the chat has ${wanted.join()}`];
}

/** Never rejects. What it has seen last, messages and changes of them, is the stream's to name. */
async function follow(gateway: Pick<GatewayProcess, "request">, chat: string, shown: number[], signal: AbortSignal): Promise<void> {
  const seen = { lastId: "0" };
  while (!signal.aborted) {
    try {
      const headers = { "last-event-id": seen.lastId };
      const response = await gateway.request(`/api/events?chat=${chat}&cursor=0`, { headers, signal });
      if (response.ok && response.body !== null) await read(response.body, shown, seen);
    } catch {
      // Nobody there right now: killed or not up yet.
    }
    await delay(RECONNECT_MS, signal);
  }
}

async function read(body: ReadableStream<Uint8Array>, shown: number[], seen: { lastId: string }): Promise<void> {
  const decoder = new TextDecoder();
  let rest = "";
  for await (const chunk of body) {
    const blocks = (rest + decoder.decode(chunk, { stream: true })).split("\n\n");
    rest = blocks.pop() ?? "";
    for (const block of blocks) {
      const id = /^id: ?(\S+)$/m.exec(block)?.[1];
      if (id === undefined) continue;
      seen.lastId = id;
      if (/^event: ?message$/m.test(block)) shown.push(Number.parseInt(id, 10));
    }
  }
}
