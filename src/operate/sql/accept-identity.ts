import { sql, type Transaction } from 'kysely';
import { recordAudit } from '../../db/audit.ts';
import type { DB } from '../../db/generated/tables.ts';
import { notifyPushers } from '../../db/listener.ts';
import type { Database } from '../../db/pool.ts';
import { inTransaction } from '../../db/transaction.ts';
import { appendChanges, type Change } from '../../pull/sql/feed.ts';
import { tableRef } from '../../pull/sql/mirror-tables.ts';
import { recordAbandonedRuns } from '../../schedule/sql/due-jobs.ts';
import { copyTurn, deleteTurn } from '../../schedule/sql/turns.ts';
import type { OfferedAccount } from '../../service/sql/clients.ts';

/** Jobs beside the polls that read data of an account. They may run at any time. */
const rereadJobs = ['refresh-settings', 'pull-parcels', 'pull-stock'];

/**
 * Accepts another identity for a client. Runs under way are abandoned.
 * @param keepCursors true: it is the same account at another address. Otherwise everything is read
 *   again from the beginning, because the cursors of one service mean nothing to another.
 * @param by the operator, for the audit
 * @returns also the numbers of pending outbox rows, which will be sent to the new service, and of
 *   rows that are dead now because their outcome at the former service is unknown: a person
 *   decides; and of erasures that were forgotten
 */
export async function acceptIdentity(
  db: Database,
  { client, identity, baseUrl }: OfferedAccount,
  keepCursors: boolean,
  by: string,
) {
  return inTransaction(db, async (trx) => {
    const former = await trx
      .selectFrom('sync.clients')
      .select(['identity', 'base_url'])
      .where('client', '=', client)
      // Claims, runs that begin and settlements wait for this, or this for them
      // (isAcceptedUntilCommit).
      .forUpdate()
      .executeTakeFirst();
    const formerBaseUrl = former?.base_url ?? null;
    if (former?.identity === identity)
      return { accepted: false, formerBaseUrl, waitingRows: 0, deadRows: 0, erasures: 0 };

    // Runs lock their lease before anything else. The same order here avoids deadlocks.
    await abandonRuns(trx, client);
    await storeIdentity(trx, { client, identity, baseUrl });
    await trx.deleteFrom('sync.service_health').where('client', '=', client).execute();

    // The same account must not be called sooner because its address has changed.
    if (keepCursors && former !== undefined)
      await copyTurn(trx, { name: 'track-trace', scope: former.identity }, identity);
    const { changes, erasures } = keepCursors
      ? { changes: [], erasures: 0 }
      : await forgetService(trx, client);
    const deadRows = keepCursors
      ? 0
      : await markUnsettledDead(trx, client, formerBaseUrl ?? 'the former service', by);
    const waitingRows = await countPendingRows(trx, client);

    await makeReadsDue(trx, client);
    await notifyPushers(trx);
    await appendChanges(trx, client, changes);

    const kept = keepCursors ? 'cursors kept' : 'everything is read anew';
    const detail = `${formerBaseUrl ?? 'none'} -> ${baseUrl}, ${kept}`;
    await recordAudit(trx, { by, action: 'identity_accepted', client, detail });

    return { accepted: true, formerBaseUrl, waitingRows, deadRows, erasures };
  });
}

async function countPendingRows(trx: Transaction<DB>, client: string): Promise<number> {
  const { count } = await trx
    .selectFrom('fulfilment.outbox')
    .select(sql<number>`count(*)::int`.as('count'))
    .where('client', '=', client)
    .where('status', '=', 'pending')
    .executeTakeFirstOrThrow();
  return count;
}

/** Makes the scheduled jobs of a client due that read data of its account. */
async function makeReadsDue(trx: Transaction<DB>, client: string): Promise<void> {
  await trx
    .updateTable('sync.jobs')
    .set({ next_at: sql<Date>`sync.clock()` })
    .where('client', '=', client)
    .where((eb) => eb.or([eb('stream', 'is not', null), eb('job', 'in', rereadJobs)]))
    .where(sql<boolean>`isfinite(next_at)`)
    .where('next_at', '>', sql<Date>`sync.clock()`)
    .execute();
}

/** Stores the accepted identity. Ends the offer of another account. */
async function storeIdentity(
  trx: Transaction<DB>,
  { client, identity, baseUrl }: OfferedAccount,
): Promise<void> {
  const noOffer = { offered_identity: null, offered_base_url: null, offered_at: null };
  const accepted = { identity, base_url: baseUrl, accepted_at: sql<Date>`now()` };

  await trx
    .insertInto('sync.clients')
    .values({ client, identity, base_url: baseUrl })
    .onConflict((conflict) => conflict.column('client').doUpdateSet({ ...accepted, ...noOffer }))
    .execute();
}

