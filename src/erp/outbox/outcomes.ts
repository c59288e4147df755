import { type Kysely, sql, type Transaction } from 'kysely';
import { notifyPushers } from '../connection/notify.ts';
import type { Database } from '../connection/pool.ts';
import { inTransaction } from '../connection/transaction.ts';
import type { DB } from '../generated/tables.ts';
import { type Lane, releaseLanes } from './lanes.ts';

/** Maximum number of outcomes that one transaction enters. It bounds how long the feed is locked. */
const maxOutcomes = 1_000;

/**
 * Enters outcomes of outbox rows that were noted into the feed. It must be the last statement of its transaction: all
 * other writers of the feed wait until the commit.
 * @returns the lanes of rows that no longer hold them. Release these lanes after the commit: a claim that ran meanwhile
 * may have postponed the rows behind them.
 */
export async function enterNotedOutcomes(trx: Transaction<DB>): Promise<Lane[]> {
  const { rows } = await sql<Lane>`
    with noted as (
      delete from sync.outbox_outcomes
      where id in (
        select id
        from sync.outbox_outcomes
        order by id
        limit ${maxOutcomes}
        for update skip locked)
      returning id, client, outbox_id, changed_columns
    ), entered as (
      insert into fulfilment.changes (client, entity, id, operation, changed_columns)
      select client, 'outbox', outbox_id, 'updated', changed_columns
      from noted
      order by id
    )
    select o.client, o.family, o.reference
    from noted n
    join fulfilment.outbox o on o.id = n.outbox_id
    where o.status in ('done', 'cancelled')
      or sync.is_failed_attachment(o.kind, o.status, o.next_attempt_at)`.execute(trx);
  return rows;
}

/** Enters noted outcomes, in a transaction of its own. Without any, it locks nothing. Returns as `enterNotedOutcomes`. */
export async function enterOutcomes(db: Database): Promise<Lane[]> {
  return (await hasNotedOutcomes(db)) ? inTransaction(db, enterNotedOutcomes) : [];
}

/** Enters noted outcomes and releases lanes, for a worker that does not push. */
export async function sweepOutcomes(db: Database): Promise<void> {
  const { released } = await releaseLanes(db, await enterOutcomes(db));
  if (released > 0) await notifyPushers(db);
}

async function hasNotedOutcomes(db: Kysely<DB>): Promise<boolean> {
  const noted = await db.selectFrom('sync.outbox_outcomes').select('id').limit(1).executeTakeFirst();
  return noted !== undefined;
}
