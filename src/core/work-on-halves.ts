/**
 * Does work for the first half of the items, then for the second half. If the work fails for
 * several items, it calls this function again with these items, until it has found the item that
 * causes the failure.
 * @param items two or more
 */
export async function workOnHalves<Item, Result>(
  items: readonly Item[],
  work: (half: readonly Item[]) => Promise<Result>,
): Promise<readonly [Result, Result]> {
  const middle = Math.ceil(items.length / 2);
  return [await work(items.slice(0, middle)), await work(items.slice(middle))];
}
