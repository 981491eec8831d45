// Where a command reads of runs: from the gateway, or from the state folder while no gateway serves it.
import { existsSync } from "node:fs";
import { join } from "node:path";
import { findStateDir, findStoreUrl } from "../config/config.ts";
import type { BoardRow, RunDetail } from "../web/board.ts";
import type { AskedQuestion } from "../web/questions.ts";
import type { LogView } from "../web/run-log.ts";
import { findGateway, type Gateway, GatewayAway, Refused } from "./gateway.ts";
import type { Terminal } from "./terminal.ts";

export interface RunRecord extends RunDetail {
  readonly questions?: readonly AskedQuestion[];
}

export interface LogPage {
  readonly entries: readonly LogView[];
  readonly before: number | null;
}

export interface RunReader {
  /** Null: it is read from the folder. */
  readonly gateway: Gateway | null;
  list(): Promise<readonly BoardRow[]>;
  /** Null: there is no such run. */
  find(id: string): Promise<RunRecord | null>;
  /** Empty while nothing is written of it. */
  log(id: string, range: { readonly before: number | null; readonly limit: number }): Promise<LogPage>;
  close(): void;
}

const MAX_RUNS = 100;
const OLDER = "The gateway that runs is of an older version and tells its words to browsers only: restart it.";
const NO_LOG: LogPage = { entries: [], before: null };

/** Says on stderr when it is the folder. Throws GatewayAway when neither can be read. */
export async function openReader(terminal: Terminal): Promise<RunReader> {
  try {
    const reader = overGateway(findGateway(terminal));
    // A link is left behind by one that was killed.
    await reader.list();
    return reader;
  } catch (error) {
    if (!(error instanceof GatewayAway)) throw error;
    const reader = await inFolder(terminal, error);
    terminal.remark(`${error.message} This is what its state folder holds.`);
    return reader;
  }
}

export function overGateway(gateway: Gateway): RunReader {
  return {
    gateway,
    list: async () => (await gateway.get<{ runs: BoardRow[] }>("/api/runs")).runs,
    find: (id) => orNone(gateway.get<RunRecord>(`/api/runs/${id}?as=text`), null),
    async log(id, { before, limit }) {
      const query = `as=text&limit=${limit}${before === null ? "" : `&before=${before}`}`;
      const page = await orNone(gateway.get<LogPage>(`/api/runs/${id}/transcript?${query}`), NO_LOG);
      if (page.entries.some(({ text }) => text === undefined)) throw new Error(OLDER);
      return page;
    },
    close() {},
  };
}

async function orNone<T, N>(asked: Promise<T>, none: N): Promise<T | N> {
  try {
    return await asked;
  } catch (error) {
    if (error instanceof Refused && error.status === 404) return none;
    throw error;
  }
}

async function inFolder(terminal: Terminal, away: GatewayAway): Promise<RunReader> {
  const at = { env: terminal.env, cwd: terminal.cwd };
  const stateDir = findStateDir(at);
  if (findStoreUrl(at) !== undefined)
    throw new GatewayAway(`${away.message} Its runs are in PostgreSQL: start it here, or ask on a machine where it runs.`);
  if (!existsSync(join(stateDir, "herald.db"))) throw new GatewayAway(`${away.message} Nor has it ever: there is nothing to read.`);
  const [{ openFolderBoard }, { orderRuns }, { logTexts }] = await Promise.all([
    import("../app/folder-board.ts"),
    import("../web/board.ts"),
    import("../web/run-log.ts"),
  ]);
  const { board, details, close } = openFolderBoard(stateDir);
  return {
    gateway: null,
    list: async () => orderRuns(await board.listRuns({ limit: MAX_RUNS })),
    find: (id) => details.find(id),
    async log(id, range) {
      const page = await details.transcript(id, range);
      // Known secrets were replaced when it was written.
      return page === null ? NO_LOG : { entries: logTexts(page.entries, (text) => text), before: page.before };
    },
    close,
  };
}
