import { readdirSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { newId } from "../../src/core/ids.ts";
import { createDocumentRows } from "../../src/stores/document-rows.ts";
import { createSharedFolder, hasPostgres } from "../support/shared-folder.ts";
import { createStateFolder } from "../support/state-folder.ts";
import { type DocumentRig, documentContract } from "./documents.contract.ts";

documentContract("files", async () => {
  const folder = await createStateFolder();
  const { sessionDocuments } = folder.stores;
  return {
    documents: sessionDocuments,
    other: sessionDocuments,
    async names({ agentId, sessionId }) {
      const path = join(folder.stateDir, "agents", agentId, "sessions");
      return readdirSync(path).includes(sessionId) ? readdirSync(join(path, sessionId)) : [];
    },
    [Symbol.asyncDispose]: async () => folder[Symbol.dispose](),
  };
});

async function makeRows(): Promise<DocumentRig> {
  const folder = await createStateFolder();
  const { db } = folder.stores;
  // Only PostgreSQL's schema has it: whoever works on SQLite is alone on a folder.
  const table = "CREATE TABLE documents (session_id TEXT, name TEXT, text TEXT, changed_at INTEGER, PRIMARY KEY (session_id, name))";
  await db.transaction([], (tx) => tx.run(table));
  const open = () => createDocumentRows({ db: { ...db, write: (work) => db.transaction([], work) }, clock: folder.clock });
  return {
    documents: open(),
    other: open(),
    names: async ({ sessionId }) =>
      (await db.all<{ name: string }>("SELECT name FROM documents WHERE session_id = ?", sessionId)).map(({ name }) => name),
    [Symbol.asyncDispose]: async () => folder[Symbol.dispose](),
  };
}

documentContract("rows in SQLite", makeRows);
describe.runIf(hasPostgres())("[SO1]", () =>
  documentContract("PostgreSQL", async () => {
    const folder = await createSharedFolder();
    const { sessionDocuments, db } = folder.stores;
    return {
      documents: sessionDocuments,
      other: sessionDocuments,
      names: async ({ sessionId }) =>
        (await db.all<{ name: string }>("SELECT name FROM documents WHERE session_id = ?", sessionId)).map(({ name }) => name),
      [Symbol.asyncDispose]: () => folder[Symbol.asyncDispose](),
    };
  }),
);

it("[BP1] a change of a row that fails half-way leaves it as it was", async () => {
  await using rig = await makeRows();
  const ref = { agentId: "main", sessionId: newId() };
  const fail = rig.documents.change(ref, "trace.md", async (document) => {
    await document.append("half");
    throw new Error("no");
  });
  await expect(fail).rejects.toThrow("no");
  expect(await rig.names(ref)).toEqual([]);
});
