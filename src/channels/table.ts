// A table as monospaced text, for chats that have no tables: columns padded, a rule under the head.

export type Align = "left" | "right" | "center" | null;

/** A table that grows past this by padding (one very long cell, thousands of columns) is drawn without. */
const MAX_LENGTH = 20_000;

/** The first row is the head. Rows may differ in length. */
export function drawTable(rows: readonly (readonly string[])[], align: readonly Align[]): string {
  const widths: number[] = [];
  for (const row of rows) {
    row.forEach((cell, n) => {
      widths[n] = Math.max(widths[n] ?? 0, [...cell].length);
    });
  }
  const lineLength = widths.reduce((sum, width) => sum + width + 3, 0);
  if (lineLength * rows.length > MAX_LENGTH) return rows.map((row) => row.join(" | ")).join("\n");
  const lines = rows.map((row) => widths.map((width, n) => pad(row[n] ?? "", width, align[n] ?? null)).join(" | "));
  lines.splice(1, 0, widths.map((width) => "-".repeat(width)).join("-|-"));
  return lines.map((line) => line.trimEnd()).join("\n");
}

function pad(text: string, width: number, align: Align): string {
  const room = " ".repeat(width - [...text].length);
  return align === "right" ? room + text : text + room;
}
