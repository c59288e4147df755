import type { TestDatabase } from './database.ts';

/** Sets the clock of schedules and gates so many seconds ahead of the server's, in this test's database. */
export function setScheduleClock(database: TestDatabase, aheadSeconds: number): Promise<unknown> {
  return database.query(`
    create or replace function sync.clock() returns timestamptz language sql stable
    as $$ select statement_timestamp() + interval '${aheadSeconds} seconds' $$`);
}
