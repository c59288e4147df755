import { sql, type Transaction } from 'kysely';
import { lockName } from '../connection/locks.ts';
import { notifyPushers } from '../connection/notify.ts';
import type { Database } from '../connection/pool.ts';
import { inTransaction } from '../connection/transaction.ts';
import type { DB } from '../generated/tables.ts';
import { appendChanges, type Change } from '../mirror/feed.ts';
import { recordAudit } from '../runs/audit.ts';
import { type ClientIdentity, identityLock } from '../runs/clients.ts';
import { recordAbandoned } from '../runs/due-jobs.ts';

/** Jobs beside the polls that read what belongs to an account, and may run at any time. */
const rereadJobs = ['refresh-settings', 'pull-stock'];

/** What came of accepting another account. */
export interface Acceptance {
  readonly accepted: boolean;
  readonly formerBaseUrl: string | null;
  /** Outbox rows that wait: they go to the new service. */
  readonly waitingRows: number;
  /** Outbox rows whose outcome at the former service is not known: they are dead now, and nobody sends them by himself. */
  readonly buriedRows: number;
}

/**
 * Accepts another identity for a client. Runs under way are cut off. Unless `keepCursors` says that it is the same account
 * at another address, everything is read anew from the beginning: cursors of one service mean nothing to another.
 */
export async function acceptIdentity(
  db: Database,
  { client, identity, baseUrl }: ClientIdentity,
  keepCursors: boolean,
  by: string,
): Promise<Acceptance> {
  return inTransaction(db, async (trx) => {
    // Waits for runs that are starting, see holdIdentity.
    await lockName(trx, identityLock(client));
    const former = await trx
      .selectFrom('sync.clients')
      .select(['identity', 'base_url'])
      .where('client', '=', client)
      .executeTakeFirst();
    const result = { formerBaseUrl: former?.base_url ?? null, waitingRows: 0, buriedRows: 0 };
    if (former?.identity === identity) return { ...result, accepted: false };
    // First of all, as runs lock their lease before anything else.
    await cutOffRuns(trx, client);
    await storeIdentity(trx, { client, identity, baseUrl });
    const changes = keepCursors ? [] : await forgetService(trx, client);
    if (keepCursors && former !== undefined) await carryGates(trx, former.identity, identity);
    await trx.deleteFrom('sync.push_holds').where('client', '=', client).execute();
    await trx.deleteFrom('sync.push_rates').where('client', '=', client).execute();
    if (!keepCursors) await trx.deleteFrom('sync.proven_kinds').where('client', '=', client).execute();
    const buriedRows = keepCursors ? 0 : await buryUnsettled(trx, client, former?.base_url ?? 'the former service', by);
    const { count: waitingRows } = await trx
      .selectFrom('fulfilment.outbox')
      .select(sql<number>`count(*)::int`.as('count'))
      .where('client', '=', client)
      .where('status', '=', 'pending')
      .executeTakeFirstOrThrow();
    await trx
      .updateTable('sync.jobs')
      .set({ due_at: sql<Date>`sync.clock()` })
      .where('client', '=', client)
      .where((eb) => eb.or([eb('stream', 'is not', null), eb('job', 'in', rereadJobs)]))
      .where(sql<boolean>`isfinite(due_at)`)
      .where('due_at', '>', sql<Date>`sync.clock()`)
      .execute();
    const kept = keepCursors ? 'cursors kept' : 'everything is read anew';
    const detail = `${former?.base_url ?? 'none'} -> ${baseUrl}, ${kept}`;
    await recordAudit(trx, { by, action: 'identity_accepted', client, detail });
    await notifyPushers(trx);
    await appendChanges(trx, client, changes);
    return { ...result, waitingRows, buriedRows, accepted: true };
  });
}

