import { readConfig } from '../../../config/env.ts';
import { hourMs } from '../../core/time.ts';
import { storeOutboxKinds } from '../../erp/outbox/kinds.ts';
import { migrate, type Tell } from '../../erp/schema/migrate.ts';
import { migrateQueue } from '../../queue/backend.ts';
import { outboxKinds } from '../../sync/push/kinds/registry.ts';
import { payloadSchema } from '../../sync/push/payload/payload.ts';
import { connectDatabase } from '../deps/database.ts';
import { openQueuePool } from '../deps/queue.ts';
import { openLogger } from '../logging/create-logger.ts';
import type { Logger } from '../logging/logger.ts';
import { version } from '../version.ts';

/** Building an index on a large table takes its time; given up half way, it would begin anew each time. */
const migrationTimeoutMs = 6 * hourMs;

/**
 * Brings the ERP database up to date: the schemas fulfilment and sync, and the queue's own, so that REDIS_URL can be
 * set and unset later without another migration.
 * @param tell receives progress
 * @returns the names of the migrations applied now
 */
export async function migrateDatabase(databaseUrl: string, log: Logger, tell?: Tell): Promise<string[]> {
  // One connection holds the lock, one migrates, and one reads the progress.
  const { db, close } = connectDatabase(databaseUrl, log, 'migrate', 3, migrationTimeoutMs);
  const pool = openQueuePool(databaseUrl, log);
  try {
    const applied = await migrate(db, version, { tell });
    await storeOutboxKinds(
      db,
      outboxKinds.map((kind) => ({ kind: kind.name, schema: payloadSchema(kind) })),
    );
    await migrateQueue(pool);
    return applied;
  } finally {
    await Promise.all([close(), pool.end()]);
  }
}

export async function migrateCommand(): Promise<number> {
  const config = readConfig({ database: true, clients: false });
  const log = await openLogger({ level: config.LOG_LEVEL, pretty: config.LOG_PRETTY });
  const applied = await migrateDatabase(config.DATABASE_URL ?? '', log, (line) => process.stdout.write(`${line}\n`));
  process.stdout.write(applied.length === 0 ? 'The database is up to date.\n' : `Applied ${applied.join(', ')}.\n`);
  return 0;
}
