import type { Transaction } from 'kysely';
import { dayMs } from '../../core/time.ts';
import type { DB } from '../../erp/generated/tables.ts';
import type { Change } from '../../erp/mirror/feed.ts';
import type { Family } from '../../erp/mirror/tables.ts';
import { findRereads } from '../../erp/pull/rereads.ts';
import { recordFindings } from '../../erp/rescan/findings.ts';
import { type DayWindow, nothingCounted, type Rescan, type RescanStep, saveRescan } from '../../erp/rescan/rescans.ts';
import { underLease } from '../../erp/runs/leases.ts';
import { type Beside, type Committed, commitReading } from '../commit/commit-reading.ts';
import { type ReadBatch, readByIds } from '../paging/by-id.ts';
import { walkPages } from '../paging/list-page.ts';
import { listQuery } from '../paging/passes.ts';
import { idsOf } from '../paging/walk.ts';
import { ageColumns, type Stream } from '../reading/stream.ts';
import { type PullContext, serviceNow } from '../run/pull-context.ts';
import { dealWithUnseenLines } from './unseen-lines.ts';

/**
 * Walks the windows of a rescan from where it stands to their end, and heals what the tables have otherwise.
 * @param keep which of the resources met are to be written
 * @returns the rescan as it stands then
 */
export async function walkWindows(
  context: PullContext,
  stream: Stream,
  begun: Rescan,
  keep: (family: Family) => boolean = () => true,
): Promise<Rescan> {
  let rescan = begun;
  for (const window of (begun.windows ?? []).slice(begun.step)) {
    const firstQuery = listQuery(stream, windowFilter(stream, window));
    for await (const { page, query, meaning, lastId, atEnd, full } of walkPages(
      context,
      stream,
      firstQuery,
      rescan,
      stream.rescan.sorted,
    )) {
      const before = rescan;
      const fullList = before.fullList && !full;
      const stay = { query, lastId, meaning, fullList, step: before.step };
      const goOn = { ...stay, query: null, lastId: null, step: before.step + 1 };
      const write = async (trx: Transaction<DB>, committed: Committed) => {
        const { healed, ...counts } = await countHealed(trx, context, stream, before, committed);
        // The last page is asked again after a cut, until what has to be read alone was.
        const place = atEnd && committed.readById.size === 0 ? goOn : stay;
        const next: RescanStep = { ...place, ...counts, pages: page.pages, extra: 0, fetched: page.data.length };
        const ids = before.kind === 'reconcile' ? idsOf(page.data) : [];
        return { changes: healed, result: await saveRescan(trx, before, next, ids) };
      };
      const committed = await commitReading(context, stream, page, write, keep);
      const { families, readById } = committed.page;
      rescan = committed.result ?? rescan;
      const told = families.filter(({ parent }) => !readById.has(parent.id));
      rescan = await dealWithUnseenLines(context, stream, rescan, told, page.pages);
      if (readById.size > 0) {
        const met = families.map(({ parent }) => parent.id).filter((id) => readById.has(id));
        rescan = await readAlone(context, stream, rescan, await toBeReadAlone(context, stream, begun, met));
      }
      if (atEnd && readById.size > 0) {
        const done = rescan;
        rescan = await underLease(context.db, context.run.lease, (trx) =>
          saveRescan(trx, done, { ...goOn, ...nothingCounted }, []),
        );
      }
      context.onProgress?.(rescan);
    }
  }
  return rescan;
}

/** The workers' reconciliations prove the lines of this many parts of these resources one after the other. */
const alonePortions = 30;

/**
 * Of resources whose lines came without a link to them, those to be read by id, which alone proves their lines: by a
 * command all; by a worker those that wait for such a read anyway, and each day another portion of the rest.
 */
async function toBeReadAlone(
  context: PullContext,
  stream: Stream,
  rescan: Rescan,
  ids: readonly number[],
): Promise<readonly number[]> {
  if (!rescan.background) return ids;
  const waiting = new Set(await findRereads(context.db, context.client, stream.name, ids));
  const portion = Math.floor(serviceNow(context).getTime() / dayMs) % alonePortions;
  return ids.filter((id) => waiting.has(id) || id % alonePortions === portion);
}

/**
 * Reads resources of a rescan by id.
 * @param onAbsent deals with ids that the service does not know; its result is the rescan after that, if it has changed
 */
export async function readAlone(
  context: PullContext,
  stream: Stream,
  rescan: Rescan,
  ids: readonly number[],
  onAbsent: (trx: Transaction<DB>, batch: ReadBatch) => Promise<Beside<Rescan> | null> = async () => null,
): Promise<Rescan> {
  const batches = await readByIds(context, stream, ids, {
    beside: async (trx, batch) => {
      const { healed, missing, stale } = await countHealed(trx, context, stream, rescan, batch);
      const step = { ...rescan, ...nothingCounted, missing, stale };
      const saved = await saveRescan(trx, rescan, step, []);
      const gone = await onAbsent(trx, batch);
      const after = gone?.result ?? saved;
      return { changes: [...healed, ...(gone?.changes ?? [])], result: { after, families: batch.families } };
    },
    unsettled: async () => [],
  });
  const families = batches.flatMap((batch) => batch.families);
  return dealWithUnseenLines(context, stream, batches.at(-1)?.after ?? rescan, families);
}

function windowFilter({ rescan: { filter } }: Stream, { after, before }: DayWindow): Record<string, string> {
  if (filter === null) return {};
  return {
    ...(after === null ? {} : { [`filter[${filter}][gt]`]: after }),
    ...(before === null ? {} : { [`filter[${filter}][lt]`]: before }),
  };
}

/** What a reading brought that the tables did not have, or had otherwise. */
interface Healed {
  /** Changes of columns that come from elsewhere, made here. */
  readonly healed: readonly Change[];
  readonly missing: number;
  readonly stale: number;
}

/** Counts, and for a reconciliation records, what a reading healed. */
async function countHealed(
  trx: Transaction<DB>,
  context: PullContext,
  stream: Stream,
  rescan: Rescan,
  { families, written }: Committed,
): Promise<Healed> {
  const ids = families.map(({ parent }) => parent.id);
  const healed = (await stream.healDerived?.(trx, context.client, ids)) ?? [];
  const inserted = new Set<number | null>(written.inserted);
  const changed = [...new Set([...written.changed, ...healed.map(({ id }) => id)])].filter((id) => !inserted.has(id));
  if (rescan.kind === 'reconcile') {
    const [age, now] = [ageColumns(stream), serviceNow(context)];
    await recordFindings(trx, rescan, age, 'missing', written.inserted, now);
    await recordFindings(trx, rescan, age, 'stale', changed as number[], now);
  }
  return { healed, missing: written.inserted.length, stale: changed.length };
}
