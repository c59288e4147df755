import { dayMs } from '../core/time.ts';
import { serviceNow, warn } from '../schedule/run.ts';
import { underLease } from '../schedule/sql/leases.ts';
import {
  type CommittedPage,
  commitReading,
  type ExtraWrites,
  makeEmptyReading,
} from './commit-reading.ts';
import type { PullContext } from './pull-context.ts';
import { type ReadBatch, readByIds } from './read-by-ids.ts';
import { recordFindings } from './sql/findings.ts';
import type { Family } from './sql/mirror-tables.ts';
import { type Rescan, type RescanStep, saveRescan, zeroCounts } from './sql/rescans.ts';
import { drawReadNo, type RunTransaction } from './sql/stream-transaction.ts';
import { findUnseenChildren, markChildrenUnlisted } from './sql/unlisted.ts';
import { findWaiting } from './sql/waiting-reads.ts';
import { type Stream, toAgeColumns } from './stream.ts';
import { readIds } from './walk.ts';
import { toDateFilter, walkList } from './walk-list.ts';

/**
 * Maximum number of lines per page that are read by id. The next reconciliation reads the others.
 */
const maxAskedPerPage = 50;

/**
 * Checks lines that no relationship lists. If a parent came with all its lines, a stored line that
 * did not come with it is read by id, and marked as unlisted if the service does not know it.
 * @param families families whose lines were all included
 * @param pages number of list pages that the families come from
 */
async function checkUnseenLines(
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
  const seen = families.flatMap(({ children }) =>
    children.flatMap(({ rows }) => rows.map(({ id }) => id as number)),
  );
  const before = rescan.startedAt ?? run.startedAt;
  const unseen = await findUnseenChildren(db, client, table, {
    parents,
    seen,
    before,
    limit: maxAsked + 1,
  });
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
  const { result } = await commitReading(
    context,
    stream,
    makeEmptyReading(readNo),
    async (transaction) => {
      const changes = await markChildrenUnlisted(
        transaction,
        stream.tables.parent.name,
        table,
        gone,
        readNo,
      );
      const step = { ...rescan, ...zeroCounts, extra: changes.length };
      return { changes, result: await saveRescan(transaction.trx, rescan, step, []) };
    },
  );
  return result ?? rescan;
}

/**
 * Walks the remaining windows of a rescan, and heals what differs from the tables. Stores the
 * rescan's place with each page.
 * @param keep returns true for families that should be written
 * @returns the rescan after the walk
 */
export async function walkWindows(
  context: PullContext,
  stream: Stream,
  begun: Rescan,
  keep: (family: Family) => boolean = () => true,
): Promise<Rescan> {
  let rescan = begun;
  for (const window of (begun.windows ?? []).slice(begun.step)) {
    const { filter: attribute } = stream.rescan;
    const filter = attribute === null ? {} : toDateFilter(attribute, window);
    await walkList(
      context,
      stream,
      filter,
      rescan,
      async ({ page, query, meaning, lastId, atEnd, full }) => {
        const before = rescan;
        const fullList = before.fullList && !full;
        const samePlace = { query, lastId, meaning, fullList, step: before.step };
        const nextPlace = { ...samePlace, query: null, lastId: null, step: before.step + 1 };
        const write = async (transaction: RunTransaction, committed: CommittedPage) => {
          const counts = await countHealed(transaction, context, stream, before, committed);
          // If the last page has resources to read by id, its window ends after those reads. An
          // interruption repeats it.
          const place = atEnd && committed.mustReadById.size === 0 ? nextPlace : samePlace;
          const next: RescanStep = {
            ...place,
            ...counts,
            pages: page.pages,
            extra: 0,
            fetched: page.data.length,
          };
          const ids = before.kind === 'reconcile' ? readIds(page.data) : [];
          return { changes: [], result: await saveRescan(transaction.trx, before, next, ids) };
        };
        const committed = await commitReading(context, stream, page, write, keep);
        // Reads by id must not wait for memory while the page holds some.
        page.release();
        const { families, mustReadById } = committed.page;
        rescan = committed.result ?? rescan;
        const complete = families.filter(({ parent }) => !mustReadById.has(parent.id));
        rescan = await checkUnseenLines(context, stream, rescan, complete, page.pages);
        if (mustReadById.size > 0) {
          const unlinkedIds = families
            .map(({ parent }) => parent.id)
            .filter((id) => mustReadById.has(id));
          rescan = await readRescanByIds(
            context,
            stream,
            rescan,
            await chooseForReadById(context, stream, begun, unlinkedIds),
          );
        }
        if (atEnd && mustReadById.size > 0) {
          const done = rescan;
          rescan = await underLease(context.db, context.run.lease, (trx) =>
            saveRescan(trx, done, { ...nextPlace, ...zeroCounts }, []),
          );
        }
        context.onProgress?.(rescan);
      },
    );
  }
  return rescan;
}

/** Workers check the lines of these resources in this number of portions, one portion a day. */
const byIdPortions = 30;

/**
 * Chooses the resources to read by id, out of those whose lines came without a link to them. Only
 * such a read proves their lines. A command reads all of them. A worker reads those that wait for a
 * reread, and each day another portion of the others.
 */
async function chooseForReadById(
  context: PullContext,
  stream: Stream,
  rescan: Rescan,
  ids: readonly number[],
): Promise<readonly number[]> {
  if (!rescan.background) return ids;
  const waiting = new Set(await findWaiting(context.db, context.client, stream.name, ids));
  const portion = Math.floor(serviceNow(context).getTime() / dayMs) % byIdPortions;
  return ids.filter((id) => waiting.has(id) || id % byIdPortions === portion);
}

/**
 * Reads resources of a rescan by id.
 * @param onAbsent runs in the transaction of each batch, for ids that the service does not know;
 *   returns the rescan if it changes it
 */
export async function readRescanByIds(
  context: PullContext,
  stream: Stream,
  rescan: Rescan,
  ids: readonly number[],
  onAbsent: (
    transaction: RunTransaction,
    batch: ReadBatch,
  ) => Promise<ExtraWrites<Rescan> | null> = async () => null,
): Promise<Rescan> {
  const batches = await readByIds(context, stream, ids, {
    writeExtra: async (transaction, batch) => {
      const { missing, stale } = await countHealed(transaction, context, stream, rescan, batch);
      const step = { ...rescan, ...zeroCounts, missing, stale };
      const saved = await saveRescan(transaction.trx, rescan, step, []);
      const gone = await onAbsent(transaction, batch);
      const after = gone?.result ?? saved;
      return { changes: gone?.changes ?? [], result: { after, families: batch.families } };
    },
  });
  const families = batches.flatMap((batch) => batch.families);
  return checkUnseenLines(context, stream, batches.at(-1)?.after ?? rescan, families);
}

/**
 * Counts the rows that were not stored, or differed. For a reconciliation, records them as
 * findings.
 */
async function countHealed(
  transaction: RunTransaction,
  context: PullContext,
  stream: Stream,
  rescan: Rescan,
  { written }: CommittedPage,
): Promise<Pick<RescanStep, 'missing' | 'stale'>> {
  if (rescan.kind === 'reconcile') {
    const [age, now] = [toAgeColumns(stream), serviceNow(context)];
    await recordFindings(transaction, age, 'missing', written.inserted, now);
    await recordFindings(transaction, age, 'stale', written.changed, now);
  }
  return { missing: written.inserted.length, stale: written.changed.length };
}
