import pg from 'pg';
import { jobNames } from '../../config/jobs.ts';
import { migrateDatabase } from '../../src/cli/commands/migrate.ts';
import { startEmbeddedPostgres } from '../../src/cli/demo/embedded-postgres.ts';
import { silentLogger } from '../../src/core/logger.ts';
import { connectDatabase } from '../../src/db/connect.ts';
import { readDueWork } from '../../src/push/sql/due-work.ts';
import { reviveAbandoned } from '../../src/schedule/sql/due-jobs.ts';
import { readDueRuns } from '../../src/schedule/sql/start-runs.ts';
import { registerClients } from '../../src/service/sql/clients.ts';

import { printLine } from './measure.ts';
import { measureMedian } from './status-time.ts';

const rounds = 11;
const worker = 'bench';

/**
 * Measures the statements that every worker repeats for all clients, with 50, 1,000 and 10,000
 * clients.
 */
export async function measureStatements(): Promise<void> {
  const postgres = await startEmbeddedPostgres();
  await migrateDatabase(postgres.url, silentLogger);
  const { db, close } = connectDatabase(postgres.url, silentLogger);
  const client = new pg.Client(postgres.url);
  await client.connect();
  for (const count of [50, 1_000, 10_000]) {
    const clients = Array.from({ length: count }, (_, index) => ({
      client: `shop-${index}`,
      identity: 'f'.repeat(64),
      baseUrl: 'https://service.test/',
    }));
    await client.query('truncate sync.jobs, sync.clients, sync.leases');
    await registerClients(db, clients);
    await client.query(
      `insert into sync.jobs (client, job, next_at)
       select k, j, now() + random() * interval '5 minutes' from unnest($1::text[]) k, unnest($2::text[]) j`,
      [clients.map(({ client: key }) => key), jobNames],
    );
    await client.query('insert into sync.leases (client, name) select client, job from sync.jobs');
    await client.query('analyze');
    const accounts = new Map(clients.map((account) => [account.client, account.identity]));
    const statements = {
      'due (every 3 s)': () =>
        readDueRuns(db, { jobs: jobNames, clients, worker, local: [], aheadMs: 1_000 }),
      'abandoned (every 3 s)': () => db.transaction().execute((trx) => reviveAbandoned(trx)),
      'registered (every 15 s)': () => registerClients(db, clients),
      'a firing': () =>
        readDueRuns(db, { jobs: ['pull-shipments'], clients, worker, local: [], aheadMs: 1_000 }),
      'a look of the pusher': () =>
        readDueWork(db, accounts, { worker, names: ['order.create'], lookedUp: ['order.create'] }),
    };
    const figures: string[] = [];
    for (const [name, run] of Object.entries(statements))
      figures.push(`${name} ${(await measureMedian(rounds, run)).toFixed(1)} ms`);
    printLine(`${count.toLocaleString('en')} clients: ${figures.join(', ')}`);
  }
  await client.end();
  await close();
  await postgres.stop();
}
