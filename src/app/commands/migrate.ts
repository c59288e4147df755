import { readConfig } from '../../../config/env.ts';
import { type Operations, operations } from '../../../config/operations.ts';
import { hourMs } from '../../core/time.ts';
import { storeOutboxKinds } from '../../erp/outbox/kinds.ts';
import { migrate, type ProgressReporter } from '../../erp/schema/migrate.ts';
import { migrateQueue } from '../../queue/backend.ts';
import { outboxKinds } from '../../sync/push/kinds/registry.ts';
import { configureKind } from '../../sync/push/payload/kind.ts';
import { toPayloadSchema } from '../../sync/push/payload/payload.ts';
import { connectDatabase } from '../deps/database.ts';
import { openQueuePool } from '../deps/queue.ts';
import { openLogger } from '../logging/create-logger.ts';
import type { Logger } from '../logging/logger.ts';
import { version } from '../version.ts';

/** Time limit of a migration. It is long, because an index on a large table that is given up must start again. */
const migrationTimeoutMs = 6 * hourMs;

/**
 * Migrates the ERP database: the schemas fulfilment and sync, and the schema of the queue. The queue's schema is made
 * even if REDIS_URL is set, so that REDIS_URL can be set and unset later without another migration.
 * @param tell receives lines about the progress
 * @param inUse operations that the stored payload schemas are made for
 * @returns the names of the migrations that were applied now
 */
export async function migrateDatabase(
  databaseUrl: string,
  log: Logger,
  tell?: ProgressReporter,
  inUse: Operations = operations,
): Promise<string[]> {
  // One connection holds the lock, one migrates, and one reads the progress.
  const { db, close } = connectDatabase(databaseUrl, log, 'migrate', 3, migrationTimeoutMs);
  const pool = openQueuePool(databaseUrl, log);
  try {
    const applied = await migrate(db, version, { tell });
    const kinds = outboxKinds.map((kind) => configureKind(kind, inUse));
    await storeOutboxKinds(
      db,
      kinds.map((kind) => ({ kind: kind.name, schema: toPayloadSchema(kind) })),
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
  const tell = (line: string) => process.stdout.write(`${line}\n`);
  const applied = await migrateDatabase(config.DATABASE_URL ?? '', log, tell, config.operations);
  process.stdout.write(applied.length === 0 ? 'The database is up to date.\n' : `Applied ${applied.join(', ')}.\n`);
  return 0;
}
