import { readFileSync } from 'node:fs';
import { sql } from 'kysely';
import { expect, test } from 'vitest';
import { streams } from '../../../jobs/registry.ts';
import { useDatabase } from '../../helpers/database.ts';
import { done, usePuller } from '../../helpers/puller.ts';
import { usePusher } from '../../helpers/pusher.ts';
import { lively, useSandbox } from '../../helpers/sandbox.ts';

const database = useDatabase();
const sandbox = useSandbox(['default'], lively);
const pull = usePuller(database, sandbox);
const outbox = usePusher(database, sandbox);

/** Returns the blocks of SQL of a page, in order. */
function readBlocks(page: string): string[] {
  const text = readFileSync(new URL(`../../../docs/${page}`, import.meta.url), 'utf8');
  return [...text.matchAll(/```sql\n(.*?)```/gs)].map(([, block = '']) => block);
}

test('the SQL of docs/erp.md returns what the page says, for a role that may only read', async () => {
  const statements = readBlocks('erp.md');
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
  await outbox.insert('return_label.create', 'SO-default-000001', { shipmentId: result[0]?.shipmentId });
  await outbox.push();
  // By the clock of this machine, expected dates may be in the past.
  await database.query('update fulfilment.inbound_packing_slips set expected_on = current_date');
  const asReader = (statement: string) =>
    database.db.transaction().execute(async (trx) => {
      await sql`set local role fulfilment_reader`.execute(trx);
      return (await sql.raw<Record<string, unknown>>(statement).execute(trx)).rows;
    });
  const results = await Promise.all(statements.map(asReader));
  const [
    order = [],
    inbound = [],
    returns = [],
    parcels = [],
    packages,
    trouble,
    journey,
    stock,
    labels,
    feed = [],
    joined = [],
    erased,
  ] = results;
  expect(statements).toHaveLength(12);
  expect(erased).toEqual([]);
  expect(packages).toEqual([expect.objectContaining({ package_number: '3S1', current_track_trace_status: '35' })]);
  expect(trouble).toHaveLength(new Set([...result.map(({ shipmentId }) => shipmentId), 1]).size);
  expect(journey).toMatchObject([{ current_track_trace_status: 35 }]);
  expect(stock).toMatchObject([{ sku: 'MUG-RED', stock: expect.any(Number) }]);
  expect(labels).toMatchObject([{ file_name: expect.any(String), document: expect.any(Buffer) }]);
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

test('the SQL of docs/first-order.md leads from the first query to orders that are done', async () => {
  await sandbox.advance(12 * 86_400);
  for (const job of ['refresh-settings', 'pull-shipments', 'pull-orders'] as const) done(await pull(job));
  const [asAdministrator = '', ...blocks] = readBlocks('first-order.md');
  await database.query(asAdministrator);
  try {
    // One connection is the session of the ERP: the page opens its own transaction.
    const session = database.open(1);
    await sql`set role erp_app`.execute(session);
    const results: Record<string, unknown>[][] = [];
    for (const block of blocks) {
      for (const statement of block.split(/(?<=;.*)\n+/).filter((text) => text !== ''))
        results.push((await sql.raw<Record<string, unknown>>(statement).execute(session)).rows);
      await outbox.push();
    }
    const [orders, lines, , , , feed, , , codes, , sent, , dead, replaced] = results;
    expect(results).toHaveLength(14);
    expect(orders).toHaveLength(20);
    expect(lines?.[0]).toMatchObject({ status: expect.any(String), quantity: expect.any(Number) });
    expect(feed).toHaveLength(500);
    expect(feed?.at(-1)).toMatchObject({ seq: 500 });
    expect(await database.query('select seq from warehouse.bookmark')).toEqual([{ seq: 500 }]);
    expect(codes).toContainEqual({ code: 'B2C', name: expect.any(String) });
    expect(sent).toEqual([{ status: 'done', attempts: 1, last_error: null, order_id: expect.stringMatching(/^\d+$/) }]);
    expect(dead).toMatchObject([{ reference: 'SO-1002', last_error: expect.stringContaining('BY-SHIP') }]);
    expect(replaced).toEqual([{ status: 'pending' }]);
    expect((await outbox.rows()).map(({ reference, status }) => [reference, status])).toEqual([
      ['SO-1001', 'done'],
      ['SO-1002', 'done'],
    ]);
  } finally {
    await database.query('drop owned by erp_app cascade; drop role erp_app');
  }
});

test('Postgres accepts the exports of docs/erp.md, for a role that may only read', async () => {
  const text = readFileSync(new URL('../../../docs/erp.md', import.meta.url), 'utf8');
  const statements = [...text.matchAll(/--command "([^"]+)"|^\\copy \((.+)\) to /gm)].map(
    ([, command, copy]) => command ?? copy,
  );
  expect(statements).toHaveLength(4);
  for (const statement of statements)
    await database.db.transaction().execute(async (trx) => {
      await sql`set local role fulfilment_reader`.execute(trx);
      await sql.raw(statement ?? '').execute(trx);
    });
});
