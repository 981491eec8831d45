// Deleting a chat of the page: what was accepted there a moment ago is not deleted under whoever posted it. On both databases.
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import type { Agent } from "../../../src/agents/agent.ts";
import { createChatDesk } from "../../../src/app/chat-desk.ts";
import { createWebChannel, WEB, type WebChannel } from "../../../src/channels/web/channel.ts";
import { noFailpoints } from "../../../src/core/failpoints.ts";
import { newId } from "../../../src/core/ids.ts";
import { silentLogger } from "../../../src/core/logger.ts";
import { lock } from "../../../src/stores/lock-keys.ts";
import { createWebPosts } from "../../../src/stores/web-posts.ts";
import type { ChatDesk } from "../../../src/web/chats.ts";
import type { StoreRig } from "../../contract/stores.contract.ts";
import { createSharedFolder, hasPostgres } from "../../support/shared-folder.ts";
import { createStateFolder } from "../../support/state-folder.ts";

const AT_WORK = "An answer is being written in this chat. Stop it first.";
const KEY = "agent:main:web:dm:main";

function deletion(name: string, makeRig: () => Promise<StoreRig>): void {
  describe(`a chat that is deleted (${name})`, () => {
    let rig: StoreRig;
    let channel: WebChannel;
    let chats: ChatDesk;
    beforeEach(async () => {
      rig = await makeRig();
      channel = createWebChannel({ posts: createWebPosts(rig.stores, WEB), bus: rig.bus, split: (text) => [text] });
      await channel.start({} as never);
      chats = createChatDesk({
        ...{ stores: rig.stores, channel, clock: rig.clock, bus: rig.bus, log: silentLogger, failpoint: noFailpoints },
        agents: { defaultId: () => "main", find: () => null, list: () => [{ id: "main" } as Agent] },
        attaching: { sweep: async () => {} },
        commands: { list: () => [], isKnown: () => false },
      });
    });
    afterEach(() => rig[Symbol.asyncDispose]());
    const post = async (text: string, chat = "main", kind: "message" | "button" = "message"): Promise<string> => {
      const id = newId();
      await channel.accept({ id, chat, text, kind });
      return id;
    };
    const said = async () => (await rig.stores.webMessages.list("main", { limit: 10 })).map(({ text }) => text);

    it("[WB3] not under a message that was just posted, waits or is being answered; when it is through, with all that stood there", async () => {
      const { inbox, db } = rig.stores;
      const id = (await inbox.findUpdate(WEB, await post("hello")))?.id ?? 0;
      expect(await chats.remove("main")).toBe(AT_WORK);
      expect((await chats.about("main")).isAtWork).toBe(true);
      await inbox.route(id, KEY);
      expect(await chats.remove("main")).toBe(AT_WORK);
      await inbox.claim(KEY);
      expect(await chats.remove("main")).toBe(AT_WORK);
      expect(await said()).toEqual(["hello"]);
      await db.transaction([], (tx) => inbox.finish(tx, id));
      await post("somebody else's", newId());
      expect(await chats.remove("main")).toBeNull();
      expect(await said()).toEqual([]);
    });

    it("[WB3] not under a button that was just pressed, or a turn that no message asked for", async () => {
      const { inbox, db } = rig.stores;
      const pressed = (await inbox.findUpdate(WEB, await post("/stop", "main", "button")))?.id ?? 0;
      expect(await chats.remove("main")).toBe(AT_WORK);
      await db.transaction([], (tx) => inbox.finish(tx, pressed));
      await db.transaction([lock.tree(KEY)], (tx) => inbox.wake(tx, WEB, { key: "g", sessionKey: KEY, raw: {} }));
      expect(await chats.remove("main")).toBe(AT_WORK);
    });

    it("[WB3] posted at the same moment: refused, or what was posted stands in the chat that begins anew", async () => {
      for (let n = 0; n < 20; n++) {
        const [refusal] = await Promise.all([chats.remove("main"), post(`words ${n}`)]);
        expect(await said()).toContain(`words ${n}`);
        expect([null, AT_WORK]).toContain(refusal);
        for (const row of await rig.stores.inbox.listOpen(WEB))
          await rig.stores.db.transaction([], (tx) => rig.stores.inbox.finish(tx, row.id));
      }
    });
  });
}

deletion("SQLite", createStateFolder);
describe.runIf(hasPostgres())("[SO1]", () => deletion("PostgreSQL", createSharedFolder));