/**
 * Ends the leases of all runs of a client, so that they cannot write any more. Their jobs are due
 * again.
 */
async function abandonRuns(trx: Transaction<DB>, client: string): Promise<void> {
  const cut = await trx
    .updateTable('sync.leases')
    .set((eb) => ({ key: eb('key', '+', 1), holder: null, expires_at: null }))
    .where('client', '=', client)
    .where('expires_at', 'is not', null)
    .returning(['client', 'name as job'])
    .execute();

  await recordAbandonedRuns(trx, cut);
}

/**
 * Marks rows dead that were or may have been sent to the former service: a look-up at another
 * service would not find them, and they would be sent again. A person decides. Rows that were
 * certainly not sent become pending again.
 * @returns the number of rows that are dead now
 */
async function markUnsettledDead(
  trx: Transaction<DB>,
  client: string,
  formerBaseUrl: string,
  by: string,
): Promise<number> {
  const because =
    `the outcome at ${formerBaseUrl} is not known, because another account was accepted before ` +
    'it was clear: use outbox retry or outbox done';

  await trx
    .updateTable('fulfilment.outbox')
    .set((eb) => ({
      status: 'pending',
      next_attempt_at: sql<Date>`now()`,
      lease_until: null,
      claim_no: null,
      attempts: eb('attempts', '-', 1),
    }))
    .where('client', '=', client)
    .where('status', '=', 'sending')
    .where('sent_at', 'is', null)
    .where('written_at', 'is', null)
    .execute();

  const { rows } = await sql`
    with marked as (
      update fulfilment.outbox
      set status = 'dead', finished_at = now(), next_attempt_at = null, lease_until = null,
        claim_no = null, sent_at = null, refusal = null, last_error = ${because},
        written_at = coalesce(written_at, sent_at)
      where client = ${client} and (status in ('sending', 'unknown')
        or (status = 'pending' and written_at is not null and absences < 2))
      returning id
    )
    insert into sync.outbox_attempts (outbox_id, step, by, became, error)
    select id, 'taken over', ${by}, 'dead', ${because}
    from marked
    returning 1`.execute(trx);

  return rows.length;
}

const forgottenTables = [
  'sync.cursors',
  'sync.waiting_reads',
  'sync.list_lags',
  'sync.freshness',
  'sync.gaps',
  'sync.rescans',
  'sync.quarantine',
  'sync.proven_kinds',
] as const;

/**
 * Pushes find ids by codes of the service lists, and return authorizations by references. Those of
 * the former service are not valid at the new one. `name` is SQL of their id and key in the feed.
 */
const markedTables = [
  {
    entity: 'return_merchandise_authorizations',
    since: 'unlisted_since',
    name: sql`id, null::text as key`,
    operation: 'unlisted',
  },
  {
    entity: 'setting_options',
    since: 'removed_at',
    name: sql`id, list || ':' || id as key`,
    operation: 'removed',
  },
  {
    entity: 'main_shipping_method_warehouses',
    since: 'removed_at',
    name: sql`null::bigint as id,
      concat_ws(':', main_shipping_method_id, shipping_method_id, warehouse) as key`,
    operation: 'removed',
  },
] as const;

/**
 * Deletes the state of the client's streams, and marks service lists and return authorizations of
 * the former service. Pushes and replays would take them for those of the new one.
 * @returns the changes for the feed, and the number of forgotten erasures
 */
async function forgetService(
  trx: Transaction<DB>,
  client: string,
): Promise<{ readonly changes: readonly Change[]; readonly erasures: number }> {
  for (const table of forgottenTables)
    await trx.deleteFrom(table).where('client', '=', client).execute();
  await deleteTurn(trx, { name: 'service-lists', scope: client });
  // Ids of the former service may be those of other orders at the new one.
  const { numDeletedRows } = await trx
    .deleteFrom('sync.erasures')
    .where('client', '=', client)
    .executeTakeFirstOrThrow();

  const changes: Change[] = [];
  for (const { entity, since, name, operation } of markedTables) {
    const { rows } = await sql<{ id: number | null; key: string | null }>`
      update ${tableRef(entity)}
      set ${sql.ref(since)} = now()
      where client = ${client} and ${sql.ref(since)} is null
      returning ${name}`.execute(trx);
    for (const row of rows) changes.push({ entity, ...row, operation });
  }
  return { changes, erasures: Number(numDeletedRows) };
}
