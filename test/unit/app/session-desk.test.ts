// Which conversations the page may read and write into (WB4).
import { expect, it } from "vitest";
import { createSessionDesk, type SessionDeskDeps } from "../../../src/app/session-desk.ts";
import { newId } from "../../../src/core/ids.ts";
import { createStateFolder } from "../../support/state-folder.ts";

it("[WB4] [PR1] a program's session is no conversation, also where its runs are announced in a chat", async () => {
  using folder = await createStateFolder();
  const { stores, clock, log } = folder;
  const address = { channel: "telegram", account: "bot", chat: "5551", kind: "dm" } as const;
  const make = async (key: string): Promise<string> => {
    const id = stores.sessions.newSessionId();
    await stores.db.transaction([], (tx) => stores.sessions.insert(tx, { id, key, agentId: "main", address, parentKey: null }));
    await clock.advance(1_000);
    return id;
  };
  const chat = await make("agent:main:telegram:dm:5551");
  const program = await make(`agent:main:mcp:${newId()}:ci`);
  const unused = { channels: { find: () => null }, conversations: {}, steering: {} } as unknown as SessionDeskDeps;
  const desk = createSessionDesk({ ...unused, stores, log });
  expect((await desk.list(null, 10)).sessions.map(({ id }) => id)).toEqual([chat]);
  expect([(await desk.find(chat))?.id, await desk.find(program)]).toEqual([chat, null]);
  expect(await desk.send(program, { key: "k", text: "hello" })).toBeNull();
  expect(await desk.stop(program)).toBeNull();
  expect(await desk.send(chat, { key: "k", text: "hello" })).toMatchObject({ status: "late" });
});
