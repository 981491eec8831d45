import { expect, it } from "vitest";
import { createStateFolder } from "../../support/state-folder.ts";

it("[SC1] says when somebody starts and stops waiting, once it is durable", async () => {
  using state = await createStateFolder();
  const { pairing } = state.stores;
  const address = { channel: "telegram", account: "bot", chat: "42", kind: "dm" } as const;
  const told = () => state.events.filter((event) => event.type === "pairing.changed").length;
  const code = pairing.request({ channel: "telegram", account: "bot", senderId: "42", senderName: "Ann", address }) ?? "";
  expect(told()).toBe(1);
  expect(pairing.approve("ABCDEFGH")).toBeNull();
  expect(told()).toBe(1);
  expect(pairing.approve(code)?.senderId).toBe("42");
  expect(told()).toBe(2);
});
