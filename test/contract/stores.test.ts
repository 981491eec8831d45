import { describe } from "vitest";
import { createSharedFolder, hasPostgres } from "../support/shared-folder.ts";
import { createStateFolder } from "../support/state-folder.ts";
import { accountContract } from "./accounts.contract.ts";
import { budgetContract } from "./budgets.contract.ts";
import { ledgerContract } from "./ledger.contract.ts";
import { runSearchContract } from "./run-search.contract.ts";
import { storeContract } from "./stores.contract.ts";
import { webChatsContract } from "./web-chats.contract.ts";

const CONTRACTS = [storeContract, accountContract, budgetContract, ledgerContract, runSearchContract, webChatsContract];

for (const contract of CONTRACTS) contract("SQLite", createStateFolder);
describe.runIf(hasPostgres())("[SO1]", () => {
  for (const contract of CONTRACTS) contract("PostgreSQL", createSharedFolder);
});
