import { type Kysely, sql } from 'kysely';
import { compareMarks, type DatabaseChange } from '../../core/database-mark.ts';
import { hourMs } from '../../core/time.ts';
import { recordAudit } from '../../db/audit.ts';
import type { DB } from '../../db/generated/tables.ts';
import { placeSetting } from '../../db/place.ts';
import { inTransaction } from '../../db/transaction.ts';
import { rowSet } from '../../pull/sql/mirror-tables.ts';
import { postponeTurns } from '../../schedule/sql/turns.ts';

/**
 * How an operator or the workers accepted the present database. Nothing is ever sent from a `copy`.
 */
export type AcceptanceKind = 'first' | 'failover' | 'moved' | 'restored' | 'copy';

/** The database that rows may be sent from, compared with the present one. */
export interface PushDatabase {
  readonly acceptedAs: AcceptanceKind;
  readonly acceptedAt: Date;
  /** What differs from the accepted database. Unless it is `none`, nothing is sent. */
  readonly change: DatabaseChange;
  /** When a worker first found the difference; null if there is none. */
  readonly changedAt: Date | null;
  /** True if rows may be sent at the place at which this session reached the database. */
  readonly isPlaceAccepted: boolean;
  /** True if workers ask whether the place at which they reached the database is accepted. */
  readonly isAsked: boolean;
  /** Since when they have asked in vain; null if none has for more than a few seconds. */
  readonly askedSince: Date | null;
  /** Until when a failover is planned, and accepted as `restored`; null if none is. */
  readonly failoverUntil: Date | null;
}

/** A row that this process has sent, with the values that its claim wrote. */
export interface SentRow {
  readonly id: number;
  readonly claimNo: number;
  readonly attempts: number;
}

/**
 * Time in which workers can report missing rows before one of them accepts a failover. Each worker
 * checks every 3 s.
 */
const reportSpan = sql`interval '10 seconds'`;
/** A worker that was last seen this long before the others crashed before the failover. */
const silentSpan = sql`interval '2 minutes'`;

interface StoredRow extends Omit<PushDatabase, 'change'> {
  readonly mark: string;
  readonly found: string;
}

/** SQL: the identity of this database. */
export const presentMark = sql<string>`sync.database_mark()`;

/** SQL: the place at which this session reached the database. */
export const ownPlace = sql<string>`current_setting(${sql.lit(placeSetting)}, true)`;

/**
 * SQL: true if this database may be a copy of the one in use, because nobody has accepted it, or
 * the place at which this session reached it.
 */
export const mayBeCopy = sql<boolean>`exists (
  select from sync.push_database d
  where d.mark <> ${presentMark}
    or d.accepted_as <> 'copy'
      and exists (select from sync.push_places o where o.accepted_at is not null)
      and not exists (
        select from sync.push_places p
        where p.place = ${ownPlace} and p.accepted_at is not null))`;

/** SQL: true if workers at place `p` ask. Each of them does so every 3 s. */
export const asksNow = sql<boolean>`
  (p.accepted_at is null and p.asked_at > clock_timestamp() - interval '30 seconds')`;

/** Time in which a worker at an accepted place answers. */
const answerSpan = sql`interval '10 seconds'`;

const selectStored = (db: Kysely<DB>) =>
  db.selectFrom('sync.push_database').select([
    'mark',
    presentMark.as('found'),
    sql<AcceptanceKind>`accepted_as`.as('acceptedAs'),
    'accepted_at as acceptedAt',
    'changed_at as changedAt',
    sql<boolean>`exists (
        select from sync.push_places p
        where p.place = ${ownPlace} and p.accepted_at is not null)`.as('isPlaceAccepted'),
    sql<boolean>`exists (select from sync.push_places p where ${asksNow})`.as('isAsked'),
    sql<Date | null>`(
        select min(p.asked_since)
        from sync.push_places p
        where ${asksNow} and p.asked_since < now() - ${answerSpan})`.as('askedSince'),
    sql<Date | null>`case when failover_expected_until > now() then failover_expected_until end`.as(
      'failoverUntil',
    ),
  ]);

const toPushDatabase = ({ mark, found, ...row }: StoredRow): PushDatabase => ({
  ...row,
  change: compareMarks(mark, found),
});

/** Returns true if nothing is sent, or workers ask, until an operator says what the database is. */
export const isChangeFound = ({ change, isAsked }: PushDatabase): boolean =>
  change !== 'none' || isAsked;

