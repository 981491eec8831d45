// The tabs of a chaos run notice what a page must not do: show twice, leave out, mix up, stay behind.
import { describe, expect, it } from "vitest";
import { createTabs, type Tabs } from "../../chaos/tabs.ts";
import { waitFor } from "../../support/wait.ts";

const CHAT = [3, 5, 8].map((seq) => ({ chat: "a", seq }));
const OTHERS = [4, 6].map((seq) => ({ chat: "b", seq }));

/** A tab that is sent these messages, one connection after the other. */
async function shown(connections: readonly (readonly number[])[]): Promise<{ tabs: Tabs; cursors: string[] }> {
  const cursors: string[] = [];
  const tabs = createTabs({
    async request(_path, options) {
      const seqs = connections[cursors.length] ?? [];
      cursors.push(new Headers(options?.headers).get("last-event-id") ?? "");
      return new Response(seqs.map((seq) => `event: message\nid: ${seq}\ndata: {}\n\nevent: runs\ndata: []\n\n`).join(""));
    },
  });
  tabs.open("a");
  await waitFor("the tab to come back", () => cursors.length > connections.length);
  await tabs.close();
  return { tabs, cursors };
}

describe("tabs", () => {
  it("[RC1] one that is shown the chat over several connections has no fault, and goes on where it was", async () => {
    const { tabs, cursors } = await shown([[3], [5, 8]]);
    expect(tabs.faults([...CHAT, ...OTHERS])).toEqual([]);
    expect(cursors.slice(0, 3)).toEqual(["0", "3", "8"]);
  });

  it.each([
    [
      "twice",
      [
        [3, 5],
        [5, 8],
      ],
    ],
    ["not at all", [[3], [8]]],
    ["out of order", [[5, 3, 8]]],
    ["of another chat", [[3, 4, 5, 8]]],
  ])("[RC1] a message shown %s is a fault", async (_what, connections) => {
    const { tabs } = await shown(connections);
    expect(tabs.faults([...CHAT, ...OTHERS])).toEqual([expect.stringContaining("a tab on a was shown")]);
  });

  it("[RC1] what an open tab has not been shown yet is counted", async () => {
    const tabs = createTabs({ request: async () => new Response("event: message\nid: 3\ndata: {}\n\n") });
    tabs.open("a");
    await waitFor("the first message", () => tabs.behind(CHAT) < 3);
    expect(tabs.behind([...CHAT, ...OTHERS])).toBe(2);
    await tabs.close();
  });
});
