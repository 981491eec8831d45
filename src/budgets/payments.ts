// Who pays for which call, and from what: the purse of a run and of a chat's turn, the small reserve a run keeps for its last call (BG4),
// and what is said about a run's own limit. Where nothing is limited there is no purse, and nobody pays for looking.
import type { Address } from "../core/address.ts";
import { type Amount, type Cap, LEAST_OUTPUT, type Level, type LevelNow, microUsd } from "../core/budget.ts";
import type { Person } from "../core/question.ts";
import type { Run } from "../core/run.ts";
import type { Purse, Usage } from "../core/usage.ts";
import type { Tx } from "../stores/database.ts";
import type { Runs } from "../stores/runs.ts";
import { type BudgetSettings, type Everybody, levelsOf, levelsOfToday, overallLevels, type Payer, runLevelId } from "./levels.ts";
import { createLandingPurse, createPurse, type PurseDeps, untilSettled } from "./purse.ts";
import { overText } from "./words.ts";

/** A chat's turn, as far as it pays. */
export interface PayingTurn {
  readonly message: string;
  readonly sessionKey: string;
  readonly agentId: string;
  readonly address: Address;
  readonly person: Person | null;
}

export interface Payments {
  /** Undefined: nothing limits its calls. */
  ofRun(run: Run): Promise<Purse | undefined>;
  ofTurn(turn: PayingTurn): Purse | undefined;
  /** The limits a chat is under besides those of one message and of runs, as they stand. */
  levelsOf(turn: PayingTurn): Promise<LevelNow[]>;
  /** Null, or which limit above a spawn is used up already, in a sentence. `parent`: the run that spawns. */
  whyFull(turn: PayingTurn, parent: Run | null): Promise<string | null>;
  /**
   * Kept from its start for its last call; as much as its limits bear. Where only calls under way are in the way it waits for them, as its
   * first call would: of twenty that begin at once most would have no last word otherwise.
   */
  reserve(run: Run, signal: AbortSignal): Promise<void>;
  /** That reserve is there, and nobody has drawn it. */
  isKept(run: Run): Promise<boolean>;
  /** Pays one call from that reserve. */
  landing(run: Run): Purse;
  /** In the transaction that ends it. */
  release(tx: Tx, run: Run): Promise<void>;
  /** What is spent of its own limit; null: it has none. */
  ownLevel(run: Pick<Run, "id" | "label" | "budget">): Promise<LevelNow | null>;
  /** The same of many at once, by their ids; those without a limit are left out. */
  ownLevels(runs: readonly Pick<Run, "id" | "label" | "budget">[]): Promise<ReadonlyMap<string, LevelNow>>;
  /** What is spent of the limits of the whole installation, of its day and its month. */
  overall(): Promise<LevelNow[]>;
  /** What these have spent of theirs today. */
  ofToday(who: Everybody): Promise<LevelNow[]>;
}

export interface PaymentDeps extends PurseDeps {
  readonly runs: Pick<Runs, "get">;
  settings(): BudgetSettings;
  /** Of a model by its name; null: no price is known. */
  priceOf(model: string): (usage: Usage) => number | null;
  /** Can something be said there now? A program has no chat, and a channel may be off. */
  isReachable(to: Address): boolean;
  /** Says something in a chat, in the caller's transaction; once for each delivery. */
  say(tx: Tx, to: Address, message: { readonly delivery: string; readonly markdown: string }): Promise<void>;
}

/** A short last question and answer. */
const LANDING: Usage = { input: 5_000, output: 1_000, cacheRead: 0, cacheWrite: 0 };
/** Of a limit it has for itself, and of one that it shares: twenty children must not hold everything back for their last words. */
const OWN_SHARE = 1 / 4;
const SHARED_SHARE = 1 / 50;

