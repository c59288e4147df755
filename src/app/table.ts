/** Lays rows out in columns as wide as their longest cell; numbers to the right. */
export function formatTable(headings: readonly string[], rows: readonly (readonly (string | number)[])[]): string {
  const widths = headings.map((heading, column) =>
    Math.max(heading.length, ...rows.map((row) => String(row[column] ?? '').length)),
  );
  const line = (cells: readonly (string | number)[]) =>
    cells
      .map((cell, column) => {
        const width = widths[column] ?? 0;
        return typeof cell === 'number' ? String(cell).padStart(width) : cell.padEnd(width);
      })
      .join('  ')
      .trimEnd();
  return [line(headings), ...rows.map(line)].join('\n');
}

/** A span for people: `4s`, `12m`, `3h`, `2d`; a dash where there is none. */
export function formatSpan(seconds: number | null): string {
  if (seconds === null) return '-';
  const [divisor, unit] =
    seconds < 100 ? [1, 's'] : seconds < 6_000 ? [60, 'm'] : seconds < 172_800 ? [3_600, 'h'] : [86_400, 'd'];
  return `${Math.max(0, Math.round(seconds / divisor))}${unit}`;
}
