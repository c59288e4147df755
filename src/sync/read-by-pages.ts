import { type Placed, placesOf } from '../erp/open-rows.ts';
import { readCursor } from '../erp/progress.ts';
import { withCursor } from '../warehouse/query.ts';
import { fetchPage, pageSize } from './list-page.ts';
import { commitReading } from './pull.ts';
import type { PullContext } from './pull-context.ts';
import type { Stream } from './stream.ts';

/** Rows that a page must bring, so that it is worth more than reading them by id: a page is the larger answer. */
const worthAPage = 3;
/** Places by which a row may stand elsewhere in the list than here: rows may be listed that are not stored, or the reverse. */
const slack = 10;

/**
 * Reads rows by the pages of the list on which they stand together, in a list that is sorted by id and whose cursors are
 * understood. That is learned by its first walk; where it is not, nothing is read.
 * @returns the ids that were found so; the others are to be read by id
 */
export async function readByPages(
  context: PullContext,
  stream: Stream,
  ids: readonly number[],
): Promise<ReadonlySet<number>> {
  const found = new Set<number>();
  if (ids.length < worthAPage) return found;
  const { db, client, signal } = context;
  const { query, meaning } = await readCursor(db, client, stream.name, 'new');
  if (query === null || (meaning !== 'id' && meaning !== 'offset')) return found;
  const wanted = new Set(ids);
  for (const { first } of pagesOf(await placesOf(db, client, stream.tables.parent.name, ids))) {
    const cursor = meaning === 'id' ? first.id - 1 : Math.max(0, first.place - slack);
    const page = await fetchPage(context, stream, withCursor(query, cursor), signal);
    const { families, readById } = await commitReading(context, stream, page);
    for (const { parent } of families) if (wanted.has(parent.id) && !readById.has(parent.id)) found.add(parent.id);
  }
  return found;
}

/** Pages that hold several of these rows each. */
export function pagesOf(rows: readonly Placed[]): { readonly first: Placed; readonly rows: number }[] {
  const pages: { first: Placed; rows: number }[] = [];
  for (const row of [...rows].sort((a, b) => a.place - b.place)) {
    const page = pages.at(-1);
    if (page === undefined || row.place >= page.first.place + pageSize - 2 * slack) pages.push({ first: row, rows: 1 });
    else page.rows++;
  }
  return pages.filter((page) => page.rows >= worthAPage);
}
