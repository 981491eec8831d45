import { describe } from "vitest";
import { createSharedFolder, hasPostgres } from "../support/shared-folder.ts";
import { createStateFolder } from "../support/state-folder.ts";
import { storeContract } from "./stores.contract.ts";

storeContract("SQLite", createStateFolder);
describe.runIf(hasPostgres())("[SO1]", () => storeContract("PostgreSQL", createSharedFolder));