export function createPayments(deps: PaymentDeps): Payments {
  const payerOf = async (run: Run): Promise<Payer> => ({
    runs: await lineOf(deps, run),
    message: run.message,
    rootKey: run.rootKey,
    person: run.person === null ? null : { ...run.person, channel: run.address.channel },
    agentId: run.agentId,
  });
  const payerOfTurn = ({ message, sessionKey, agentId, address, person }: PayingTurn): Payer => ({
    ...{ runs: [], message, rootKey: sessionKey, agentId },
    person: person === null ? null : { ...person, channel: address.channel },
  });
  const levelsFor = (payer: Payer): Level[] => levelsOf(deps.settings(), payer, deps.clock.now());
  const purseFor = (address: Address, payer: () => Promise<Payer>): Purse =>
    createPurse(deps, {
      levels: async () => levelsFor(await payer()),
      get unpriced() {
        return deps.settings().unpriced;
      },
      chat: address,
      isReachable: () => deps.isReachable(address),
      tell: (tx, { levelId, text }) => deps.say(tx, address, { delivery: `budget:${levelId}`, markdown: text }),
    });
  return {
    async ofRun(run) {
      const isLimited = levelsFor(await payerOf(run)).length > 0;
      // Its own limits are read again for each call: they may be raised while it works.
      return isLimited ? purseFor(run.address, async () => payerOf((await deps.runs.get(run.id)) ?? run)) : undefined;
    },
    ofTurn(turn) {
      const payer = payerOfTurn(turn);
      return levelsFor(payer).length === 0 ? undefined : purseFor(turn.address, async () => payer);
    },
    levelsOf: (turn) => deps.budgets.levels(levelsFor(payerOfTurn(turn)).filter(({ id }) => !id.startsWith("message:"))),
    async whyFull(turn, parent) {
      const levels = levelsFor(parent === null ? payerOfTurn(turn) : await payerOf(parent));
      const full = (await deps.budgets.levels(levels)).find(isFull);
      return full === undefined ? null : overText(full, { usd: 0, tokens: LEAST_OUTPUT });
    },
    async reserve(run, signal) {
      await untilSettled(deps, signal, async () => {
        const levels = levelsFor(await payerOf(run));
        const amount = reserveOf(levels, run, deps.priceOf(run.model));
        if (levels.length === 0 || (amount.usd === 0 && amount.tokens === 0)) return "over";
        const decided = await deps.db.transaction(deps.budgets.locksOf(levels), async (tx) =>
          (await deps.budgets.reserved(landingId(run))) === null ? deps.budgets.reserve(tx, landingId(run), levels, amount) : "kept",
        );
        return decided === "wait" ? null : decided;
      });
    },
    isKept: (run) => deps.budgets.isKept(landingId(run)),
    landing: (run) => createLandingPurse(deps, landingId(run)),
    async release(tx, run) {
      await deps.budgets.release(tx, landingId(run));
    },
    ownLevel: async (run) => (await ownLevels(deps, [run])).get(run.id) ?? null,
    ownLevels: (runs) => ownLevels(deps, runs),
    ofToday: (who) => deps.budgets.levels(levelsOfToday(deps.settings(), who, deps.clock.now())),
    overall: () => deps.budgets.levels(overallLevels(deps.settings(), deps.clock.now())),
  };
}

async function ownLevels(
  { budgets }: Pick<PaymentDeps, "budgets">,
  runs: readonly Pick<Run, "id" | "label" | "budget">[],
): Promise<ReadonlyMap<string, LevelNow>> {
  const limited = runs.flatMap(({ id, label, budget }) =>
    budget === null ? [] : [{ runId: id, id: runLevelId(id), name: `the run "${label}"`, cap: budget }],
  );
  const levels = await budgets.levels(limited);
  return new Map(limited.flatMap(({ runId }, n) => (levels[n] === undefined ? [] : [[runId, levels[n]]])));
}

const landingId = ({ id, generation }: Pick<Run, "id" | "generation">): string => `landing:${id}:${generation}`;

/** Not even the shortest answer could be paid for, whatever is asked. */
const isFull = ({ cap, spent, kept }: LevelNow): boolean =>
  (cap.usd !== null && spent.usd + kept.usd >= cap.usd) || (cap.tokens !== null && cap.tokens - spent.tokens - kept.tokens < LEAST_OUTPUT);

/** The run and those above it that sent it out, innermost first. */
async function lineOf(deps: Pick<PaymentDeps, "runs">, run: Run): Promise<Run[]> {
  const parent = run.requesterRunId === null ? null : await deps.runs.get(run.requesterRunId);
  return [run, ...(parent === null ? [] : await lineOf(deps, parent))];
}

function reserveOf(levels: readonly Level[], { id }: Run, costUsd: (usage: Usage) => number | null): Amount {
  const share = (level: Level, pick: (cap: Cap) => number | null): number => {
    const cap = pick(level.cap);
    return cap === null ? Number.POSITIVE_INFINITY : Math.floor(cap * (level.id === runLevelId(id) ? OWN_SHARE : SHARED_SHARE));
  };
  const usd = Math.min(microUsd(costUsd(LANDING) ?? 0), ...levels.map((level) => share(level, (cap) => cap.usd)));
  const tokens = Math.min(LANDING.input + LANDING.output, ...levels.map((level) => share(level, (cap) => cap.tokens)));
  return { usd, tokens };
}
