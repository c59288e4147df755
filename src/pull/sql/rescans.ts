/**
 * Reconciliations and backfills, with their progress and the number of findings. A rescan that was
 * cut short continues from its last committed page.
 */

import { type Kysely, sql, type Transaction } from 'kysely';
import type { DB } from '../../db/generated/tables.ts';
import { anyClient } from '../../db/values.ts';
import type { CursorMeaning } from '../../schedule/sql/ledger.ts';

/**
 * A date window. Both ends are exclusive, as in the service's filters; null means no bound.
 * YYYY-MM-DD.
 */
export interface DayWindow {
  readonly after: string | null;
  readonly before: string | null;
}

/** A request for a rescan. */
export interface RescanRequest {
  readonly client: string;
  readonly stream: string;
  readonly kind: 'reconcile' | 'backfill';
  /** First and last day, both inclusive, in the client's time zone. */
  readonly from: string | null;
  readonly to: string | null;
  /** True if the workers run it. */
  readonly background: boolean;
}

/** A rescan, with its progress. */
export interface Rescan extends RescanRequest {
  readonly id: number;
  readonly startedAt: Date | null;
  readonly windows: readonly DayWindow[] | null;
  /** Number of the reading, drawn before the first request. */
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

/** Read as a `Rescan`: CHECKs of the table limit its words, and only this file writes `windows`. */
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

/**
 * Opens a rescan. If an equal one is open, returns that one, which then continues from its last
 * page.
 */
export async function openRescan(db: Kysely<DB>, request: RescanRequest): Promise<Rescan> {
  // A rescan that began more than a day ago begins anew: pages that it has walked may have changed
  // since. A background backfill continues. Rescans of other kinds have another lease and may be
  // running, so they are left alone.
  await sql`
    with given_up as (
      update sync.rescans
      set finished_at = now(), outcome = 'failed', error = 'cut short more than a day ago'
      where client = ${anyClient(request.client)} and stream = ${request.stream}
        and kind = ${request.kind}
        and background = ${request.background} and (kind = 'reconcile' or not background)
        and finished_at is null and started_at < now() - interval '1 day'
      returning id)
    delete from sync.rescan_pages
    where rescan_id in (select id from given_up)`.execute(db);
  const { client, stream, kind, from, to, background } = request;
  return db
    .insertInto('sync.rescans')
    .values({ client, stream, kind, from_day: from, to_day: to, background })
    .onConflict((conflict) =>
      conflict
        .expression(
          sql`client, stream, kind, background,
            coalesce(from_day, '-infinity'), coalesce(to_day, 'infinity')`,
        )
        .where('finished_at', 'is', null)
        .doUpdateSet((eb) => ({ client: eb.ref('excluded.client') })),
    )
    .returning(columns)
    .$castTo<Rescan>()
    .executeTakeFirstOrThrow();
}

/** Finds the open backfills that the workers run, the oldest first. */
export async function findBackgroundBackfills(db: Kysely<DB>, client: string): Promise<Rescan[]> {
  return db
    .selectFrom('sync.rescans')
    .select(columns)
    .where('client', '=', anyClient(client))
    .where('kind', '=', 'backfill')
    .where('background', '=', true)
    .where('finished_at', 'is', null)
    .orderBy('id')
    .$castTo<Rescan>()
    .execute();
}

/** Makes a job due now. */
export async function wakeJob(db: Kysely<DB>, client: string, job: string): Promise<void> {
  await db
    .insertInto('sync.jobs')
    .values({ client, job })
    .onConflict((conflict) =>
      conflict.columns(['client', 'job']).doUpdateSet({ next_at: sql<Date>`now()` }),
    )
    .execute();
}

/** The changes that one page makes to a rescan: the new place, and the counts to add. */
export type RescanStep = Pick<
  Rescan,
  'step' | 'query' | 'meaning' | 'lastId' | 'fullList' | keyof typeof zeroCounts
>;

/** The counts of a step that read no page and found nothing. */
export const zeroCounts = { pages: 0, fetched: 0, missing: 0, stale: 0, extra: 0 } as const;

/** Stores the windows of a rescan when it first starts. They do not change afterwards. */
export async function startRescan(
  trx: Transaction<DB>,
  id: number,
  {
    windows,
    expected,
    readNo,
  }: { windows: readonly DayWindow[]; expected: number | null; readNo: number },
): Promise<Rescan> {
  return trx
    .updateTable('sync.rescans')
    .set({
      started_at: sql<Date>`now()`,
      windows: JSON.stringify(windows),
      expected,
      read_no: readNo,
    })
    .where('id', '=', id)
    .returning(columns)
    .$castTo<Rescan>()
    .executeTakeFirstOrThrow();
}

/**
 * Stores the progress that one page makes, in the transaction of that page.
 * @param ids all resources on the page, also those that could not be decoded
 */
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
  return trx
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
    .$castTo<Rescan>()
    .executeTakeFirstOrThrow();
}

/**
 * Ends a rescan and deletes its pages.
 * @param error why it failed; null if it is done
 */
export async function finishRescan(
  trx: Transaction<DB>,
  id: number,
  error: string | null,
): Promise<void> {
  const outcome = error === null ? 'done' : 'failed';
  await trx
    .updateTable('sync.rescans')
    .set({ finished_at: sql<Date>`now()`, outcome, error })
    .where('id', '=', id)
    .execute();
  await trx.deleteFrom('sync.rescan_pages').where('rescan_id', '=', id).execute();
}
