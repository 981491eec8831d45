// What was used, for the page: the ledger's days with those that used most told apart, and what is left of the limits of today.
// ledger, budgets → web/usage.ts
import type { Payments } from "../budgets/payments.ts";
import { leftWords, spentWords } from "../budgets/words.ts";
import { type LevelNow, shareOf } from "../core/budget.ts";
import { type Clock, dayOf } from "../core/clock.ts";
import type { LedgerBy, LedgerName, LedgerRange, LedgerRow, LedgerSum } from "../stores/ledger.ts";
import type { UsageBudget, UsageDesk, UsageSeries, UsageSum } from "../web/usage.ts";
import type { Stores } from "./store-parts.ts";

export interface UsageDeskDeps {
  readonly stores: Pick<Stores, "ledger">;
  readonly payments: Pick<Payments, "overall" | "ofToday">;
  readonly clock: Clock;
  agents(): readonly string[];
}

const DAY_MS = 24 * 3_600_000;
/** More lines than these nobody tells apart. */
const MAX_SERIES = 8;
/** Enough to say how many are left over. */
const MAX_NAMES = 500;
const MAX_PEOPLE = 50;

export function createUsageDesk(deps: UsageDeskDeps): UsageDesk {
  const { ledger } = deps.stores;
  return {
    async read({ days: count, by }) {
      const days = Array.from({ length: count }, (_, n) => dayOf(deps.clock.now() - (count - 1 - n) * DAY_MS));
      const range = { from: days[0] ?? "", to: days.at(-1) ?? "" };
      const all = toSeries({ name: null, label: "Everything" }, days, await ledger.days(range.from, range.to));
      const parts = by === "all" ? { series: [all], others: 0 } : await partsOf(deps, { by, range, days, all });
      return { by, days, ...parts, total: all.total, budgets: await budgetsOf(deps, range.to) };
    },
  };
}

interface Parted {
  readonly by: LedgerBy;
  readonly range: LedgerRange;
  readonly days: readonly string[];
  readonly all: UsageSeries;
}

async function partsOf({ stores: { ledger } }: UsageDeskDeps, { by, range, days, all }: Parted) {
  const names = await ledger.names(by, range, MAX_NAMES);
  const own = names.slice(0, names.length === MAX_SERIES ? MAX_SERIES : MAX_SERIES - 1);
  const rows = Map.groupBy(
    await ledger.daysOf(
      by,
      range,
      own.map(({ name }) => name),
    ),
    ({ name }) => name,
  );
  const series = own.map((one) => toSeries({ name: one.name, label: labelOf(by, one) }, days, rows.get(one.name) ?? []));
  const others = names.length - own.length;
  return { series: others === 0 ? series : [...series, rest(all, series)], others };
}

function labelOf(by: LedgerBy, { name, label, channel }: LedgerName): string {
  if (by === "channel") return name === "" ? "no channel" : name;
  if (by !== "person") return name;
  const id = name.slice(name.indexOf("/") + 1);
  const where = channel === null || channel === "" ? "" : ` (${channel})`;
  return `${id === "" ? "not known" : (label ?? id)}${where}`;
}

const NOTHING: LedgerSum = { runs: 0, calls: 0, unpriced: 0, input: 0, output: 0, costUsd: 0 };

const plus = (a: LedgerSum, b: LedgerSum, sign = 1): LedgerSum => ({
  runs: a.runs + sign * b.runs,
  calls: a.calls + sign * b.calls,
  unpriced: a.unpriced + sign * b.unpriced,
  input: a.input + sign * b.input,
  output: a.output + sign * b.output,
  costUsd: a.costUsd + sign * b.costUsd,
});

/** A cost of nothing is one only where a price was known. */
const toSum = ({ runs, calls, unpriced, input, output, costUsd }: LedgerSum): UsageSum => ({
  ...{ runs, calls, unpriced, input, output },
  costUsd: calls > 0 && calls === unpriced ? null : costUsd,
});

function toSeries(about: Pick<UsageSeries, "name" | "label">, days: readonly string[], rows: readonly LedgerRow[]): UsageSeries {
  const byDay = new Map(rows.map((row) => [row.day, row]));
  const own = days.map((day) => byDay.get(day) ?? null);
  const total = rows.reduce((sum, row) => plus(sum, row), NOTHING);
  return { ...about, total: toSum(total), days: own.map((row) => (row === null ? null : toSum(row))) };
}

/** All that is not of these. */
function rest(all: UsageSeries, series: readonly UsageSeries[]): UsageSeries {
  const left = (pick: (one: UsageSeries) => UsageSum | null | undefined): LedgerSum =>
    series.reduce((sum, one) => plus(sum, fromSum(pick(one)), -1), fromSum(pick(all)));
  const days = all.days.map((_, n) => left((one) => one.days[n]));
  const isUsed = ({ calls, runs }: LedgerSum): boolean => calls > 0 || runs > 0;
  return {
    name: null,
    label: "Others",
    total: toSum(left((one) => one.total)),
    days: days.map((day) => (isUsed(day) ? toSum({ ...day, costUsd: Math.max(0, day.costUsd) }) : null)),
  };
}

const fromSum = (sum: UsageSum | null | undefined): LedgerSum => (sum == null ? NOTHING : { ...sum, costUsd: sum.costUsd ?? 0 });

/** Of the installation, its agents, and the people who used something today. */
async function budgetsOf({ stores: { ledger }, payments, agents }: UsageDeskDeps, today: string): Promise<UsageBudget[]> {
  const people = await ledger.names("person", { from: today, to: today }, MAX_PEOPLE);
  const persons = people.flatMap((one) => {
    const [channel = "", id = ""] = split(one.name);
    return id === "" ? [] : [{ channel, id, name: labelOf("person", one) }];
  });
  const levels = [...(await payments.overall()), ...(await payments.ofToday({ agents: agents(), persons }))];
  return levels.map((level: LevelNow) => ({ name: level.name, ...spentWords(level), share: shareOf(level), left: leftWords(level) }));
}

const split = (name: string): string[] => [name.slice(0, name.indexOf("/")), name.slice(name.indexOf("/") + 1)];