/** Reads which database rows may be sent from. Returns null if no worker has run yet. */
export async function readPushDatabase(db: Kysely<DB>): Promise<PushDatabase | null> {
  const stored = await selectStored(db).executeTakeFirst();
  return stored === undefined ? null : toPushDatabase(stored);
}

/**
 * Compares this database with the accepted one, and returns the result. The first database is
 * accepted. After a failover the new primary is accepted if every worker finds there everything
 * that it has sent. Any other change is recorded and waits for an operator.
 * @param sent rows that this process has sent last
 */
export async function noteDatabase(
  db: Kysely<DB>,
  worker: string,
  sent: readonly SentRow[],
): Promise<PushDatabase> {
  const stored = (await readPushDatabase(db)) ?? (await acceptFirst(db, worker));
  if (stored.change === 'none') {
    if (stored.changedAt !== null)
      await db.updateTable('sync.push_database').set({ changed_at: null }).execute();
    return stored;
  }

  return inTransaction(db, async (trx) => {
    // Workers check one after the other.
    const row = await selectStored(trx).forUpdate().executeTakeFirst();
    if (row === undefined || compareMarks(row.mark, row.found) !== stored.change) return stored;
    await noteChange(trx);
    if (stored.change === 'timeline' && row.acceptedAs !== 'copy') {
      await recordConfirmation(trx, worker, await hasAllRows(trx, sent));
      await acceptFailover(trx, worker);
    }
    return (await readPushDatabase(trx)) ?? stored;
  });
}

/**
 * Accepts the first database. If another table holds open rows, they came with a backup or a copy
 * of it: then that one is recorded as accepted instead.
 */
async function acceptFirst(db: Kysely<DB>, worker: string): Promise<PushDatabase> {
  await sql`
    insert into sync.push_database (mark, accepted_as, accepted_by)
    select replace(${presentMark}, sync.table_mark(), coalesce((
        select o.table_mark
        from fulfilment.outbox o
        where o.status in ('pending', 'sending', 'unknown') and o.table_mark <> sync.table_mark()
        limit 1
      ), sync.table_mark())), 'first', ${worker}
    on conflict do nothing`.execute(db);
  const stored = await readPushDatabase(db);
  if (stored === null) throw new Error('sync.push_database has no row, although one was inserted');

  return stored;
}

/**
 * Records a change when it is found, and the newest row that the former database may have sent.
 * Rows with larger ids were inserted here.
 */
async function noteChange(trx: Kysely<DB>): Promise<void> {
  const { rows } = await sql`
    update sync.push_database
    set found_mark = ${presentMark}, changed_at = clock_timestamp(),
      former_rows_until = greatest((select max(o.id) from fulfilment.outbox o),
        pg_sequence_last_value('fulfilment.outbox_id_seq')),
      seen_at = case when changed_at is null
        then greatest(seen_at, (select max(w.seen_at) from sync.push_workers w))
        else seen_at end
    where changed_at is null or found_mark is distinct from ${presentMark}
    returning 1`.execute(trx);
  if (rows.length > 0) await delayTrackTrace(trx);
}

/**
 * Asks whether the place at which this worker reaches the database may be accepted, or answers
 * others. A worker at an accepted place that reads such a question reads it in this database, so
 * that place does not lead to a copy. The first place is accepted, and so is any as long as the
 * outbox is empty.
 * @returns what `noteDatabase` has found, with the state of the place
 */
export async function notePlace(
  db: Kysely<DB>,
  worker: string,
  database: PushDatabase,
): Promise<PushDatabase> {
  const { change, acceptedAs, isPlaceAccepted, isAsked } = database;
  if (acceptedAs === 'copy') return database;

  if (isPlaceAccepted) {
    if (change === 'none' && isAsked) await acceptPlaces(db, worker);
    return database;
  }

  const { rows } = await sql<{ isAccepted: boolean }>`
    insert into sync.push_places as p (place, asked_since, asked_at, accepted_at, accepted_by)
    select ${ownPlace}, now(), now(), f.at, case when f.at is not null then ${worker} end
    from (
      select case when ${change === 'none'} and (
          not exists (select from sync.push_places o where o.accepted_at is not null)
          or not exists (select from fulfilment.outbox))
        then now() end as at
    ) f
    on conflict (place) do update
    set asked_at = excluded.asked_at,
      asked_since = case when ${asksNow} then p.asked_since else excluded.asked_since end,
      accepted_at = coalesce(p.accepted_at, excluded.accepted_at),
      accepted_by = coalesce(p.accepted_by, excluded.accepted_by)
    returning p.accepted_at is not null as "isAccepted"`.execute(db);
  return { ...database, isPlaceAccepted: rows[0]?.isAccepted ?? false };
}

