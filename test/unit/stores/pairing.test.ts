import { expect, it } from "vitest";
import { createStateFolder } from "../../support/state-folder.ts";

it("[SC1] says when somebody starts and stops waiting, once it is durable", async () => {
  using state = await createStateFolder();
  const { db, pairing } = state.stores;
  const address = { channel: "telegram", account: "bot", chat: "42", kind: "dm" } as const;
  const told = () => state.events.filter((event) => event.type === "pairing.changed").length;
  const code =
    (await db.transaction([], (tx) =>
      pairing.request(tx, { channel: "telegram", account: "bot", senderId: "42", senderName: "Ann", address }),
    )) ?? "";
  expect(told()).toBe(1);
  expect(await pairing.approve("ABCDEFGH")).toBeNull();
  expect(told()).toBe(1);
  expect((await pairing.approve(code))?.senderId).toBe("42");
  expect(told()).toBe(2);
});

it("[SC1] who asked in the same moment is listed in the same order every time", async () => {
  for (let round = 0; round < 5; round++) {
    using state = await createStateFolder();
    const { db, pairing } = state.stores;
    const address = { channel: "telegram", account: "bot", chat: "42", kind: "dm" } as const;
    for (const senderId of ["42", "43", "44"])
      await db.transaction([], (tx) => pairing.request(tx, { channel: "telegram", account: "bot", senderId, senderName: "", address }));
    expect((await pairing.listPending()).map((one) => one.senderId)).toEqual(["42", "43", "44"]);
  }
});
