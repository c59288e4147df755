import { findUnseenLines, markLinesUnlisted } from '../../erp/mirror/lines.ts';
import { drawReadNo } from '../../erp/mirror/read-no.ts';
import type { Family } from '../../erp/mirror/tables.ts';
import { nothingCounted, type Rescan, saveRescan } from '../../erp/rescan/rescans.ts';
import { commitReading, nothingRead } from '../commit/commit-reading.ts';
import type { Stream } from '../reading/stream.ts';
import { type PullContext, warn } from '../run/pull-context.ts';

/** Lines of a page that are asked for by id; more are left to the next reconciliation. */
const askedEach = 50;

/**
 * For lines that nothing lists: those stored for resources that were read with all that was included, but did not come
 * with them, are asked for by id. Those the service does not know are marked.
 */
export async function dealWithUnseenLines(
  context: PullContext,
  stream: Stream,
  rescan: Rescan,
  families: readonly Family[],
  pages = 1,
): Promise<Rescan> {
  const { lines } = stream;
  const maxAsked = askedEach * pages;
  const table = stream.tables.children.find(({ name }) => name === lines?.table);
  if (lines === undefined || table === undefined || rescan.kind !== 'reconcile') return rescan;
  const { client, db, warehouse, signal, run } = context;
  const parents = families.map(({ parent }) => parent.id);
  const seen = families.flatMap(({ children }) => children.flatMap(({ rows }) => rows.map(({ id }) => id as number)));
  const before = rescan.startedAt ?? run.startedAt;
  const unseen = await findUnseenLines(db, client, table, { parents, seen, before, limit: maxAsked + 1 });
  if (unseen.length > maxAsked)
    warn(context, `${stream.name}: many lines came without their parent; ${maxAsked} were asked for`);
  if (unseen.length === 0) return rescan;
  const readNo = await drawReadNo(db);
  const gone: number[] = [];
  for (const id of unseen.slice(0, maxAsked)) if (!(await warehouse.knows(lines.get, id, { signal }))) gone.push(id);
  if (gone.length === 0) return rescan;
  const { result } = await commitReading(context, stream, nothingRead(readNo), async (trx) => {
    const scope = { client, stream: stream.name, parent: stream.tables.parent.name };
    const changes = await markLinesUnlisted(trx, scope, table, gone, readNo);
    const step = { ...rescan, ...nothingCounted, extra: changes.length };
    return { changes, result: await saveRescan(trx, rescan, step, []) };
  });
  return result ?? rescan;
}
