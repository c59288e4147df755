import { type Kysely, sql, type Transaction } from 'kysely';
import { recordAudit } from './audit.ts';
import type { Database } from './connect.ts';
import type { DB } from './rows.ts';

/** A client as this process is set up: which service and account its rows come from. */
export interface ClientIdentity {
  readonly client: string;
  /** Fingerprint of base URL and username. */
  readonly identity: string;
  readonly baseUrl: string;
}

/** Whoever changes an identity waits for the runs that are being started, and they for him. */
const lockOf = (client: string) => sql`hashtext('fulfilment-sync identity'), hashtext(${client})`;

/**
 * Makes sure that every client has its row. The first identity that comes is accepted; of a client that comes with
 * another one it is noted, and nothing more.
 * @returns clients whose identity is not the accepted one
 */
export async function registerClients(db: Kysely<DB>, clients: readonly ClientIdentity[]): Promise<string[]> {
  const { rows } = await sql<{ client: string }>`
    with given as (
      select * from unnest(${clients.map(({ client }) => client)}::text[], ${clients.map(({ identity }) => identity)}::text[],
        ${clients.map(({ baseUrl }) => baseUrl)}::text[]) as g (client, identity, base_url)
    ), added as (
      insert into sync.clients (client, identity, base_url) select * from given g
      where not exists (select from sync.clients c where c.client = g.client)
      on conflict do nothing
    )
    update sync.clients c set offered_identity = g.identity, offered_base_url = g.base_url, offered_at = now()
    from given g where c.client = g.client and c.identity <> g.identity
    returning c.client`.execute(db);
  return rows.map(({ client }) => client);
}

/** Keeps the identities as they are until the transaction ends. */
export async function holdIdentity(trx: Transaction<DB>, client: string): Promise<void> {
  await sql`select pg_advisory_xact_lock_shared(${lockOf(client)})`.execute(trx);
}

/** A client as the database knows it. */
export interface KnownClient {
  readonly client: string;
  readonly identity: string;
  readonly baseUrl: string;
  readonly acceptedAt: Date;
  /** Base URL of another identity that came within the last minute; null where none did. */
  readonly offeredBaseUrl: string | null;
  readonly holdCode: string | null;
  readonly holdReason: string | null;
  readonly holdSince: Date | null;
  readonly holdUntil: Date | null;
}

/** All clients that ever were, with what keeps them from being read. */
export async function readClients(db: Kysely<DB>): Promise<KnownClient[]> {
  const { rows } = await sql<KnownClient>`
    select client, identity, base_url as "baseUrl", accepted_at as "acceptedAt",
      case when offered_at > now() - interval '1 minute' then offered_base_url end as "offeredBaseUrl",
      hold_code as "holdCode", hold_reason as "holdReason", hold_since as "holdSince", hold_until as "holdUntil"
    from sync.clients order by client`.execute(db);
  return rows;
}

/** What is forgotten where a client's rows come from another service from now on. */
export interface Acceptance {
  readonly accepted: boolean;
  readonly formerBaseUrl: string | null;
  /** Outbox rows that are not through: they go to the new service. */
  readonly openOutboxRows: number;
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
  return db.transaction().execute(async (trx) => {
    await sql`select pg_advisory_xact_lock(${lockOf(client)})`.execute(trx);
    const { rows } = await sql<{ identity: string; base_url: string }>`
      select identity, base_url from sync.clients where client = ${client}`.execute(trx);
    const { rows: open } = await sql<{ count: number }>`
      select count(*)::int as count from fulfilment.outbox
      where client = ${client} and status in ('pending', 'sending', 'unknown', 'dead')`.execute(trx);
    const former = rows[0];
    const result = { formerBaseUrl: former?.base_url ?? null, openOutboxRows: open[0]?.count ?? 0 };
    if (former?.identity === identity) return { ...result, accepted: false };
    await sql`
      insert into sync.clients (client, identity, base_url) values (${client}, ${identity}, ${baseUrl})
      on conflict (client) do update set identity = excluded.identity, base_url = excluded.base_url, accepted_at = now(),
        offered_identity = null, offered_base_url = null, offered_at = null,
        hold_code = null, hold_reason = null, hold_since = null, hold_until = null, hold_times = 0`.execute(trx);
    await cutOffRuns(trx, client);
    if (!keepCursors) await forgetProgress(trx, client);
    await sql`
      update sync.jobs set due_at = sync.clock()
      where client = ${client} and (job like 'pull-%' or job = 'refresh-settings') and isfinite(due_at)
        and due_at > sync.clock()`.execute(trx);
    const detail = `${former?.base_url ?? 'none'} -> ${baseUrl}, ${keepCursors ? 'cursors kept' : 'everything is read anew'}`;
    await recordAudit(trx, { by, action: 'identity_accepted', client, detail });
    return { ...result, accepted: true };
  });
}

/** Their leases end, so that nothing they still hold in memory is written. */
async function cutOffRuns(trx: Transaction<DB>, client: string): Promise<void> {
  await sql`
    update sync.leases set token = token + 1, holder = null, expires_at = null
    where client = ${client} and expires_at is not null`.execute(trx);
  await sql`
    update sync.runs set status = 'abandoned', finished_at = now()
    where client = ${client} and status = 'running'`.execute(trx);
}

async function forgetProgress(trx: Transaction<DB>, client: string): Promise<void> {
  await sql`delete from sync.cursors where client = ${client}`.execute(trx);
  await sql`delete from sync.rereads where client = ${client}`.execute(trx);
  await sql`delete from sync.absences where client = ${client}`.execute(trx);
  await sql`delete from sync.freshness where client = ${client}`.execute(trx);
  await sql`delete from sync.gaps where client = ${client}`.execute(trx);
  await sql`delete from sync.settings_reads where client = ${client}`.execute(trx);
  await sql`
    update sync.rescans set finished_at = now(), outcome = 'failed', error = 'another service was accepted meanwhile'
    where client = ${client} and finished_at is null`.execute(trx);
}
