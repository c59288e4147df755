import { type Kysely, sql } from 'kysely';
import type { DB } from '../../db/generated/tables.ts';
import { isWriteRefused } from '../../db/is-unreachable.ts';
import { anyText } from '../../db/values.ts';

/** Facts about the database server, as it reports them. */
export interface ServerFacts {
  readonly version: string;
  readonly encoding: string;
  /**
   * Settings with which a crash or a broken disk damages data, as `name = value`. No session can
   * change them.
   */
  readonly unsafeSettings: readonly string[];
  /** Milliseconds since 1970, by the server's clock. */
  readonly nowMs: number;
  readonly readOnly: boolean;
  /** Connections for ordinary roles, without those reserved for superusers. */
  readonly maxConnections: number;
  readonly connections: number;
  readonly databaseBytes: number;
}

/** Reads facts about the server. Our schemas need not exist. */
export async function readServerFacts(db: Kysely<DB>): Promise<ServerFacts> {
  const { rows } = await sql<ServerFacts>`
    select array(
        select format('%s = %s', s.name, s.setting)
        from pg_settings s
        where (s.name, s.setting) in (('fsync', 'off'), ('full_page_writes', 'off'),
          ('zero_damaged_pages', 'on'), ('ignore_checksum_failure', 'on'))
        order by s.name) as "unsafeSettings",
      current_setting('server_version') as version, current_setting('server_encoding') as encoding,
      extract(epoch from clock_timestamp())::float8 * 1000 as "nowMs",
      (pg_is_in_recovery() or current_setting('default_transaction_read_only')::boolean)
        as "readOnly",
      current_setting('max_connections')::int
        - current_setting('superuser_reserved_connections')::int
        - coalesce(current_setting('reserved_connections', true)::int, 0) as "maxConnections",
      (select sum(numbackends)::int from pg_stat_database) as connections,
      pg_database_size(current_database())::float8 as "databaseBytes"`.execute(db);

  return rows[0] as ServerFacts;
}

/** Returns true if the database takes no writes: it is a standby, or is set so. */
export async function takesNoWrites(db: Kysely<DB>): Promise<boolean> {
  try {
    const { rows } = await sql<{ readOnly: boolean }>`
      select current_setting('transaction_read_only')::boolean as "readOnly"`.execute(db);
    return rows[0]?.readOnly ?? false;
  } catch (error) {
    if (isWriteRefused(error)) return true;
    throw error;
  }
}

/** Reads the used part of the server's NOTIFY queue, from 0 to 1. */
export async function readNotifyQueue(db: Kysely<DB>): Promise<number> {
  const { rows } = await sql<{ used: number }>`
    select pg_notification_queue_usage() as used`.execute(db);
  return rows[0]?.used ?? 0;
}

/** Reads which of our existing schemas the current role may not use. */
export async function readUnusableSchemas(db: Kysely<DB>): Promise<string[]> {
  const { rows } = await sql<{ name: string }>`
    select nspname as name
    from pg_namespace
    where nspname in ('fulfilment', 'sync', 'bullmq') and not has_schema_privilege(oid, 'USAGE')
    order by 1`.execute(db);
  return rows.map(({ name }) => name);
}

/**
 * Reads which rights on our tables and sequences the current role lacks, of those that workers
 * need.
 */
export async function readMissingGrants(db: Kysely<DB>): Promise<string[]> {
  const { rows } = await sql<{ missing: string }>`
    select format('%s on %I.%I', p.privilege, n.nspname, c.relname) as missing
    from pg_class c
    join pg_namespace n on n.oid = c.relnamespace
    cross join (values ('SELECT'), ('INSERT'), ('UPDATE'), ('DELETE')) as p (privilege)
    where n.nspname in ('fulfilment', 'sync', 'bullmq') and c.relkind in ('r', 'p')
      and not has_table_privilege(c.oid, p.privilege)
    union all
    select format('USAGE on sequence %I.%I', n.nspname, c.relname)
    from pg_class c
    join pg_namespace n on n.oid = c.relnamespace
    where n.nspname = 'sync' and c.relkind = 'S' and c.relname = 'read_no'
      and not has_sequence_privilege(c.oid, 'USAGE')
    order by 1`.execute(db);

  return rows.map(({ missing }) => missing);
}

/**
 * Reads which roles for the ERP are missing or have no grants. One reason: the role that migrated
 * was not allowed to create roles.
 */
export async function readMissingRoles(db: Kysely<DB>): Promise<string[]> {
  const { rows } = await sql<{ role: string }>`
    select r.role
    from (values ('fulfilment_reader'), ('fulfilment_writer')) as r (role)
    left join pg_roles p on p.rolname = r.role
    where p.oid is null or not has_schema_privilege(p.oid, 'fulfilment', 'USAGE')
      or not has_table_privilege(p.oid, 'fulfilment.orders', 'SELECT')
    order by r.role`.execute(db);

  return rows.map(({ role }) => role);
}

/**
 * Number of articles in stock_watch of one client, or (null) of all clients that no worker has ever
 * had.
 */
export type WatchedArticles = Awaited<ReturnType<typeof countWatchedArticles>>[number];

/**
 * Counts the watched articles of each client that has any. The ERP may insert articles for any
 * number of names.
 * @param configured clients that count as known, even if no worker has had them
 */
export async function countWatchedArticles(db: Kysely<DB>, configured: readonly string[]) {
  const isKnown = sql`c.client is not null or w.client = ${anyText(configured)}`;
  const known = sql<string | null>`case when ${isKnown} then w.client end`;

  return db
    .selectFrom('sync.watched_articles as w')
    .leftJoin('sync.clients as c', 'c.client', 'w.client')
    .select([known.as('client'), sql<number>`count(*)::int`.as('articles')])
    .groupBy(sql`1`)
    .orderBy(sql`1 nulls last`)
    .execute();
}
