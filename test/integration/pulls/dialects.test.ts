import { expect, test } from 'vitest';
import type { JobName } from '../../../config/jobs.ts';
import { compareWithSandbox } from '../../../src/app/demo/oracle.ts';
import { dialects } from '../../../src/sandbox/resources/dialect.ts';
import { type TestDatabase, useDatabase } from '../../helpers/database.ts';
import { done, usePuller } from '../../helpers/puller.ts';
import { lively, useSandbox } from '../../helpers/sandbox.ts';

const databases = { plain: useDatabase(), rich: useDatabase() };
const sandbox = useSandbox(['default'], { ...lively, ordersPerDay: 12 });
const pulls = { plain: usePuller(databases.plain, sandbox), rich: usePuller(databases.rich, sandbox) };
const jobs: readonly JobName[] = [
  'pull-shipments',
  'pull-orders',
  'pull-return-items',
  'pull-inbounds',
  'pull-inbound-packing-slips',
];

/** Returns all rows of all tables of the mirror, without `raw`, ids of addresses and times of our own. */
async function readTables({ query }: TestDatabase): Promise<Map<string, Record<string, unknown>[]>> {
  const tables = await query<{ name: string }>(`
    select table_name as name from information_schema.columns
    where table_schema = 'fulfilment' and column_name = 'raw' order by 1`);
  const omitted = ['raw', 'read_no', 'first_seen_at', 'changed_at', 'delivery_address_id', 'billing_address_id'];
  const rows = tables.map(async ({ name }): Promise<[string, Record<string, unknown>[]]> => {
    const columns = name === 'order_addresses' ? [...omitted, 'id'] : omitted;
    const found = await query<{ row: Record<string, unknown> }>(
      `select (to_jsonb(t) #- '{pick_up_point,links}') - $1::text[] as row from fulfilment.${name} t order by 1`,
      [columns],
    );
    return [name, found.map(({ row }) => row)];
  });
  return new Map(await Promise.all(rows));
}

test('both dialects of the service fill all tables with the same values', async () => {
  for (const days of [14, 4]) {
    await sandbox.advance(days * 86_400);
    for (const dialect of dialects) {
      await sandbox.switches({ dialect });
      for (const job of jobs) done(await pulls[dialect](job));
    }
  }
  for (const dialect of dialects) {
    await sandbox.switches({ dialect });
    expect(done(await pulls[dialect]('reconcile'))).toMatchObject({ quarantined: 0 });
    expect(await compareWithSandbox(databases[dialect].db, sandbox.url)).toEqual([]);
  }
  const [plain, rich] = [await readTables(databases.plain), await readTables(databases.rich)];
  for (const [name, rows] of plain) expect(rich.get(name), name).toEqual(rows);
  console.log([...plain].map(([name, rows]) => `${name} ${rows.length}`).join(', '));
});
