import { setTimeout as pause } from 'node:timers/promises';
import { type Kysely, sql } from 'kysely';
import { isLockTimeout } from './transaction.ts';

const askAgainMs = 500;
const watchEveryMs = 10_000;

/**
 * Runs `work` while no other process migrates this database. What is locked is a table of ours: an advisory key could be
 * taken, and kept, by any role that may connect.
 */
export async function alone<T, R>(db: Kysely<T>, tell: (line: string) => void, work: () => Promise<R>): Promise<R> {
  for (let told = false; ; ) {
    const trx = await db.startTransaction().execute();
    try {
      await sql`set local idle_in_transaction_session_timeout = 0`.execute(trx);
      const locked = await sql`lock table sync.migration_lock in exclusive mode nowait`.execute(trx).then(
        () => true,
        (error: unknown) => {
          if (!isLockTimeout(error)) throw error;
          return false;
        },
      );
      if (locked) return await work();
    } finally {
      await trx.rollback().execute();
    }
    if (!told) tell('Another process is migrating this database; waiting for it …');
    told = true;
    await pause(askAgainMs);
  }
}

/** The sessions whose open transactions use tables of ours, the oldest first; empty where there are none. */
export async function blockersOf<T>(db: Kysely<T>): Promise<string> {
  const { rows } = await sql<{ who: string }>`
    select format('process %s (%s, %s, its transaction is open for %s s)', a.pid, a.usename,
      coalesce(nullif(a.application_name, ''), 'unnamed'), extract(epoch from now() - a.xact_start)::int) as who
    from pg_stat_activity a
    where a.pid <> pg_backend_pid() and a.xact_start is not null and exists (
      select from pg_locks l join pg_class c on c.oid = l.relation
      where l.pid = a.pid and l.granted and c.relnamespace in (select oid from pg_namespace where nspname in ('fulfilment', 'sync')))
      and a.application_name <> 'fulfilment-sync migrate'
    order by a.xact_start limit 3`.execute(db);
  return rows.map(({ who }) => who).join(', ');
}

/** Tells from time to time how far the indexes are that are being built. */
export function watchIndexes<T>(db: Kysely<T>, tell: (line: string) => void): { stop: () => Promise<void> } {
  const ended = new AbortController();
  const watching = (async () => {
    for (;;) {
      await pause(watchEveryMs, undefined, { signal: ended.signal });
      const { rows } = await sql<{ line: string }>`
        select format('%s: %s%s', p.index_relid::regclass, p.phase,
          case when p.blocks_total > 0 then format(' (%s %%)', 100 * p.blocks_done / p.blocks_total) end) as line
        from pg_stat_progress_create_index p where p.datname = current_database()`.execute(db);
      for (const { line } of rows) tell(line);
    }
  })().catch((error: unknown) => {
    if (!ended.signal.aborted) tell(`how far it is cannot be told: ${String(error)}`);
  });
  return {
    stop: async () => {
      ended.abort();
      await watching;
    },
  };
}
