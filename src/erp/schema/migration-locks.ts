import { setTimeout as pause } from 'node:timers/promises';
import { type Kysely, sql } from 'kysely';
import { pauses } from '../../core/backoff.ts';
import { isLockTimeout } from '../connection/transaction.ts';

const reportEveryMs = 10_000;

/**
 * Runs `work` while no other process migrates this database. Locks a table of schema sync: any role that may connect
 * could take an advisory key and keep it.
 */
export async function withMigrationLock<T, R>(
  db: Kysely<T>,
  tell: (line: string) => void,
  work: () => Promise<R>,
): Promise<R> {
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
    await pause(pauses.otherMigration.firstMs);
  }
}

/** Describes up to three sessions whose open transactions use our tables, the oldest first. Empty if there are none. */
export async function findBlockers<T>(db: Kysely<T>): Promise<string> {
  const { rows } = await sql<{ who: string }>`
    select format('process %s (%s, %s, its transaction is open for %s s)', a.pid, a.usename,
      coalesce(nullif(a.application_name, ''), 'unnamed'), extract(epoch from now() - a.xact_start)::int) as who
    from pg_stat_activity a
    where a.pid <> pg_backend_pid() and a.xact_start is not null and exists (
      select from pg_locks l join pg_class c on c.oid = l.relation
      where l.pid = a.pid and l.granted
        and c.relnamespace in (select oid from pg_namespace where nspname in ('fulfilment', 'sync')))
      and a.application_name <> 'fulfilment-sync migrate'
    order by a.xact_start
    limit 3`.execute(db);
  return rows.map(({ who }) => who).join(', ');
}

/** Reports every 10 seconds how much of each index is built, until it is stopped. */
export function reportIndexProgress<T>(db: Kysely<T>, tell: (line: string) => void): { stop: () => Promise<void> } {
  const ended = new AbortController();
  const watching = (async () => {
    for (;;) {
      await pause(reportEveryMs, undefined, { signal: ended.signal });
      const { rows } = await sql<{ line: string }>`
        select format('%s: %s%s', p.index_relid::regclass, p.phase,
          case when p.blocks_total > 0 then format(' (%s %%)', 100 * p.blocks_done / p.blocks_total) end) as line
        from pg_stat_progress_create_index p
        where p.datname = current_database()`.execute(db);
      for (const { line } of rows) tell(line);
    }
  })().catch((error: unknown) => {
    if (!ended.signal.aborted) tell(`cannot read the progress: ${String(error)}`);
  });
  return {
    stop: async () => {
      ended.abort();
      await watching;
    },
  };
}
