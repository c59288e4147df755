import { sql, type Transaction } from 'kysely';
import { lockName } from '../connection/locks.ts';
import { notifyPushers } from '../connection/notify.ts';
import type { Database } from '../connection/pool.ts';
import { inTransaction } from '../connection/transaction.ts';
import type { DB } from '../generated/tables.ts';
import { appendChanges, type Change } from '../mirror/feed.ts';
import { recordAudit } from '../runs/audit.ts';
import { type ClientIdentity, identityLock } from '../runs/clients.ts';
import { type JobKey, recordAbandoned } from '../runs/due-jobs.ts';

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
    const { rows } = await sql<{ identity: string; base_url: string }>`
      select identity, base_url from sync.clients where client = ${client}`.execute(trx);
    const former = rows[0];
    const result = { formerBaseUrl: former?.base_url ?? null, waitingRows: 0, buriedRows: 0 };
    if (former?.identity === identity) return { ...result, accepted: false };
    // First of all, as runs lock their lease before anything else.
    await cutOffRuns(trx, client);
    await sql`
      insert into sync.clients (client, identity, base_url) values (${client}, ${identity}, ${baseUrl})
      on conflict (client) do update set identity = excluded.identity, base_url = excluded.base_url, accepted_at = now(),
        offered_identity = null, offered_base_url = null, offered_at = null,
        hold_code = null, hold_reason = null, hold_since = null, hold_until = null, hold_times = 0`.execute(trx);
    const changes = keepCursors ? [] : await forgetService(trx, client);
    if (keepCursors && former !== undefined) await carryGates(trx, former.identity, identity);
    await sql`delete from sync.push_holds where client = ${client}`.execute(trx);
    await sql`delete from sync.push_rates where client = ${client}`.execute(trx);
    if (!keepCursors) await sql`delete from sync.proven_kinds where client = ${client}`.execute(trx);
    const buriedRows = keepCursors ? 0 : await buryUnsettled(trx, client, former?.base_url ?? 'the former service', by);
    const { rows: waiting } = await sql<{ count: number }>`
      select count(*)::int as count from fulfilment.outbox where client = ${client} and status = 'pending'`.execute(
      trx,
    );
    await sql`
      update sync.jobs set due_at = sync.clock()
      where client = ${client} and (stream is not null or job = any(${rereadJobs}::text[])) and isfinite(due_at)
        and due_at > sync.clock()`.execute(trx);
    const detail = `${former?.base_url ?? 'none'} -> ${baseUrl}, ${keepCursors ? 'cursors kept' : 'everything is read anew'}`;
    await recordAudit(trx, { by, action: 'identity_accepted', client, detail });
    await notifyPushers(trx);
    await appendChanges(trx, client, changes);
    return { ...result, waitingRows: waiting[0]?.count ?? 0, buriedRows, accepted: true };
  });
}

/** Their leases end, so that nothing they still hold in memory is written; what they did is due again. */
async function cutOffRuns(trx: Transaction<DB>, client: string): Promise<void> {
  const { rows: cut } = await sql<JobKey>`
    update sync.leases set token = token + 1, holder = null, expires_at = null
    where client = ${client} and expires_at is not null returning client, name as job`.execute(trx);
  await recordAbandoned(trx, cut);
}

/**
 * What was or may have been sent to the former service must not be looked up at another one, found absent and sent again:
 * a person decides. What certainly was not sent waits for its turn.
 */
async function buryUnsettled(trx: Transaction<DB>, client: string, formerBaseUrl: string, by: string): Promise<number> {
  const because = `what became of it at ${formerBaseUrl} is not known, and another service was accepted since: outbox retry or done`;
  await sql`
    update fulfilment.outbox set status = 'pending', next_attempt_at = now(), lease_until = null, claim_no = null,
      attempts = attempts - 1
    where client = ${client} and status = 'sending' and sent_at is null and written_at is null`.execute(trx);
  const { rows } = await sql`
    with buried as (
      update fulfilment.outbox set status = 'dead', finished_at = now(), next_attempt_at = null, lease_until = null,
        claim_no = null, sent_at = null, refusal = null, last_error = ${because},
        written_at = coalesce(written_at, sent_at)
      where client = ${client} and (status in ('sending', 'unknown')
        or (status = 'pending' and written_at is not null and absences < 2)) returning id
    )
    insert into sync.outbox_attempts (outbox_id, step, by, became, error)
    select id, 'taken over', ${by}, 'dead', ${because} from buried returning 1`.execute(trx);
  return rows.length;
}

/** The same account must not be asked sooner because its address has changed. */
async function carryGates(trx: Transaction<DB>, former: string, identity: string): Promise<void> {
  await sql`
    insert into sync.gates as g (gate, identity, client, next_at, taken_at, finished_at)
    select gate, ${identity}, client, next_at, taken_at, finished_at from sync.gates where identity = ${former}
    on conflict (gate, identity) do update set next_at = greatest(g.next_at, excluded.next_at)`.execute(trx);
}

/** Forgets how far streams had come, and what of the former service pushes and replays would take for the new one's. */
async function forgetService(trx: Transaction<DB>, client: string): Promise<Change[]> {
  for (const table of [
    'cursors',
    'rereads',
    'absences',
    'freshness',
    'gaps',
    'settings_reads',
    'rescans',
    'quarantine',
  ])
    await sql`delete from ${sql.table(`sync.${table}`)} where client = ${client}`.execute(trx);
  // Codes lead to ids, and references to announced returns: those of the former service mean nothing to the new one.
  const { rows: returns } = await sql<{ id: number }>`
    update fulfilment.return_merchandise_authorizations set unlisted_since = now()
    where client = ${client} and unlisted_since is null returning id`.execute(trx);
  const { rows: options } = await sql<{ id: number; key: string }>`
    update fulfilment.setting_options set removed_at = now()
    where client = ${client} and removed_at is null returning id, list || ':' || id as key`.execute(trx);
  const { rows: methods } = await sql<{ key: string }>`
    update fulfilment.main_shipping_method_warehouses set removed_at = now()
    where client = ${client} and removed_at is null
    returning concat_ws(':', main_shipping_method_id, shipping_method_id, warehouse) as key`.execute(trx);
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
