/**
 * Reconciliations and backfills: how far each has come, and what it found. A rescan that was cut short continues from
 * its last committed page.
 */

import { type Kysely, sql, type Transaction } from 'kysely';
import { anyClient } from '../connection/any-client.ts';
import type { DB } from '../generated/tables.ts';
import type { CursorMeaning } from '../pull/cursors.ts';

type RescanKind = 'reconcile' | 'backfill';

/** A span of days, both ends exclusive as the service's filters are; null: open. YYYY-MM-DD. */
export interface DayWindow {
  readonly after: string | null;
  readonly before: string | null;
}

export interface RescanRequest {
  readonly client: string;
  readonly stream: string;
  readonly kind: RescanKind;
  /** Inclusive days in the client's zone. */
  readonly from: string | null;
  readonly to: string | null;
  /** Whether workers take it up. */
  readonly background: boolean;
}

/** A rescan and how far it has come. */
export interface Rescan extends RescanRequest {
  readonly id: number;
  readonly startedAt: Date | null;
  readonly windows: readonly DayWindow[] | null;
  /** Drawn before its first request. */
  readonly readNo: number | null;
  readonly step: number;
  readonly query: string | null;
  readonly meaning: CursorMeaning;
  readonly lastId: number | null;
  readonly fullList: boolean;
  readonly pages: number;
  readonly fetched: number;
  readonly expected: number | null;
  readonly missing: number;
  readonly stale: number;
  readonly extra: number;
}

const columns = [
  'id',
  'client',
  'stream',
  'kind',
  'from_day as from',
  'to_day as to',
  'background',
  'started_at as startedAt',
  'windows',
  'read_no as readNo',
  'step',
  'query',
  'meaning',
  'last_id as lastId',
  'full_list as fullList',
  'pages',
  'fetched',
  'expected',
  'missing',
  'stale',
  'extra',
] as const;

type StoredRescan = Omit<Rescan, 'kind' | 'meaning' | 'windows'> & {
  readonly kind: string;
  readonly meaning: string;
  readonly windows: unknown;
};

/** CHECKs of the table bound the words; `windows` is written by this file alone. */
const toRescan = (row: StoredRescan): Rescan => ({
  ...row,
  kind: row.kind as RescanKind,
  meaning: row.meaning as CursorMeaning,
  windows: row.windows as readonly DayWindow[] | null,
});

/** Opens a rescan, or finds the open one that asks for the same, which then goes on where it stood. */
export async function openRescan(db: Kysely<DB>, request: RescanRequest): Promise<Rescan> {
  // What an old one has walked may have changed since: it begins anew. A background backfill is continued. Rescans of
  // other kinds are left alone: they have another lease, so they may be running.
  await sql`
    with given_up as (
      update sync.rescans
      set finished_at = now(), outcome = 'failed', error = 'cut short more than a day ago'
      where client = ${anyClient(request.client)} and stream = ${request.stream} and kind = ${request.kind}
        and background = ${request.background} and (kind = 'reconcile' or not background)
        and finished_at is null and started_at < now() - interval '1 day'
      returning id)
    delete from sync.rescan_pages
    where rescan_id in (select id from given_up)`.execute(db);
  const { client, stream, kind, from, to, background } = request;
  const opened = await db
    .insertInto('sync.rescans')
    .values({ client, stream, kind, from_day: from, to_day: to, background })
    .onConflict((conflict) =>
      conflict
        .expression(
          sql`client, stream, kind, background, coalesce(from_day, '-infinity'), coalesce(to_day, 'infinity')`,
        )
        .where('finished_at', 'is', null)
        .doUpdateSet((eb) => ({ client: eb.ref('excluded.client') })),
    )
    .returning(columns)
    .executeTakeFirstOrThrow();
  return toRescan(opened);
}

/** Backfills that workers are to take up, oldest first. */
export async function findBackgroundBackfills(db: Kysely<DB>, client: string): Promise<Rescan[]> {
  const rows = await db
    .selectFrom('sync.rescans')
    .select(columns)
    .where('client', '=', anyClient(client))
    .where('kind', '=', 'backfill')
    .where('background', '=', true)
    .where('finished_at', 'is', null)
    .orderBy('id')
    .execute();
  return rows.map(toRescan);
}

/** Makes a job due now. */
export async function wakeJob(db: Kysely<DB>, client: string, job: string): Promise<void> {
  await db
    .insertInto('sync.jobs')
    .values({ client, job })
    .onConflict((conflict) => conflict.columns(['client', 'job']).doUpdateSet({ due_at: sql<Date>`now()` }))
    .execute();
}

/** What changes on a rescan's row with a page. */
export interface RescanStep extends Pick<Rescan, 'step' | 'query' | 'meaning' | 'lastId' | 'fullList'> {
  readonly pages: number;
  readonly fetched: number;
  readonly missing: number;
  readonly stale: number;
  readonly extra: number;
}

/** The counts of a step that read no page and found nothing. */
export const nothingCounted = { pages: 0, fetched: 0, missing: 0, stale: 0, extra: 0 } as const;

/** Fixes what a rescan walks, at its first start. */
export async function startRescan(
  trx: Transaction<DB>,
  id: number,
  { windows, expected, readNo }: { windows: readonly DayWindow[]; expected: number | null; readNo: number },
): Promise<Rescan> {
  const started = await trx
    .updateTable('sync.rescans')
    .set({ started_at: sql<Date>`now()`, windows: JSON.stringify(windows), expected, read_no: readNo })
    .where('id', '=', id)
    .returning(columns)
    .executeTakeFirstOrThrow();
  return toRescan(started);
}

/** Adds what one page brought, in its transaction. `ids`: all resources on it, decodable or not. */
export async function saveRescan(
  trx: Transaction<DB>,
  { id }: Pick<Rescan, 'id'>,
  next: RescanStep,
  ids: readonly number[],
): Promise<Rescan> {
  if (ids.length > 0)
    await trx
      .insertInto('sync.rescan_pages')
      .values({ rescan_id: id, ids: [...ids] })
      .execute();
  const saved = await trx
    .updateTable('sync.rescans')
    .set((eb) => ({
      step: next.step,
      query: next.query,
      meaning: next.meaning,
      last_id: next.lastId,
      full_list: next.fullList,
      pages: eb('pages', '+', next.pages),
      fetched: eb('fetched', '+', next.fetched),
      missing: eb('missing', '+', next.missing),
      stale: eb('stale', '+', next.stale),
      extra: eb('extra', '+', next.extra),
    }))
    .where('id', '=', id)
    .returning(columns)
    .executeTakeFirstOrThrow();
  return toRescan(saved);
}

/** Ends a rescan; what it noted of its pages goes with it. */
export async function finishRescan(trx: Transaction<DB>, id: number, error: string | null): Promise<void> {
  const outcome = error === null ? 'done' : 'failed';
  await trx
    .updateTable('sync.rescans')
    .set({ finished_at: sql<Date>`now()`, outcome, error })
    .where('id', '=', id)
    .execute();
  await trx.deleteFrom('sync.rescan_pages').where('rescan_id', '=', id).execute();
}
