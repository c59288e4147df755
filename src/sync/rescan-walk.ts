import type { Transaction } from 'kysely';
import type { Change } from '../erp/feed.ts';
import type { Family } from '../erp/mirror.ts';
import { type DayWindow, type Rescan, type RescanStep, recordFindings, saveRescan } from '../erp/rescans.ts';
import type { DB } from '../erp/rows.ts';
import { readByIds } from './by-id.ts';
import { listQuery } from './passes.ts';
import { type Committed, commitReading, fetchPage, type PullContext, pageSize } from './pull.ts';
import { ageColumns, type Stream } from './stream.ts';
import { idsOf, isSuspiciouslyFull, walk } from './walk.ts';

/** The service's clock where it sends one: its dates are held against it. */
export const serviceNow = ({ service, run }: PullContext) => new Date(service.lastMs ?? run.startedAt.getTime());

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
    const pages = walk({
      firstQuery: listQuery(stream, windowFilter(stream, window)),
      start: rescan,
      fetch: (query, signal) => fetchPage(context, stream, query, signal),
      signal: context.signal,
      sorted: stream.rescan.sorted,
    });
    for await (const { page, query, meaning, lastId, atEnd } of pages) {
      const before = rescan;
      const place = atEnd ? { query: null, lastId: null } : { query, lastId };
      const fullList = before.fullList && !isSuspiciouslyFull(page, pageSize);
      const step = { ...place, meaning, fullList, step: before.step + (atEnd ? 1 : 0), pages: 1, extra: 0 };
      const write = async (trx: Transaction<DB>, committed: Committed) => {
        const { healed, ...counts } = await countHealed(trx, context, stream, before, committed);
        const next: RescanStep = { ...step, ...counts, fetched: page.data.length };
        rescan = await saveRescan(trx, before, next, before.kind === 'reconcile' ? idsOf(page.data) : []);
        return healed;
      };
      const { families, readById } = await commitReading(context, stream, page, write, keep);
      const alone = families.map(({ parent }) => parent.id).filter((id) => readById.has(id));
      // Their lines came without a link to them: what is stored of those can only be proved so.
      if (alone.length > 0) rescan = await readAlone(context, stream, rescan, alone);
      context.onProgress?.(rescan);
    }
  }
  return rescan;
}

/** Reads resources of a rescan by id; those that are unknown to the service are dealt with by `onAbsent`. */
export async function readAlone(
  context: PullContext,
  stream: Stream,
  rescan: Rescan,
  ids: readonly number[],
  onAbsent: (
    trx: Transaction<DB>,
    ids: readonly number[],
    readNo: number,
  ) => Promise<readonly Change[]> = async () => [],
): Promise<Rescan> {
  let after = rescan;
  await readByIds(context, stream, ids, {
    onRead: async (trx, committed) => {
      const { healed, missing, stale } = await countHealed(trx, context, stream, rescan, committed);
      after = await saveRescan(trx, rescan, { ...rescan, pages: 0, fetched: 0, missing, stale, extra: 0 }, []);
      return healed;
    },
    onAbsent,
    unsettled: async () => [],
  });
  return after;
}

function windowFilter({ rescan: { filter } }: Stream, { after, before }: DayWindow): Record<string, string> {
  if (filter === null) return {};
  return {
    ...(after === null ? {} : { [`filter[${filter}][gt]`]: after }),
    ...(before === null ? {} : { [`filter[${filter}][lt]`]: before }),
  };
}

/** What a reading brought that the tables did not have, or had otherwise. */
export interface Healed {
  /** Changes of columns that come from elsewhere, made here. */
  readonly healed: readonly Change[];
  readonly missing: number;
  readonly stale: number;
}

/** Counts, and for a reconciliation records, what a reading healed. */
export async function countHealed(
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
