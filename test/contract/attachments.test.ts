import { mkdirSync, readdirSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { newId } from "../../src/core/ids.ts";
import { createByteRows } from "../../src/stores/byte-rows.ts";
import { createFileRig, inPieces } from "../support/files.ts";
import { createSharedFolder, hasPostgres } from "../support/shared-folder.ts";
import { createStateFolder } from "../support/state-folder.ts";
import { attachmentContract } from "./attachments.contract.ts";

attachmentContract("files", async () => {
  const folder = await createStateFolder();
  const { stateDir, clock, stores } = folder;
  return { db: stores.db, clock, stateDir, bytes: stores.attachmentBytes, [Symbol.asyncDispose]: async () => folder[Symbol.dispose]() };
});

attachmentContract("rows in SQLite", async () => {
  const folder = await createStateFolder();
  const { stateDir, clock, stores } = folder;
  const { db } = stores;
  // Only PostgreSQL's schema has it: whoever works on SQLite is alone on a folder.
  const table = "CREATE TABLE attachment_pieces (attachment_id TEXT, n INTEGER, data TEXT, at INTEGER, PRIMARY KEY (attachment_id, n))";
  await db.transaction([], (tx) => tx.run(table));
  return { db, clock, stateDir, bytes: createByteRows({ db, clock }), [Symbol.asyncDispose]: async () => folder[Symbol.dispose]() };
});

describe.runIf(hasPostgres())("[SO1]", () =>
  attachmentContract("PostgreSQL", async () => {
    const folder = await createSharedFolder();
    const { stores, clock } = folder;
    return {
      db: stores.db,
      clock,
      stateDir: "",
      bytes: stores.attachmentBytes,
      [Symbol.asyncDispose]: () => folder[Symbol.asyncDispose](),
    };
  }),
);

it("[CH2] [RN6] files are the gateway's alone, and half a one is never taken for whole", async () => {
  using folder = await createStateFolder();
  const { stores, clock, stateDir } = folder;
  const rig = createFileRig(stores.db, clock, stateDir);
  const taken = await rig.intake.take({ origin: "upload:1", chat: "a", message: null, name: "a", pieces: inPieces(Buffer.from("x")) });
  if ("refused" in taken) return expect.unreachable(taken.refused);
  const kept = join(stateDir, "attachments");
  expect(statSync(kept).mode & 0o777).toBe(0o700);
  expect(statSync(join(kept, taken.file.id)).mode & 0o777).toBe(0o600);
  const killed = newId();
  mkdirSync(kept, { recursive: true });
  writeFileSync(join(kept, `${killed}.part`), "half");
  expect(await rig.bytes.read(killed)).toBeNull();
  expect(await rig.bytes.listBefore(Number.MAX_SAFE_INTEGER)).toContain(killed);
  await rig.bytes.remove([killed]);
  expect(readdirSync(kept)).toEqual([taken.file.id]);
});

it("[CH2] what is removed while it is read is gone, never half of it", async () => {
  using folder = await createStateFolder();
  const { clock, stores } = folder;
  const { db } = stores;
  const table = "CREATE TABLE attachment_pieces (attachment_id TEXT, n INTEGER, data TEXT, at INTEGER, PRIMARY KEY (attachment_id, n))";
  await db.transaction([], (tx) => tx.run(table));
  const id = newId();
  const rows = createByteRows({ db, clock });
  await rows.write(id, inPieces(Buffer.alloc(500_000, 1)));
  const get: typeof db.get = async (sql, ...values) => {
    const row = await db.get<never>(sql, ...values);
    if (values[1] === 0) await rows.remove([id]);
    return row;
  };
  expect(await createByteRows({ db: { ...db, get }, clock }).read(id)).toBeNull();
});
