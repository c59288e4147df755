import { readConfig } from '../../../config/env.ts';
import type { Database } from '../../erp/connection/pool.ts';
import { assertSchemaFits } from '../../erp/schema/schema-fit.ts';
import { connectDatabase } from '../deps/database.ts';
import { silentLogger } from '../logging/logger.ts';

/**
 * Opens the database for a command that executes no runs, calls `work`, and closes the database afterwards.
 * @param name name of the connection in Postgres
 * @throws SchemaError if the schema does not fit this version
 */
export async function withDatabase<T>(name: string, work: (db: Database) => Promise<T>): Promise<T> {
  const config = readConfig({ database: true, clients: false });
  const { db, close } = connectDatabase(config.DATABASE_URL ?? '', silentLogger, name, 1);
  try {
    await assertSchemaFits(db);
    return await work(db);
  } finally {
    await close();
  }
}
