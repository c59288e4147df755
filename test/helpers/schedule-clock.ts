import type { TestDatabase } from './database.ts';

/**
 * Sets the clock of schedules and gates `aheadSeconds` ahead of the server, in the database of this
 * test.
 */
export function setScheduleClock(database: TestDatabase, aheadSeconds: number): Promise<unknown> {
  return database.query(`
    create or replace function sync.clock() returns timestamptz language sql stable
    as $$ select statement_timestamp() + interval '${aheadSeconds} seconds' $$`);
}
