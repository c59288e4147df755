/** A line of a payload or of a resource. A payload may lack members that are optional. */
interface Line {
  readonly sku?: string | null | undefined;
  readonly quantity?: number | null | undefined;
}

/**
 * Compares lines by sku and quantity. A sku whose quantity the row leaves open is compared without it.
 * @returns the difference in words; null if they are equal
 */
export function describeLineDifference(asked: readonly Line[], found: readonly Line[]): string | null {
  const isOpen = ({ quantity }: Line) => quantity === undefined || quantity === null;
  const open = new Set(asked.filter(isOpen).map(({ sku }) => sku ?? ''));
  const [wanted, seen] = [sumLines(asked, open), sumLines(found, open)];
  return wanted === seen ? null : `it has ${seen || 'no lines'}, but the row asks for ${wanted || 'no lines'}`;
}

function sumLines(lines: readonly Line[], open: ReadonlySet<string>): string {
  const sums = new Map<string, number>();
  for (const { sku, quantity } of lines) sums.set(sku ?? '', (sums.get(sku ?? '') ?? 0) + (quantity ?? 0));
  return [...sums]
    .sort(([a], [b]) => (a < b ? -1 : 1))
    .map(([sku, sum]) => (open.has(sku) ? `any x ${sku}` : `${sum} x ${sku}`))
    .join(', ');
}
