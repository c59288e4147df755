import type { TestDatabase } from './database.ts';

export type QueueKind = 'postgres' | 'redis';

/** Empties the queue's schema, as a person might who takes it for a cache. */
export async function truncateQueue(database: TestDatabase): Promise<void> {
  const tables = await database.query<{ name: string }>(
    `select format('%I.%I', schemaname, tablename) as name from pg_tables where schemaname = 'bullmq' and tablename not like '%migration%'`,
  );
  const names = tables.map(({ name }) => name).join(', ');
  for (;;) {
    try {
      await database.query(`truncate ${names} cascade`);
      return;
    } catch (error) {
      // It takes many locks, among workers that take them in another order: whoever is the victim tries again.
      if (!(error instanceof Error && 'code' in error && error.code === '40P01')) throw error;
    }
  }
}
