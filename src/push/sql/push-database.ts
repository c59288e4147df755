import { type Kysely, sql, type Transaction } from 'kysely';
import { compareMarks, type DatabaseChange } from '../../core/database-mark.ts';
import { hourMs } from '../../core/time.ts';
import { recordAudit } from '../../db/audit.ts';
import type { DB } from '../../db/generated/tables.ts';
import { notifyPushers } from '../../db/listener.ts';
import { placeSetting } from '../../db/place.ts';
import type { Database } from '../../db/pool.ts';
import { inTransaction } from '../../db/transaction.ts';
import { rowSet } from '../../pull/sql/mirror-tables.ts';
import { postponeTurns } from '../../schedule/sql/turns.ts';
import { operatorChoices, resendChoices } from '../judge-outcome.ts';
import { lookedUpKinds, resentKinds } from '../kinds/registry.ts';
import { raiseSequences } from './sequences.ts';

/**
 * How an operator or the workers accepted the present database. Nothing is ever sent from a `copy`.
 */
type AcceptanceKind = 'first' | 'failover' | 'moved' | 'restored' | 'copy';

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
const presentMark = sql<string>`sync.database_mark()`;

/** SQL: the place at which this session reached the database. */
const ownPlace = sql<string>`current_setting(${sql.lit(placeSetting)}, true)`;

/** SQL: true if this database was accepted as a copy of the one in use. */
export const isCopy = sql<boolean>`exists (
  select from sync.push_database d
  where d.accepted_as = 'copy')`;

/**
 * SQL: true if this database is a copy of the one in use, or may be one, because nobody has
 * accepted it, or the place at which this session reached it.
 */
export const mayBeCopy = sql<boolean>`exists (
  select from sync.push_database d
  where d.mark <> ${presentMark} or d.accepted_as = 'copy'
    or exists (select from sync.push_places o where o.accepted_at is not null)
      and not exists (
        select from sync.push_places p
        where p.place = ${ownPlace} and p.accepted_at is not null))`;

