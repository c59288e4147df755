import { changeInWords } from '../../core/database-mark.ts';
import type { Database } from '../../erp/connection/pool.ts';
import { readPushDatabase } from '../../erp/outbox/push-database.ts';
import { type Finding, fail, ok, runCheck } from './finding.ts';

/** Checks whether rows may be sent from this database (docs/operations.md). */
export function checkPushes(db: Database): Promise<readonly Finding[]> {
  return runCheck('pushes', 'run: fulfilment-sync migrate', async () => {
    const database = await readPushDatabase(db);
    if (database === null) return [ok('pushes', 'no worker has run yet; the first one sends from this database')];
    const { change, acceptedAs, acceptedAt } = database;
    const since = acceptedAt.toISOString();
    if (change !== 'none') {
      const remedy =
        'say what it is: fulfilment-sync database accept --as moved, restored or copy (docs/operations.md)';
      return [fail('pushes', `nothing is sent (database_changed): ${changeInWords[change]}`, remedy)];
    }
    if (acceptedAs === 'copy')
      return [ok('pushes', `this database was accepted as a copy at ${since}: nothing is sent from it`)];
    return [ok('pushes', `rows are sent from this database since ${since}`)];
  });
}