async function storeIdentity(trx: Transaction<DB>, { client, identity, baseUrl }: ClientIdentity): Promise<void> {
  const noOffer = { offered_identity: null, offered_base_url: null, offered_at: null };
  const noHold = { hold_code: null, hold_reason: null, hold_since: null, hold_until: null, hold_times: 0 };
  const accepted = { identity, base_url: baseUrl, accepted_at: sql<Date>`now()` };
  await trx
    .insertInto('sync.clients')
    .values({ client, identity, base_url: baseUrl })
    .onConflict((conflict) => conflict.column('client').doUpdateSet({ ...accepted, ...noOffer, ...noHold }))
    .execute();
}

/** Their leases end, so that nothing they still hold in memory is written; what they did is due again. */
async function cutOffRuns(trx: Transaction<DB>, client: string): Promise<void> {
  const cut = await trx
    .updateTable('sync.leases')
    .set((eb) => ({ token: eb('token', '+', 1), holder: null, expires_at: null }))
    .where('client', '=', client)
    .where('expires_at', 'is not', null)
    .returning(['client', 'name as job'])
    .execute();
  await recordAbandoned(trx, cut);
}

/**
 * What was or may have been sent to the former service must not be looked up at another one, found absent and sent again:
 * a person decides. What certainly was not sent waits for its turn.
 */
async function buryUnsettled(trx: Transaction<DB>, client: string, formerBaseUrl: string, by: string): Promise<number> {
  const because =
    `what became of it at ${formerBaseUrl} is not known, and another service was accepted since:` +
    ' outbox retry or done';
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
    with buried as (
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
    from buried
    returning 1`.execute(trx);
  return rows.length;
}

/** The same account must not be asked sooner because its address has changed. */
async function carryGates(trx: Transaction<DB>, former: string, identity: string): Promise<void> {
  await sql`
    insert into sync.gates as g (gate, identity, client, next_at, taken_at, finished_at)
    select gate, ${identity}, client, next_at, taken_at, finished_at
    from sync.gates
    where identity = ${former}
    on conflict (gate, identity) do update set next_at = greatest(g.next_at, excluded.next_at)`.execute(trx);
}

const forgottenTables = [
  'sync.cursors',
  'sync.rereads',
  'sync.absences',
  'sync.freshness',
  'sync.gaps',
  'sync.settings_reads',
  'sync.rescans',
  'sync.quarantine',
] as const;

/** Forgets how far streams had come, and what of the former service pushes and replays would take for the new one's. */
async function forgetService(trx: Transaction<DB>, client: string): Promise<Change[]> {
  for (const table of forgottenTables) await trx.deleteFrom(table).where('client', '=', client).execute();
  // Codes lead to ids, and references to announced returns: those of the former service mean nothing to the new one.
  const returns = await trx
    .updateTable('fulfilment.return_merchandise_authorizations')
    .set({ unlisted_since: sql<Date>`now()` })
    .where('client', '=', client)
    .where('unlisted_since', 'is', null)
    .returning('id')
    .execute();
  const options = await trx
    .updateTable('fulfilment.setting_options')
    .set({ removed_at: sql<Date>`now()` })
    .where('client', '=', client)
    .where('removed_at', 'is', null)
    .returning(['id', sql<string>`list || ':' || id`.as('key')])
    .execute();
  const methods = await trx
    .updateTable('fulfilment.main_shipping_method_warehouses')
    .set({ removed_at: sql<Date>`now()` })
    .where('client', '=', client)
    .where('removed_at', 'is', null)
    .returning(sql<string>`concat_ws(':', main_shipping_method_id, shipping_method_id, warehouse)`.as('key'))
    .execute();
  return [
    ...returns.map(({ id }) => ({
      entity: 'return_merchandise_authorizations',
      id,
      operation: 'unlisted' as const,
    })),
    ...options.map((row) => ({ entity: 'setting_options', ...row, operation: 'removed' as const })),
    ...methods.map(({ key }) => ({
      entity: 'main_shipping_method_warehouses',
      id: null,
      key,
      operation: 'removed' as const,
    })),
  ];
}
