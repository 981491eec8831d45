// Discord's ids: numbers of 64 bits as text, whose upper bits are the time. So the last id of a channel is a place in it to read on
// from, and two ids tell which came first.

/** Where their time begins. */
const EPOCH_MS = 1_420_070_400_000;

export const SNOWFLAKE = /^[1-9]\d{0,19}$/;

/** The smallest id of a moment. */
export const snowflakeAt = (at: number): string => String(BigInt(Math.max(0, Math.floor(at) - EPOCH_MS)) << 22n);

export const idBefore = (id: string): string => (id === "1" ? id : String(BigInt(id) - 1n));

export const isAfter = (id: string, other: string): boolean => BigInt(id) > BigInt(other);

export const laterOf = (id: string, other: string): string => (isAfter(id, other) ? id : other);

export const byAge = ({ id: a }: { readonly id: string }, { id: b }: { readonly id: string }): number =>
  a === b ? 0 : isAfter(a, b) ? 1 : -1;
