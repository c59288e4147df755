/**
 * Does work for the first half of the items, then for the second. Work that fails for several items calls this again with them.
 * So the item at fault is found.
 * @param items at least two
 */
export async function workOnHalves<Item, Result>(
  items: readonly Item[],
  work: (half: readonly Item[]) => Promise<Result>,
): Promise<readonly [Result, Result]> {
  const middle = Math.ceil(items.length / 2);
  return [await work(items.slice(0, middle)), await work(items.slice(middle))];
}