/** SQL: true if workers at place `p` ask. Each of them does so every 3 s. */
const asksNow = sql<boolean>`
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

/** Asks for the place of a worker that sends no rows, because it posts no events without it. */
export async function askForPlace(db: Kysely<DB>, worker: string): Promise<void> {
  const database = await noteDatabase(db, worker, []);
  const { rows } = await sql`select where ${mayBeCopy}`.execute(db);

  if (rows.length > 0) await notePlace(db, worker, database);
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
const delayTrackTrace = (trx: Kysely<DB>): Promise<void> =>
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

/** The ways in which an operator can accept the present database. */
export type OperatorAnswer = Extract<AcceptanceKind, 'moved' | 'restored' | 'copy'>;

/** Numbers of rows that were pending or sending in the backup, by what happens to them now. */
export interface AcceptedDatabase {
  /** Rows that a look-up decides. */
  readonly lookedUp: number;
  /** Rows that the operator decides with `outbox retry` or `outbox done`. */
  readonly toDecide: number;
}

/**
 * Accepts the present database, and the places at which workers reach it now. With `restored`, each
 * unsettled row of the backup becomes `unknown`: the former database may have sent it after the
 * backup was made. Rows that were inserted after a worker had found the change are not touched.
 * @returns the numbers of rows that became unknown
 */
export const acceptDatabase = (
  db: Database,
  as: OperatorAnswer,
  by: string,
): Promise<AcceptedDatabase> => inTransaction(db, (trx) => acceptWithin(trx, as, by));

/** Milliseconds that workers have to accept a failover by themselves, because nothing is lost. */
const fencedAfterMs = 30_000;
/** Maximum age of the last sign of life of a worker when a change is found that is a failover. */
const maxSilenceMs = 120_000;

/**
 * Accepts a failover as `restored`, without a person: if it is planned, or if the cluster ends the
 * former primary before it promotes another one. Only the timeline differs then. After a recovery
 * to a point in time, the newest sign of life of a worker is older.
 * @param isFenced true if DATABASE_FAILOVER is `fenced`
 * @returns whether the failover was accepted
 */
export function acceptFencedFailover(
  db: Database,
  isFenced: boolean,
  by: string,
): Promise<boolean> {
  const toSpan = (ms: number) => sql`make_interval(secs => ${ms / 1_000})`;
  const isPlanned = sql`failover_expected_until > changed_at`;
  const isFresh = sql`${isFenced} and seen_at > changed_at - ${toSpan(maxSilenceMs)}`;

  return inTransaction(db, async (trx) => {
    const changed = await trx
      .selectFrom('sync.push_database')
      .select(['mark', presentMark.as('found')])
      .where('accepted_as', '<>', 'copy')
      .where(sql<boolean>`changed_at < clock_timestamp() - ${toSpan(fencedAfterMs)}`)
      .where(sql<boolean>`(${isPlanned} or ${isFresh})`)
      .forUpdate()
      .executeTakeFirst();
    if (changed === undefined || compareMarks(changed.mark, changed.found) !== 'timeline')
      return false;

    await acceptWithin(trx, 'restored', by);
    return true;
  });
}

/**
 * Records that a failover is planned, or that none is any more.
 * @param spanMs 0: none is, also if a change was found already
 * @returns false if no worker has run yet; else until when it is expected, or null
 */
export async function expectFailover(
  db: Database,
  spanMs: number,
  by: string,
): Promise<Date | null | false> {
  const until = sql<Date>`now() + make_interval(secs => ${spanMs / 1_000})`;

  return inTransaction(db, async (trx) => {
    const row = await trx
      .updateTable('sync.push_database')
      .set({ failover_expected_until: spanMs === 0 ? null : until })
      .returning('failover_expected_until as until')
      .executeTakeFirst();
    if (row === undefined) return false;

    const detail = row.until === null ? 'no longer' : `until ${row.until.toISOString()}`;
    await recordAudit(trx, { by, action: 'failover_expected', client: null, detail });
    return row.until;
  });
}

async function acceptWithin(
  trx: Transaction<DB>,
  as: OperatorAnswer,
  by: string,
): Promise<AcceptedDatabase> {
  const former = await trx
    .selectFrom('sync.push_database')
    .select('accepted_as as acceptedAs')
    .select(
      // Without it, every open row may be one of the backup.
      sql<number | null>`
        case when changed_at is not null and found_mark = ${presentMark} and mark <> ${presentMark}
          then former_rows_until end`.as('rowsUntil'),
    )
    .forUpdate()
    .executeTakeFirst();

  const accepted = { mark: presentMark, accepted_as: as, accepted_by: by };
  const changes = {
    ...accepted,
    accepted_at: sql<Date>`clock_timestamp()`,
    changed_at: null,
    failover_expected_until: null,
  };
  await trx
    .insertInto('sync.push_database')
    .values(accepted)
    .onConflict((conflict) => conflict.column('only_row').doUpdateSet(changes))
    .execute();

  await forgetFormerState(trx);
  if (as === 'copy') await deleteEvents(trx);
  else await acceptPresentPlaces(trx, by);
  if (as !== 'copy' && former?.acceptedAs === 'copy') await noteMissedEvents(trx);
  await raiseSequences(trx);

  const unknownRows =
    as === 'restored'
      ? await markBackupRowsUnknown(trx, by, former?.rowsUntil ?? null)
      : { lookedUp: 0, toDecide: 0 };
  if (as !== 'moved') await delayTrackTrace(trx);

  const detail =
    `as ${as}: ${unknownRows.lookedUp} rows are looked up, ` +
    `${unknownRows.toDecide} wait for a decision`;
  await recordAudit(trx, { by, action: 'database_accepted', client: null, detail });
  await notifyPushers(trx);
  return unknownRows;
}

/** Deletes what a backup knows of workers and services: it is as old as the backup. */
async function forgetFormerState(trx: Transaction<DB>): Promise<void> {
  await trx
    .deleteFrom('sync.push_workers')
    .where('confirmed_mark', 'is distinct from', presentMark)
    .execute();
  await trx.deleteFrom('sync.service_health').execute();
}

/** Deletes the events that are not delivered: a copy posts none, and makes no others. */
async function deleteEvents(trx: Transaction<DB>): Promise<void> {
  // Nobody makes events, or finishes one, until the commit.
  await sql`select from sync.event_checkpoint for update`.execute(trx);
  await sql`select from sync.receivers order by name for update`.execute(trx);
  await sql`
    delete from sync.deliveries d
    using sync.receivers r
    where r.name = d.receiver and r.kind = 'event' and d.status <> 'delivered'`.execute(trx);
}

/** Records that no events were made while the database was a copy. */
async function noteMissedEvents(trx: Transaction<DB>): Promise<void> {
  await sql`
    update sync.receivers
    set missed_at = clock_timestamp()
    where kind = 'event'`.execute(trx);
}

/** Accepts the place of this session, and those at which workers ask. */
async function acceptPresentPlaces(trx: Transaction<DB>, by: string): Promise<void> {
  await sql`
    insert into sync.push_places as p (place)
    values (${ownPlace})
    on conflict do nothing`.execute(trx);
  await sql`
    update sync.push_places p
    set accepted_at = clock_timestamp(), accepted_by = ${by}
    where p.accepted_at is null and p.place = ${ownPlace} or ${asksNow}`.execute(trx);
}

/**
 * Makes the open rows of the backup unknown. Each gets a new claim number, so that a late answer to
 * a former worker cannot settle it. A row that is unknown already is looked for as if it was sent
 * now. A dead row of the backup stays dead, with the note that it may have been sent.
 * @param rowsUntil largest id of a row of the backup; null if it is not known, as after a restored
 *   disk snapshot: then every open row may come from the backup
 */
async function markBackupRowsUnknown(
  trx: Transaction<DB>,
  by: string,
  rowsUntil: number | null,
): Promise<AcceptedDatabase> {
  const isOfBackup = sql`(o.id <= coalesce(${rowsUntil}::bigint, o.id))`;
  const reason =
    'the database was restored, and the former one may have sent this row after the backup';
  const note = `; ${reason}`;
  // The former database may have sent a row just before. A payload that was replaced after an
  // attempt still counts as replaced after it.
  const replacedAt = sql`(o.replaced_at + (statement_timestamp() - o.written_at))`;
  const isLookedUp = sql`o.kind = any(${lookedUpKinds}::text[])`;
  await sql`
    update fulfilment.outbox o
    set written_at = statement_timestamp(), replaced_at = ${replacedAt}, absences = 0,
      absent_at = null, last_error = case when o.status = 'dead'
        then left(concat(replace(o.last_error, ${note}::text, ''), ${note}::text), 4000)
        else o.last_error end
    where (o.status = 'dead' or o.status = 'unknown' and o.written_at is not null)
      and ${isOfBackup}`.execute(trx);
  const { rows } = await sql<AcceptedDatabase>`
    with doubted as (
      update fulfilment.outbox o
      set status = 'unknown', lease_until = null, sent_at = null, refusal = null,
        claim_no = nextval('sync.read_no'), written_at = statement_timestamp(),
        replaced_at = ${replacedAt}, lookups = 0, absences = 0, absent_at = null,
        tries = o.tries + case when o.status = 'sending' then 1 else 0 end,
        next_attempt_at = case when ${isLookedUp} then statement_timestamp() end,
        last_error = case when ${isLookedUp} then ${`${reason}; being looked up`}
          when o.kind = any(${resentKinds}::text[]) then ${`${reason}. ${resendChoices}`}
          else ${`${reason}. ${operatorChoices}`} end
      where o.status in ('pending', 'sending') and ${isOfBackup}
      returning o.id, o.claim_no, o.last_error, o.next_attempt_at is not null as is_looked_up
    ), noted as (
      insert into sync.outbox_attempts (outbox_id, step, by, claim_no, became, error_code, error)
      select id, 'taken over', ${by}, claim_no, 'unknown', 'database_changed', last_error
      from doubted
      order by id
    )
    select count(*) filter (where is_looked_up)::int as "lookedUp",
      count(*) filter (where not is_looked_up)::int as "toDecide"
    from doubted`.execute(trx);

  return rows[0] ?? { lookedUp: 0, toDecide: 0 };
}
