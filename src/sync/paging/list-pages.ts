import type { OperationName } from '../../../config/operations.ts';
import { WarehouseError } from '../../core/errors.ts';
import type { ListPage, Warehouse } from '../../warehouse/client.ts';
import { encodeQuery } from '../../warehouse/transport/query.ts';

/** A list of the service and the parameters for reading it. */
export interface ListQuery {
  readonly operation: OperationName;
  /** Members of the query: include, page size, filters. */
  readonly filter: Parameters<typeof encodeQuery>[0];
  /** A list with more pages than this counts as unreadable. */
  readonly maxPages: number;
  readonly signal: AbortSignal;
}

/**
 * Reads all pages of a list that a look-up needs whole.
 * @throws WarehouseError if a page cannot be read, or the list has more than `maxPages` pages
 */
export async function* listPages(
  warehouse: Warehouse,
  { operation, filter, maxPages, signal }: ListQuery,
): AsyncGenerator<ListPage, void, void> {
  let query: string | null = encodeQuery(filter);
  for (let pages = 0; query !== null; pages++) {
    if (pages === maxPages)
      throw new WarehouseError('endless_list', `${operation}: the list has more than ${maxPages} pages`, {
        outcome: 'unknown',
      });
    const page: ListPage = await warehouse.list(operation, query, { signal });
    if (page.next instanceof WarehouseError) throw page.next;
    yield page;
    query = page.data.length === 0 ? null : page.next;
  }
}
