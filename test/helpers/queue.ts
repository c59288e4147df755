import type { TestDatabase } from './database.ts';

export type QueueKind = 'postgres' | 'redis';

/**
 * Deletes all rows of the schema of the queue, as a person might who believes that it is a cache.
 */
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
      // Workers take the same locks in another order. After a deadlock this statement is tried
      // again.
      if (!(error instanceof Error && 'code' in error && error.code === '40P01')) throw error;
    }
  }
}
