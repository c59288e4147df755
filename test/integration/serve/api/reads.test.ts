import { expect, test } from 'vitest';
import { type EntityName, entities } from '../../../../src/operate/sql/program-reads.ts';
import * as schemas from '../../../../src/serve/api/schemas.ts';
import { useApi } from '../../../helpers/api.ts';
import { useDatabase } from '../../../helpers/database.ts';
import { done, usePuller } from '../../../helpers/puller.ts';
import { lively, useSandbox } from '../../../helpers/sandbox.ts';

const database = useDatabase();
const sandbox = useSandbox(['default'], lively);
const pull = usePuller(database, sandbox);
const api = useApi(database);

const readOne = async <T>(query: string) =>
  (await database.query<{ found: T }>(`select (${query}) as found`))[0]?.found;

test('each read answers the row as its schema says, others get 404, and entries can be read', async () => {
  await sandbox.advance(20 * 86_400);
  for (const job of [
    'refresh-settings',
    'pull-shipments',
    'pull-orders',
    'pull-return-items',
    'pull-inbounds',
    'pull-inbound-packing-slips',
    'track-trace',
  ] as const)
    done(await pull(job));
  await database.query(`
    insert into fulfilment.stock_levels (client, sku, stock, asked_at) values ('default', 'MUG/A', 7, now());
    update fulfilment.order_items set price = 1234567890123.4500
      where id = (select min(id) from fulfilment.order_items)`);
  const ids = {
    order: await readOne<number>('select order_id from fulfilment.order_items order by id limit 1'),
    shipment: await readOne<number>('select min(shipment_id) from fulfilment.shipment_items'),
    returnItem: await readOne<number>('select min(id) from fulfilment.return_items'),
    inbound: await readOne<number>('select min(inbound_id) from fulfilment.inbound_items'),
    slip: await readOne<number>(
      'select min(inbound_packing_slip_id) from fulfilment.inbound_packing_slip_items',
    ),
  };
  const { call, as } = await api();
  const reads = [
    `orders/${ids.order}`,
    `shipments/${ids.shipment}`,
    `return_items/${ids.returnItem}`,
    `inbounds/${ids.inbound}`,
    `inbound_packing_slips/${ids.slip}`,
    'stock_levels/MUG%2FA',
    `order_addresses/${ids.order}:delivery`,
  ];
  for (const path of reads) {
    const found = await call(`/v1/${path}`);
    const schema = schemas.entityRow(path.split('/')[0] as EntityName).strict();
    expect([path, found.status, schema.safeParse(found.json).error]).toEqual([
      path,
      200,
      undefined,
    ]);
    expect([path, (await as('other')(`/v1/${path}`)).status]).toEqual([path, 404]);
  }
  const order = await call(`/v1/orders/${ids.order}`);
  expect(order.text).toMatch(/"price": 1234567890123\.4500/);
  expect(order.json).toMatchObject({
    state: expect.any(String),
    items: expect.arrayContaining([expect.objectContaining({ price: 1234567890123.45 })]),
  });
  const number = order.json.external_order_number;
  expect((await call(`/v1/orders?number=${number}`)).json.orders).toEqual([order.json]);
  expect((await as('other')(`/v1/orders?number=${number}`)).json).toEqual({ orders: [] });
  expect((await call('/v1/orders')).json.detail).toBe('number is missing');

  await expectEntriesAreReadable(call);
});

test('a row is read by the largest id that the service may give', async () => {
  await database.query(`
    insert into fulfilment.orders (client, id, raw, read_no) values ('default', ${Number.MAX_SAFE_INTEGER}, '{}', 1)`);
  const { call } = await api();
  expect((await call(`/v1/orders/${Number.MAX_SAFE_INTEGER}`)).json).toMatchObject({
    id: Number.MAX_SAFE_INTEGER,
  });
});

test('the feed has only the changes of the client, and leads over those of others', async () => {
  const add = (client: string, count: number) =>
    database.query(
      `insert into fulfilment.changes (client, entity, id, operation, changed_columns)
       select $1, 'orders', n, 'updated', '{state}' from generate_series(1, $2::int) n`,
      [client, count],
    );
  await add('default', 3);
  await add('other', 5_001);
  await add('default', 1);
  const { call, as } = await api();
  const first = await call('/v1/changes?after=0&limit=2');
  expect(schemas.changes.parse(first.json)).toMatchObject({ next: 2, has_more: true });
  const second = await call('/v1/changes?after=2&limit=500');
  expect(second.json).toMatchObject({
    changes: [{ seq: 3, changed_columns: ['state'] }],
    next: 5_002,
    has_more: true,
  });
  const third = await call('/v1/changes?after=5002');
  expect(third.json).toMatchObject({ changes: [{ seq: 5_005 }], next: 5_005, has_more: false });
  expect((await call('/v1/changes?after=5005')).json).toEqual({
    changes: [],
    next: 5_005,
    has_more: false,
  });
  expect((await as('other')('/v1/changes?limit=1')).json).toMatchObject({ changes: [{ seq: 4 }] });
  for (const query of ['after=', 'after=-1', 'after=x', 'limit=0', 'limit=1001'])
    expect([query, (await call(`/v1/changes?${query}`)).status]).toEqual([query, 400]);
  expect((await call('/v1/changes?after=1e20')).json.problems).toHaveLength(1);
});

test('a place in the feed that was pruned or never used is gone, with the place to continue from', async () => {
  await database.query(`
    insert into fulfilment.changes (client, entity, id, operation) values ('default', 'orders', 1, 'created');
    update sync.feed_mark set pruned_until = 1`);
  const { call } = await api();
  const answer = await call('/v1/changes?after=0');
  expect([answer.status, answer.headers.get('content-type')]).toEqual([
    410,
    'application/problem+json',
  ]);
  expect(answer.json).toMatchObject({
    status: 410,
    detail: expect.stringContaining('no longer all kept'),
    continue_from: 1,
  });
  expect((await call('/v1/changes?after=99')).status).toBe(410);
});

/** Every entry of the feed names a row that can be read, by its id or its key. */
async function expectEntriesAreReadable(
  call: (path: string) => Promise<{ status: number }>,
): Promise<void> {
  const sku = 'S'.repeat(200);
  await database.query(
    `with level as (
       insert into fulfilment.stock_levels (client, sku, stock, asked_at) values ('default', $1, 7, now())
     )
     insert into fulfilment.changes (client, entity, key, operation) values ('default', 'stock_levels', $1, 'created')`,
    [sku],
  );
  const entries = await database.query<{ entity: string; name: string }>(`
    select distinct on (entity) entity, coalesce(key, id::text) as name
    from fulfilment.changes
    where operation in ('created', 'updated')
    order by entity, seq desc`);
  for (const { entity, name } of entries) {
    const { status } = await call(`/v1/${entity}/${encodeURIComponent(name)}`);
    expect([entity, name, status]).toEqual([entity, name, 200]);
  }
  expect(entries.map(({ entity }) => entity)).toContain('setting_options');
  expect(entries.find(({ entity }) => entity === 'stock_levels')?.name).toBe(sku);
  const known = new Set<string>([...Object.keys(entities), 'outbox']);
  expect(entries.filter(({ entity }) => !known.has(entity))).toEqual([]);
}
