import { sql, type Transaction } from 'kysely';
import type { DB } from '../../db/generated/tables.ts';
import { notifyPushers } from '../../db/listener.ts';
import type { Database } from '../../db/pool.ts';
import { inTransaction } from '../../db/transaction.ts';
import { recordAudit } from '../../schedule/sql/audit.ts';
import { type AcceptanceKind, delayTrackTrace } from './push-database.ts';

/** The ways in which an operator can accept the present database. */
export type OperatorAnswer = Extract<AcceptanceKind, 'moved' | 'restored' | 'copy'>;

/** Numbers of rows that were pending or sending in the backup, by what happens to them now. */
export interface AcceptedDatabase {
  /** Rows that a look-up decides. */
  readonly lookedUp: number;
  /** Rows that the operator decides with `outbox retry` or `outbox done`. */
  readonly toDecide: number;
}

export interface AcceptDatabaseOptions {
  readonly as: OperatorAnswer;
  readonly by: string;
  /** Kinds whose rows can be looked up at the service. */
  readonly lookedUp: readonly string[];
  /** Tells an operator what to do about a row of a kind that cannot be looked up. */
  readonly advice: string;
}

/** SQL: the identity of this database. */
const currentMark = sql<string>`sync.database_mark()`;

/**
 * Accepts the present database. With `restored`, each unsettled row of the backup becomes
 * `unknown`: the former database may have sent it after the backup was made. Rows that were
 * inserted after the restore are not touched, if the identity of the database tells them apart.
 * @returns the numbers of rows that became unknown
 */
export async function acceptDatabase(
  db: Database,
  options: AcceptDatabaseOptions,
): Promise<AcceptedDatabase> {
  const { as, by } = options;

  return inTransaction(db, async (trx) => {
    const former = await trx
      .selectFrom('sync.push_database')
      .select(sql<boolean>`mark = ${currentMark}`.as('isSame'))
      .forUpdate()
      .executeTakeFirst();
    const accepted = { mark: currentMark, accepted_as: as, accepted_by: by };
    const changes = { ...accepted, accepted_at: sql<Date>`clock_timestamp()`, changed_at: null };
    await trx
      .insertInto('sync.push_database')
      .values(accepted)
      .onConflict((conflict) => conflict.column('only_row').doUpdateSet(changes))
      .execute();
    await trx
      .deleteFrom('sync.push_workers')
      .where('confirmed_mark', 'is distinct from', currentMark)
      .execute();
    // What a backup knows of the services is as old as the backup.
    await trx.deleteFrom('sync.service_health').execute();
    const unknownRows =
      as === 'restored'
        ? await markBackupRowsUnknown(trx, options, former?.isSame ?? false)
        : { lookedUp: 0, toDecide: 0 };
    if (as !== 'moved') await delayTrackTrace(trx);
    const detail =
      `as ${as}: ${unknownRows.lookedUp} rows are looked up, ` +
      `${unknownRows.toDecide} wait for a decision`;
    await recordAudit(trx, { by, action: 'database_accepted', client: null, detail });
    await notifyPushers(trx);
    return unknownRows;
  });
}

/**
 * Makes the open rows of the backup unknown. Each gets a new claim number, so that a late answer to
 * a former worker cannot settle it. A dead row of the backup stays dead, with the note that it may
 * have been sent.
 * @param isSame true if the database has the identity of the former one, as after a restored disk
 *   snapshot: then every open row may come from the backup
 */
async function markBackupRowsUnknown(
  trx: Transaction<DB>,
  { by, lookedUp, advice }: AcceptDatabaseOptions,
  isSame: boolean,
): Promise<AcceptedDatabase> {
  const isOfBackup = sql`(${isSame}
    or o.database_mark is distinct from (select sync.database_mark()))`;
  const reason =
    'the database was restored, and the former one may have sent this row after the backup';
  const isLookedUp = sql`o.kind = any(${lookedUp}::text[])`;
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
          absences = 0,
          absent_at = null,
        next_attempt_at = case when ${isLookedUp} then statement_timestamp() end,
        last_error = case when ${isLookedUp} then ${`${reason}; being looked up`}
          else ${`${reason}. ${advice}`} end
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
