import { createStateFolder } from "../support/state-folder.ts";
import { storeContract } from "./stores.contract.ts";

storeContract("SQLite", createStateFolder);
