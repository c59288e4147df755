/**
 * Reconciliations and backfills, with their progress and the number of findings. A rescan that was
 * cut short continues from its last committed page.
 */

import { type Kysely, type Selection, sql, type Transaction } from 'kysely';
import type { DB } from '../../db/generated/tables.ts';
import { anyClient } from '../../db/values.ts';
import type { CursorMeaning } from '../../schedule/sql/ledger.ts';
import type { StreamTransaction } from './stream-transaction.ts';
import { type DayWindow, dateList, type ListedTable } from './unlisted.ts';

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
type Stored = Selection<DB, 'sync.rescans', (typeof columns)[number]>;

/**
 * A rescan, with its progress. `from` and `to` are its first and last day, both inclusive, in the
 * client's time zone; `background` is true if the workers run it; `readNo` was drawn before the
 * first request. CHECKs of the table limit its words, and only this file writes `windows`.
 */
export type Rescan = Readonly<
  Omit<Stored, 'kind' | 'meaning' | 'windows'> & {
    kind: 'reconcile' | 'backfill';
    meaning: CursorMeaning;
    windows: readonly DayWindow[] | null;
  }
>;

/** A request for a rescan. */
export type RescanRequest = Pick<
  Rescan,
  'client' | 'stream' | 'kind' | 'from' | 'to' | 'background'
>;

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

/** What one commit adds to the progress of a rescan: a new place, and counts to add. */
export interface RescanStep
  extends Partial<
    Pick<Rescan, 'step' | 'query' | 'meaning' | 'lastId' | 'fullList' | (typeof counts)[number]>
  > {
  /** All resources on its page, also those that could not be decoded. */
  readonly ids?: readonly number[];
}

const counts = ['pages', 'fetched', 'missing', 'stale', 'extra'] as const;

/** Stores the windows of a rescan when it first starts. They do not change afterwards. */
export async function startRescan(
  trx: Transaction<DB>,
  id: number,
  { windows, expected, readNo }: Pick<Rescan, 'windows' | 'expected' | 'readNo'>,
): Promise<Rescan> {
  const start = { windows: JSON.stringify(windows), expected, read_no: readNo };

  return trx
    .updateTable('sync.rescans')
    .set({ started_at: sql<Date>`now()`, ...start })
    .where('id', '=', id)
    .returning(columns)
    .$castTo<Rescan>()
    .executeTakeFirstOrThrow();
}

/**
 * Stores the progress that one commit makes, in its transaction. One run at a time works on a
 * rescan.
 */
export async function saveRescan(
  trx: Transaction<DB>,
  rescan: Rescan,
  { ids = [], ...changes }: RescanStep,
): Promise<Rescan> {
  if (ids.length > 0)
    await trx
      .insertInto('sync.rescan_pages')
      .values({ rescan_id: rescan.id, ids: [...ids] })
      .execute();

  const sums = counts.map((count) => [count, rescan[count] + (changes[count] ?? 0)]);
  const next: Rescan = { ...rescan, ...changes, ...Object.fromEntries(sums) };
  const { step, query, meaning, lastId, fullList, pages, fetched, missing, stale, extra } = next;

  await trx
    .updateTable('sync.rescans')
    .set({ step, query, meaning, last_id: lastId, full_list: fullList })
    .set({ pages, fetched, missing, stale, extra })
    .where('id', '=', rescan.id)
    .execute();
  return next;
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

/**
 * A reconciliation that walked all of its windows. It is doubtful if it found more rows missing
 * than it believes.
 */
export type WalkedReconciliation = NonNullable<Awaited<ReturnType<typeof findLastWalked>>>;

/**
 * Returns the last reconciliation that walked all of its windows, whether it succeeded or not; null
 * if there is none.
 */
export async function findLastWalked(db: Kysely<DB>, client: string, stream: string) {
  const walked = await db
    .selectFrom('sync.rescans')
    .select((eb) => [
      sql<readonly DayWindow[]>`windows`.as('windows'),
      'fetched',
      eb.ref('finished_at').$notNull().as('finishedAt'),
      sql<boolean>`outcome = 'failed'`.as('isDoubtful'),
    ])
    .where('client', '=', anyClient(client))
    .where('stream', '=', stream)
    .where('kind', '=', 'reconcile')
    .where('finished_at', 'is not', null)
    .where('step', '>=', sql<number>`jsonb_array_length(windows)`)
    .orderBy('id', 'desc')
    .limit(1)
    .executeTakeFirst();
  return walked ?? null;
}

/**
 * Returns, by stream, when workers last reconciled it. Counts only times after the whole job last
 * succeeded.
 */
export async function readReconciledTimes(
  db: Kysely<DB>,
  client: string,
): Promise<ReadonlyMap<string, Date>> {
  const reconciled = await db
    .selectFrom('sync.rescans as r')
    .innerJoin('sync.jobs as j', (join) =>
      join.onRef('j.client', '=', 'r.client').on('j.job', '=', 'reconcile'),
    )
    .select((eb) => ['r.stream', eb.fn.max('r.finished_at').$notNull().as('at')])
    .where('r.client', '=', anyClient(client))
    .where('r.kind', '=', 'reconcile')
    .where('r.background', '=', true)
    .where('r.outcome', '=', 'done')
    .where('r.finished_at', '>', sql<Date>`coalesce(j.last_success_at, '-infinity')`)
    .groupBy('r.stream')
    .execute();
  return new Map(reconciled.map(({ stream, at }) => [stream, at]));
}

/** Ids of rows that a reconciliation found missing here, stale here, or extra here. */
type Findings = Readonly<Record<'missing' | 'stale' | 'extra', readonly number[]>>;

/**
 * Records findings, each with the seconds between the row's newest date and `serviceNow`, the time
 * of the reading. These seconds are null if the row changed after the last complete poll: no poll
 * could have read it yet.
 */
export async function recordFindings(
  { trx, client, stream }: StreamTransaction,
  age: ListedTable,
  findings: Findings,
  serviceNow: Date,
): Promise<void> {
  const moved = sql`greatest(${dateList(age.moved)})`;

  for (const [finding, ids] of Object.entries(findings)) {
    if (ids.length === 0) continue;
    const late = sql`
    case when ${finding} <> 'extra' and ${moved} < coalesce(f.complete_at, 'infinity')
      then extract(epoch from ${serviceNow}::timestamptz - ${moved}) end`;

    await sql`
    insert into sync.findings (client, stream, finding, id, late_seconds)
    select ${client}, ${stream}, ${finding}, t.id, ${late}
    from ${sql.table(`fulfilment.${age.table}`)} t
    left join sync.freshness f on f.client = t.client and f.stream = ${stream}
    where t.client = ${anyClient(client)} and t.id = any(${ids}::bigint[])
    order by t.id`.execute(trx);
  }
}