/** Accepts the places at which workers ask. */
async function acceptPlaces(db: Kysely<DB>, worker: string): Promise<void> {
  const { rows } = await sql`
    update sync.push_places p
    set accepted_at = clock_timestamp(), accepted_by = ${worker}
    where ${asksNow}
    returning 1`.execute(db);
  if (rows.length > 0)
    await recordAudit(db, {
      by: worker,
      action: 'place_accepted',
      client: null,
      detail: `${rows.length} more addresses lead to this database`,
    });
}

/** Puts off track-trace for an hour: the record of the last request may be lost. */
export const delayTrackTrace = (trx: Kysely<DB>): Promise<void> =>
  postponeTurns(trx, 'track-trace', hourMs);

/** Records that a worker that sends rows is alive, and deletes workers that were lost long ago. */
export async function markAlive(db: Kysely<DB>, worker: string): Promise<void> {
  await sql`
    with forgotten as (delete from sync.push_workers
      where seen_at < now() - interval '10 minutes'
      and worker <> ${worker})
    insert into sync.push_workers as w (worker)
    values (${worker})
    on conflict (worker) do update set seen_at = now(), confirmed_mark = null
    where w.seen_at < now() - interval '30 seconds' or w.confirmed_mark is not null`.execute(db);
}

/** Records that a worker has ended and that this database has everything it had sent. */
export async function markEnded(db: Kysely<DB>, worker: string): Promise<void> {
  await sql`
    with ended as (
      delete from sync.push_workers
      where worker = ${worker} and sync.pushes_allowed()
      returning 1
    )
    update sync.push_database
    set seen_at = now()
    where exists (select from ended)`.execute(db);
}

/** Returns true if this database knows that these rows were sent. */
async function hasAllRows(trx: Kysely<DB>, sent: readonly SentRow[]): Promise<boolean> {
  const { rows } = await sql`
    select from ${rowSet({ id: 'bigint', claimNo: 'bigint', attempts: 'integer' }, sent)}
    left join fulfilment.outbox o on o.id = i.id
    where case
      when o.claim_no is null then coalesce(o.attempts, 0) < i.attempts
      when o.claim_no = i."claimNo" then o.status = 'sending' and o.sent_at is null
      else o.claim_no < i."claimNo"
    end
    limit 1`.execute(trx);

  return rows.length === 0;
}

/**
 * Records whether a worker finds everything that it has sent. A worker that misses something gets
 * its row in the table back if that is lost, too. The row prevents the acceptance of the failover.
 */
async function recordConfirmation(
  trx: Kysely<DB>,
  worker: string,
  allThere: boolean,
): Promise<void> {
  if (allThere)
    await trx
      .updateTable('sync.push_workers')
      .set({ confirmed_mark: presentMark })
      .where('worker', '=', worker)
      .execute();
  else
    await trx
      .insertInto('sync.push_workers')
      .values({ worker, seen_at: sql<Date>`clock_timestamp()` })
      .onConflict((conflict) =>
        conflict
          .column('worker')
          .doUpdateSet({ seen_at: sql<Date>`excluded.seen_at`, confirmed_mark: null }),
      )
      .execute();
}

/**
 * Accepts the new primary if every worker of the former one has confirmed it, and at least one has.
 * A worker that was stopped has deleted its row. A worker that was silent for minutes before the
 * others were last seen had crashed earlier: if their newest commits survived, its older ones did,
 * too.
 */
async function acceptFailover(trx: Kysely<DB>, worker: string): Promise<void> {
  const { rows } = await sql`
    update sync.push_database
    set mark = ${presentMark}, accepted_as = 'failover',
      accepted_at = clock_timestamp(),
      accepted_by = ${worker}, changed_at = null, failover_expected_until = null
    where changed_at < clock_timestamp() - ${reportSpan}
      and exists (select from sync.push_workers w where w.confirmed_mark = ${presentMark})
      and not exists (
      select from sync.push_workers w
      where w.confirmed_mark is distinct from ${presentMark}
        and w.seen_at > (select max(v.seen_at) from sync.push_workers v) - ${silentSpan})
    returning 1`.execute(trx);
  if (rows.length > 0)
    await recordAudit(trx, {
      by: worker,
      action: 'database_accepted',
      client: null,
      detail: 'as failover: nothing was lost',
    });
}
