import { describeError } from '../../core/errors.ts';
import { readCursor } from '../../erp/pull/cursors.ts';
import { type RowPosition, readPositions } from '../../erp/pull/open-rows.ts';
import { setPageCursor } from '../../warehouse/transport/query.ts';
import { commitReading } from '../commit/commit-reading.ts';
import type { Stream } from '../reading/stream.ts';
import { type PullContext, warn } from '../run/pull-context.ts';
import { fetchPage, pageSize } from './list-page.ts';
import { isErrorOfOnePass } from './pass-runner.ts';

/** A page is read if it holds at least this number of the wanted rows. Below that, reads by id cost less. */
const minRowsPerPage = 3;
/**
 * Tolerated difference between a row's position in the list and here. A row may be listed but not stored, or the
 * reverse.
 */
const positionTolerance = 10;
/** Maximum number of pages that one poll reads in this way. A poll reads few other rows by id; the rest waits. */
const maxPages = 50;

/**
 * Reads rows by the pages of the list that hold several of them, which takes fewer requests than reads by id. The list
 * must be sorted by id. Reads nothing if the walk of the pass `new` has not yet learned the meaning of its cursors.
 * Skips a page that cannot be read.
 * @returns the ids that were found. Read the others by id.
 */
export async function readByPages(
  context: PullContext,
  stream: Stream,
  ids: readonly number[],
): Promise<ReadonlySet<number>> {
  const found = new Set<number>();
  if (ids.length < minRowsPerPage) return found;
  const { db, client, signal } = context;
  // This run may have moved the cursor.
  const { query, meaning } = await readCursor(db, client, stream.name, 'new');
  if (query === null || (meaning !== 'id' && meaning !== 'offset')) return found;
  const wanted = new Set(ids);
  const pages = groupByPage(await readPositions(db, client, stream.tables.parent.name, ids)).slice(0, maxPages);
  for (const { first } of pages) {
    const cursor = meaning === 'id' ? first.id - 1 : Math.max(0, first.position - positionTolerance);
    try {
      const page = await fetchPage(context, stream, setPageCursor(query, cursor), signal);
      const committed = await commitReading(context, stream, page);
      const { families, readById } = committed.page;
      for (const { parent } of families) if (wanted.has(parent.id) && !readById.has(parent.id)) found.add(parent.id);
    } catch (error) {
      if (!isErrorOfOnePass(error)) throw error;
      warn(context, `${stream.name}: a page could not be read (${describeError(error)}); its rows are read by id`);
    }
  }
  return found;
}

/** Groups rows into pages that hold at least `minRowsPerPage` of them each. */
function groupByPage(rows: readonly RowPosition[]): { readonly first: RowPosition; readonly rows: number }[] {
  const pages: { first: RowPosition; rows: number }[] = [];
  for (const row of [...rows].sort((a, b) => a.position - b.position)) {
    const page = pages.at(-1);
    if (page === undefined || row.position >= page.first.position + pageSize - 2 * positionTolerance)
      pages.push({ first: row, rows: 1 });
    else page.rows++;
  }
  return pages.filter((page) => page.rows >= minRowsPerPage);
}
