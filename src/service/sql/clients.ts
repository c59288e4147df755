import { type Kysely, sql, type Transaction } from 'kysely';
import type { DB } from '../../db/generated/tables.ts';
import { anyText } from '../../db/values.ts';

/** A client with the account that this process is set up with for it. */
export interface ClientAccount {
  readonly client: string;
  /** Fingerprint of base URL and username. */
  readonly identity: string;
}

/** A client's account with its base URL, as a process offers it. */
export interface OfferedAccount extends ClientAccount {
  readonly baseUrl: string;
}

/**
 * Inserts a row for each client that has none, and accepts its account. If a client already has
 * another accepted account, the offered one is only recorded.
 * @returns clients whose account is not the accepted one
 */
export async function registerClients(
  db: Kysely<DB>,
  clients: readonly OfferedAccount[],
): Promise<string[]> {
  const { rows } = await sql<{ client: string }>`
    with given as (
      select *
      from unnest(${clients.map(({ client }) => client)}::text[],
        ${clients.map(({ identity }) => identity)}::text[],
        ${clients.map(({ baseUrl }) => baseUrl)}::text[]) as g (client, identity, base_url)
    ), added as (
      insert into sync.clients (client, identity, base_url)
      select *
      from given g
      where not exists (select from sync.clients c where c.client = g.client)
      on conflict do nothing
    )
    update sync.clients c
    set offered_identity = g.identity, offered_base_url = g.base_url, offered_at = now()
    from given g
    where c.client = g.client and c.identity <> g.identity
    returning c.client`.execute(db);

  return rows.map(({ client }) => client);
}

/**
 * Records that a worker pushes for these clients. Writes at most once in 30 seconds for each
 * client.
 */
export async function markServed(db: Kysely<DB>, clients: readonly ClientAccount[]): Promise<void> {
  await sql`
    update sync.clients c
    set served_at = now()
    from unnest(${clients.map(({ client }) => client)}::text[],
      ${clients.map(({ identity }) => identity)}::text[]) as o (client, identity)
    where c.client = o.client and c.identity = o.identity
      and (c.served_at is null or c.served_at < now() - interval '30 seconds')`.execute(db);
}

/**
 * Records whether the queue answers the worker of these clients.
 * @param error how it failed; null if it answered
 */
export async function noteQueue(
  db: Kysely<DB>,
  clients: readonly string[],
  error: string | null,
): Promise<void> {
  await db
    .updateTable('sync.clients')
    .set({ queue_away_since: error === null ? null : sql<Date>`now()`, queue_error: error })
    .where('client', '=', anyText(clients))
    .where('queue_away_since', error === null ? 'is not' : 'is', null)
    .execute();
}

/** Returns true if this account is the accepted one, and keeps it so until the transaction ends. */
export async function isAcceptedUntilCommit(
  trx: Transaction<DB>,
  account: ClientAccount,
): Promise<boolean> {
  const accepted = trx
    .selectFrom('sync.clients')
    .select('client')
    .where('client', '=', account.client)
    .where('identity', '=', account.identity)
    .forKeyShare();
  return (await accepted.executeTakeFirst()) !== undefined;
}

/**
 * A client as it is stored in the database. `offeredBaseUrl` is that of another account that a
 * process offered within the last minute; `queueAwaySince` and `queueError` are null while the
 * queue answers; `servedAt` is when a worker last pushed for it, accurate to 30 seconds.
 */
export type KnownClient = Awaited<ReturnType<typeof readClients>>[number];

/** Reads all clients, also former ones. */
export async function readClients(db: Kysely<DB>) {
  return db
    .selectFrom('sync.clients as c')
    .select([
      'c.client',
      'c.identity',
      'c.base_url as baseUrl',
      'c.accepted_at as acceptedAt',
      'c.queue_away_since as queueAwaySince',
      'c.queue_error as queueError',
      'c.served_at as servedAt',
      sql<string | null>`
        case when offered_at > now() - interval '1 minute' then offered_base_url end`.as(
        'offeredBaseUrl',
      ),
    ])
    .orderBy('c.client')
    .execute();
}
