import { type Kysely, sql, type Transaction } from 'kysely';
import { shareName } from '../connection/locks.ts';
import type { DB } from '../generated/tables.ts';

/** A client, and the account that this process is set up with for it. */
export interface Own {
  readonly client: string;
  /** Fingerprint of base URL and username. */
  readonly identity: string;
}

/** The same with its address, for people. */
export interface ClientIdentity extends Own {
  readonly baseUrl: string;
}

/**
 * Makes sure that every client has its row. The first identity that comes is accepted; of a client that comes with
 * another one it is noted, and nothing more.
 * @returns clients whose identity is not the accepted one
 */
export async function registerClients(db: Kysely<DB>, clients: readonly ClientIdentity[]): Promise<string[]> {
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

/** Says that a worker pushes for these clients. Written only now and then. */
export async function markServed(db: Kysely<DB>, clients: readonly Own[]): Promise<void> {
  await sql`
    update sync.clients c
    set served_at = now()
    from unnest(${clients.map(({ client }) => client)}::text[],
      ${clients.map(({ identity }) => identity)}::text[]) as o (client, identity)
    where c.client = o.client and c.identity = o.identity
      and (c.served_at is null or c.served_at < now() - interval '30 seconds')`.execute(db);
}

/** Name of the lock that an identity is changed under. */
export const identityLock = (client: string) => `identity ${client}`;

/** Keeps the identity unchanged until the transaction ends. `acceptIdentity` waits for this lock. */
export async function holdIdentity(trx: Transaction<DB>, client: string): Promise<void> {
  await shareName(trx, identityLock(client));
}

/** Whether this account is the one that a client's rows come from. */
export async function isAccepted(db: Kysely<DB>, { client, identity }: Own): Promise<boolean> {
  const accepted = db
    .selectFrom('sync.clients')
    .select('client')
    .where('client', '=', client)
    .where('identity', '=', identity);
  return (await accepted.executeTakeFirst()) !== undefined;
}

/** The same, and it stays so until the transaction ends. */
export async function staysAccepted(trx: Transaction<DB>, own: Own): Promise<boolean> {
  await holdIdentity(trx, own.client);
  return isAccepted(trx, own);
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
  /** When a worker that pushes for it was last there, to half a minute; null: never. */
  readonly servedAt: Date | null;
}

/** All clients that ever were, with what keeps them from being read. */
export async function readClients(db: Kysely<DB>): Promise<KnownClient[]> {
  return db
    .selectFrom('sync.clients')
    .select([
      'client',
      'identity',
      'base_url as baseUrl',
      'accepted_at as acceptedAt',
      'hold_code as holdCode',
      'hold_reason as holdReason',
      'hold_since as holdSince',
      'hold_until as holdUntil',
      'served_at as servedAt',
      sql<string | null>`case when offered_at > now() - interval '1 minute' then offered_base_url end`.as(
        'offeredBaseUrl',
      ),
    ])
    .orderBy('client')
    .execute();
}
