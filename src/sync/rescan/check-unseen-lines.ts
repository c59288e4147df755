import type { Family } from '../../erp/mirror/mirror-tables.ts';
import { drawReadNo } from '../../erp/mirror/read-no.ts';
import { findUnseenChildren, markChildrenUnlisted } from '../../erp/mirror/unlisted-children.ts';
import { type Rescan, saveRescan, zeroCounts } from '../../erp/rescan/rescans.ts';
import { commitReading, makeEmptyReading } from '../commit/commit-reading.ts';
import type { Stream } from '../reading/stream.ts';
import { type PullContext, warn } from '../run/pull-context.ts';

/** Maximum number of lines per page that are read by id. The next reconciliation reads the others. */
const maxAskedPerPage = 50;

/**
 * Checks lines that no relationship lists. If a parent came with all its lines, a stored line that did not come with it
 * is read by id, and marked as unlisted if the service does not know it.
 * @param families families whose lines were all included
 * @param pages number of list pages that the families come from
 */
export async function checkUnseenLines(
  context: PullContext,
  stream: Stream,
  rescan: Rescan,
  families: readonly Family[],
  pages = 1,
): Promise<Rescan> {
  const { lines } = stream;
  const maxAsked = maxAskedPerPage * pages;
  const table = stream.tables.children.find(({ name }) => name === lines?.table);
  if (lines === undefined || table === undefined || rescan.kind !== 'reconcile') return rescan;
  const { client, db, warehouse, signal, run } = context;
  const parents = families.map(({ parent }) => parent.id);
  const seen = families.flatMap(({ children }) => children.flatMap(({ rows }) => rows.map(({ id }) => id as number)));
  const before = rescan.startedAt ?? run.startedAt;
  const unseen = await findUnseenChildren(db, client, table, { parents, seen, before, limit: maxAsked + 1 });
  if (unseen.length > maxAsked)
    warn(
      context,
      `${stream.name}: more than ${maxAsked} lines did not come with their parents; ${maxAsked} were checked`,
    );
  if (unseen.length === 0) return rescan;
  const readNo = await drawReadNo(db);
  const gone: number[] = [];
  for (const id of unseen.slice(0, maxAsked))
    if (!(await warehouse.hasResource(lines.get, id, { signal }))) gone.push(id);
  if (gone.length === 0) return rescan;
  const { result } = await commitReading(context, stream, makeEmptyReading(readNo), async (transaction) => {
    const changes = await markChildrenUnlisted(transaction, stream.tables.parent.name, table, gone, readNo);
    const step = { ...rescan, ...zeroCounts, extra: changes.length };
    return { changes, result: await saveRescan(transaction.trx, rescan, step, []) };
  });
  return result ?? rescan;
}
