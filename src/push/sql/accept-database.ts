import { sql, type Transaction } from 'kysely';
import { compareMarks } from '../../core/database-mark.ts';
import { recordAudit } from '../../db/audit.ts';
import type { DB } from '../../db/generated/tables.ts';
import { notifyPushers } from '../../db/listener.ts';
import type { Database } from '../../db/pool.ts';
import { inTransaction } from '../../db/transaction.ts';
import { operatorChoices } from '../judge-outcome.ts';
import { lookedUpKinds } from '../kinds/registry.ts';
import {
  type AcceptanceKind,
  asksNow,
  delayTrackTrace,
  ownPlace,
  presentMark,
} from './push-database.ts';
import { raiseSequences } from './sequences.ts';

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
  if (as !== 'copy') await acceptPresentPlaces(trx, by);
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
 * a former worker cannot settle it. A dead row of the backup stays dead, with the note that it may
 * have been sent.
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
  const isLookedUp = sql`o.kind = any(${lookedUpKinds}::text[])`;
  await sql`
    update fulfilment.outbox o
    set written_at = statement_timestamp(),
      last_error = left(concat(o.last_error, '; ', ${reason}::text), 4000)
    where o.status = 'dead' and ${isOfBackup}`.execute(trx);
  const { rows } = await sql<AcceptedDatabase>`
    with doubted as (
      update fulfilment.outbox o
      set status = 'unknown', lease_until = null, sent_at = null, refusal = null,
        claim_no = nextval('sync.read_no'), written_at = statement_timestamp(), lookups = 0,
        absences = 0, absent_at = null,
        tries = o.tries + case when o.status = 'sending' then 1 else 0 end,
        next_attempt_at = case when ${isLookedUp} then statement_timestamp() end,
        last_error = case when ${isLookedUp} then ${`${reason}; being looked up`}
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
