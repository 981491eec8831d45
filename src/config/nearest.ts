// The name somebody probably meant: for refusals of keys and tool names there are not.

/** The nearest of `known` as a hint, blank in front, or nothing when none is near. */
export function didYouMean(text: string, known: readonly string[]): string {
  const [nearest] = known
    .map((name) => ({ name, distance: editDistance(text.slice(0, 64), name) }))
    .sort((a, b) => a.distance - b.distance);
  return nearest !== undefined && nearest.distance <= Math.max(2, nearest.name.length / 3) ? ` Did you mean ${nearest.name}?` : "";
}

/** Upper and lower case are the same letter. */
function editDistance(a: string, b: string): number {
  let row = Array.from({ length: b.length + 1 }, (_, i) => i);
  for (let i = 1; i <= a.length; i++) {
    const next = [i];
    for (let j = 1; j <= b.length; j++) {
      const swap = (row[j - 1] ?? 0) + (a[i - 1]?.toLowerCase() === b[j - 1]?.toLowerCase() ? 0 : 1);
      next.push(Math.min(swap, (row[j] ?? 0) + 1, (next[j - 1] ?? 0) + 1));
    }
    row = next;
  }
  return row[b.length] ?? 0;
}
