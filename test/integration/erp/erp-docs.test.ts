import { readFileSync } from 'node:fs';
import { sql } from 'kysely';
import { expect, test } from 'vitest';
import { streams } from '../../../jobs/registry.ts';
import { useDatabase } from '../../helpers/database.ts';
import { done, usePuller } from '../../helpers/puller.ts';
import { lively, useSandbox } from '../../helpers/sandbox.ts';

const database = useDatabase();
const sandbox = useSandbox(['default'], lively);
const pull = usePuller(database, sandbox);

const docs = readFileSync(new URL('../../../docs/erp.md', import.meta.url), 'utf8');
const statements = [...docs.matchAll(/```sql\n(.*?)```/gs)].map(([, text = '']) => text);

test('the SQL of docs/erp.md does what it says, for a role that may only read', async () => {
  await sandbox.advance(12 * 86_400);
  for (const { name } of streams) done(await pull(`pull-${name}` as 'pull-shipments'));
  const result = await database.query(`
    select s.id as "shipmentId", '3S1' as "packageNumber", 35 as "currentTrackTraceStatus", 1 as "currentTrackTraceExceptionLevel"
    from fulfilment.shipments s where s.external_order_number = 'SO-default-000001'`);
  await sandbox.faults({
    operation: 'v2.shipment.trackTrace',
    effect: {
      set: [{ path: ['result'], value: [...result, { ...result[0], shipmentId: 1, packageNumber: '3S0000000011' }] }],
    },
  });
  done(await pull('track-trace'));
  await database.query(`insert into fulfilment.stock_watch (sku) values ('MUG-RED')`);
  done(await pull('pull-stock'));
  // One of those it expects may be long past by the clock of this machine.
  await database.query('update fulfilment.inbound_packing_slips set expected_on = current_date');
  const asReader = (statement: string) =>
    database.db.transaction().execute(async (trx) => {
      await sql`set local role fulfilment_reader`.execute(trx);
      return (await sql.raw<Record<string, unknown>>(statement).execute(trx)).rows;
    });
  const results = await Promise.all(statements.map(asReader));
  const [order = [], inbound = [], returns = [], parcels = [], trouble, journey, stock, feed = [], joined = []] =
    results;
  expect(statements).toHaveLength(9);
  expect(trouble).toHaveLength(new Set([...result.map(({ shipmentId }) => shipmentId), 1]).size);
  expect(journey).toMatchObject([{ current_track_trace_status: 35 }]);
  expect(stock).toMatchObject([{ sku: 'MUG-RED', stock: expect.any(Number) }]);
  expect(order[0]).toMatchObject({
    status: expect.any(String),
    quantity: expect.any(Number),
    package_numbers: ['3S1'],
  });
  expect(inbound[0]).toMatchObject({ outstanding: expect.any(Number), sku: expect.any(String) });
  expect(returns[0]).toMatchObject({ condition: 'RETURN', external_order_number: expect.any(String) });
  expect(parcels[0]).toMatchObject({ ordered: expect.any(Number) });
  expect(feed).toHaveLength(500);
  expect(joined.length).toBeGreaterThan(0);
  expect(joined.every(({ read_until }) => read_until === (feed.at(-1)?.seq ?? 0))).toBe(true);
});
