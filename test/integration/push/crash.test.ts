import pg from 'pg';
import { afterEach, expect, test } from 'vitest';
import { migrateDatabase } from '../../../src/cli/commands/migrate.ts';
import { silentLogger } from '../../../src/core/logger.ts';
import { makePoolConfig, openDatabase } from '../../../src/db/pool.ts';
import { openLeaseKeeper } from '../../../src/schedule/sql/leases.ts';
import { startEmbeddedPostgres } from '../../helpers/processes/embedded-postgres.ts';
import { memoryFolder } from '../../helpers/processes/memory-folder.ts';
import { postgresBin } from '../../helpers/processes/test-servers.ts';
import { usePuller } from '../../helpers/puller.ts';
import { usePusher } from '../../helpers/pusher.ts';
import { quiet, useSandbox } from '../../helpers/sandbox.ts';

const sandbox = useSandbox(['default'], { ...quiet, ordersPerDay: 8 });
const closers: (() => Promise<unknown>)[] = [];
afterEach(async () => {
  for (const close of closers.splice(0).toReversed()) await close();
});

/**
 * A server that confirms commits before they are on disk, and writes its log only once in ten
 * seconds.
 */
const careless = { synchronous_commit: 'off', wal_writer_delay: '10s', autovacuum: 'off' };

test('what a push has settled is settled after a crash, although commits of the server are not durable', async () => {
  const postgres = await startEmbeddedPostgres(careless, memoryFolder(), postgresBin);
  closers.push(() => postgres.stop());
  await migrateDatabase(postgres.url, silentLogger);
  const pool = new pg.Pool({ ...makePoolConfig(postgres.url, { name: 'test', max: 2 }) });
  pool.on('error', () => undefined);
  closers.push(() => pool.end());
  const query = async <T extends pg.QueryResultRow>(text: string, values: unknown[] = []) =>
    (await pool.query<T>(text, values)).rows;
  const database = { url: postgres.url, db: openDatabase(pool), query };
  await sandbox.advance(2 * 86_400);
  const { keeper, close } = openLeaseKeeper(postgres.url, silentLogger);
  const pull = usePuller({ ...database, forRuns: () => ({ db: database.db, keeper }) }, sandbox);
  await pull('pull-shipments').finally(close);
  const [shipment] = await query<{ id: number }>('select id from fulfilment.shipments limit 1');
  const outbox = usePusher(database, sandbox);
  // What is lost later can only be what the push wrote.
  const id = await outbox.insert('return_label.create', 'SO-1', { shipmentId: shipment?.id });
  await query('select pg_switch_wal()');
  await outbox.push();
  await postgres.crash();
  await outbox.close();
  await outbox.expectRow(id, { status: 'done', attempts: 1 });
  await outbox.push();
  expect(await sandbox.count('v2.returnLabel.get')).toBe(1);
});
