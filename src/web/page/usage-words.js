// Figures of what was used, as people read them.

/** 516, 11.2k, 1.3M: as /usage says it. */
export function countText(count) {
  if (count < 1000) return String(count);
  const [value, unit] = count < 999_950 ? [count / 1000, "k"] : [count / 1_000_000, "M"];
  return `${value.toFixed(1).replace(/\.0$/, "")}${unit}`;
}

/** Below a cent with the digits that matter. */
export const moneyText = (usd) => `$${usd === 0 || usd >= 0.01 ? usd.toFixed(2) : usd.toPrecision(2)}`;

/** A sum that is not of all says so; none is not nothing. */
export const costText = ({ costUsd, unpriced }) => (costUsd === null ? "–" : `${moneyText(costUsd)}${unpriced > 0 ? " +" : ""}`);
