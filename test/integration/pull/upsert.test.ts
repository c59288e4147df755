import { describe, expect, test } from 'vitest';
import { type Json, parseExact } from '../../../src/core/json.ts';
import { countChanges } from '../../../src/pull/commit.ts';
import { decodePage } from '../../../src/pull/decode.ts';
import { appendChanges } from '../../../src/pull/sql/feed.ts';
import type { ResourceRows } from '../../../src/pull/sql/mirror-tables.ts';
import { upsertResources } from '../../../src/pull/sql/upsert.ts';
import { orders } from '../../../src/pull/streams/orders.ts';
import { shipments } from '../../../src/pull/streams/shipments.ts';
import { useDatabase } from '../../helpers/database.ts';
import { numberFeed } from '../../helpers/feed.ts';

const database = useDatabase();

const shipment = (
  id: number,
  status: string,
  items: [id: number, quantity: number][] = [],
  { complete = true } = {},
): ResourceRows => ({
  parent: { id, raw: { id, status }, status },
  children: [
    {
      table: 'shipment_items',
      complete,
      rows: items.map(([itemId, quantity]) => ({
        id: itemId,
        raw: { itemId, quantity },
        shipment_id: id,
        quantity,
        serial_numbers: ['a'],
      })),
    },
  ],
});

const age = (readNo: number) => ({ readNo, compare: 'raw' }) as const;

const upsert = async (readNo: number, ...resources: ResourceRows[]) => {
  const written = await database.db.transaction().execute(async (trx) => {
    const result = await upsertResources(
      { trx, client: 'default', stream: 'shipments' },
      age(readNo),
      shipments.tables,
      resources,
    );
    await appendChanges(trx, 'default', result.changes);
    return { ...result, ...countChanges(result.changes) };
  });
  await numberFeed(database.db);
  return written;
};

const rows = () =>
  database.query<{ id: number; status: string }>(
    'select id, status from fulfilment.shipments order by id',
  );
const items = () =>
  database.query<{ id: number; quantity: number }>(
    'select id, quantity from fulfilment.shipment_items order by id',
  );
describe('upsertResources', () => {
  test('counts new and changed rows, and adds exactly those to the feed', async () => {
    expect(await upsert(1, shipment(1, 'A', [[11, 1]]), shipment(2, 'A'))).toMatchObject({
      created: 3,
      updated: 0,
      removed: 0,
    });
    expect(await upsert(2, shipment(1, 'B', [[11, 2]]), shipment(2, 'A'))).toMatchObject({
      created: 0,
      updated: 2,
      stale: [],
    });
    const changes = await database.query(
      `select concat_ws(' ', entity, id, operation) as change from fulfilment.changes order by seq`,
    );
    expect(changes.map(({ change }) => change)).toEqual([
      ...['shipments 1 created', 'shipments 2 created', 'shipment_items 11 created'],
      ...['shipments 1 updated', 'shipment_items 11 updated'],
    ]);
  });

  test('an update names the columns that differ, of parents and children alike, and no others', async () => {
    const columns = () =>
      database.query(
        `select entity, id, changed_columns as columns from fulfilment.changes where operation = 'updated' order by seq`,
      );
    await upsert(1, shipment(1, 'A', [[11, 1]]), shipment(2, 'A'));
    await upsert(2, shipment(1, 'A', [[11, 2]]), {
      ...shipment(2, 'A'),
      parent: { id: 2, raw: { more: 1 }, status: 'A' },
    });
    await database.query('update fulfilment.shipments set unlisted_since = now() where id = 1');
    await upsert(3, shipment(1, 'B', [[11, 2]]));
    expect(await columns()).toEqual([
      { entity: 'shipments', id: 2, columns: ['raw'] },
      { entity: 'shipment_items', id: 11, columns: ['quantity', 'raw'] },
      { entity: 'shipments', id: 1, columns: ['status', 'raw', 'unlisted_since'] },
    ]);
    const others = `fulfilment.changes where operation <> 'updated' and changed_columns is not null`;
    expect(await database.count(others)).toBe(0);
  });

  test('another order of members, or other digits of the same number, is no change', async () => {
    const raw = (text: string): ResourceRows => ({
      ...shipment(1, 'A'),
      parent: { ...shipment(1, 'A').parent, raw: parseExact(text) },
    });
    await upsert(1, raw('{"id": 1, "a": {"b": 1.10, "c": [1, 2]}}'));
    expect(await upsert(2, raw('{"a": {"c": [1, 2], "b": 1.1}, "id": 1}'))).toMatchObject({
      changes: [],
      unchanged: [1],
    });
    expect(await upsert(3, raw('{"a": {"c": [2, 1], "b": 1.1}, "id": 1}'))).toMatchObject({
      changed: [1],
    });
  });

  test('an older reading of the former parent does not bring back a line that moved', async () => {
    await upsert(1, shipment(1, 'A', [[11, 1]]), shipment(2, 'A'));
    await upsert(5, shipment(2, 'A', [[11, 1]]));
    expect(await upsert(3, shipment(1, 'B', [[11, 1]]))).toMatchObject({ stale: [1] });
    expect(await database.query('select shipment_id::int from fulfilment.shipment_items')).toEqual([
      { shipment_id: 2 },
    ]);
  });

  test('an older reading of another parent does not take a line away', async () => {
    await upsert(1, shipment(2, 'A'));
    await upsert(5, shipment(1, 'A', [[11, 1]]));
    expect(await upsert(3, shipment(2, 'B', [[11, 1]]))).toMatchObject({ changed: [2] });
    const parents = () => database.query('select shipment_id::int from fulfilment.shipment_items');
    expect(await parents()).toEqual([{ shipment_id: 1 }]);
    await upsert(6, shipment(2, 'B', [[11, 1]]));
    expect(await parents()).toEqual([{ shipment_id: 2 }]);
  });

  test.each<[string, [number, number][]]>([
    ['of parent or children', []],
    ['also if only a child has changed since', [[11, 1]]],
  ])('an older reading changes nothing, %s', async (_name, before) => {
    if (before.length > 0) await upsert(1, shipment(1, 'NEW', before));
    await upsert(5, shipment(1, 'NEW', [[11, 5]]));
    const lines: [number, number][] = [
      [11, 4],
      [12, 1],
    ];
    expect(await upsert(4, shipment(1, 'OLD', lines))).toMatchObject({
      ...{ created: 0, updated: 0, stale: [1] },
    });
    expect(await rows()).toEqual([{ id: 1, status: 'NEW' }]);
    expect(await items()).toEqual([{ id: 11, quantity: 5 }]);
  });

  test('removes children only if the parent was read with all of them', async () => {
    await upsert(
      1,
      shipment(1, 'A', [
        [11, 1],
        [12, 1],
      ]),
      shipment(2, 'A', [[21, 1]]),
    );
    expect(await upsert(2, shipment(1, 'A', [[11, 1]], { complete: false }))).toMatchObject({
      removed: 0,
    });
    expect(await upsert(3, shipment(1, 'A', [[11, 1]]))).toMatchObject({
      removed: 1,
      changes: [{ entity: 'shipment_items', id: 12, operation: 'removed' }],
    });
    expect(await items()).toEqual([
      { id: 11, quantity: 1 },
      { id: 21, quantity: 1 },
    ]);
  });

  test('if a page mentions a row twice, the last mention counts, with its place and number', async () => {
    const read = (id: number, status: string, no: number, items: [number, number][] = []) => {
      const { parent, children } = shipment(id, status, items);
      return { parent: { ...parent, read_no: no }, children };
    };
    // The line moves to shipment 1, which is mentioned last.
    await upsert(1, read(1, 'A', 1), read(2, 'A', 1, [[11, 1]]), read(1, 'B', 3, [[11, 2]]));
    expect(await rows()).toEqual([
      { id: 1, status: 'B' },
      { id: 2, status: 'A' },
    ]);
    expect(await items()).toEqual([{ id: 11, quantity: 2 }]);
    expect(await upsert(2, shipment(1, 'C'))).toMatchObject({ stale: [1] });
  });
});

/** Stores an order as an answer with these relationships shows it. */
async function readOrder(readNo: number, relationships: Json, included: Json[] = []) {
  const attributes = { reference: String(readNo) };
  const order = { id: 1, type: 'order', attributes, relationships, included };
  const page = { data: [order], included: [], escaped: false };
  const { resources } = await decodePage(page, orders.decoder('Europe/Amsterdam'));
  const scope = { client: 'default', stream: 'orders' };
  await database.db
    .transaction()
    .execute((trx) => upsertResources({ trx, ...scope }, age(readNo), orders.tables, resources));
}

test('an order loses an address or pick-up point that its answer has as null, not one that it lacks', async () => {
  const address = (id: number) => ({ id, type: 'address', attributes: {} });
  const point = { id: 3, type: 'pickUpPoint', attributes: { name: 'A' } };
  const unnamed = { type: 'pickUpPoint', attributes: { name: 'B' } };
  const link = ({ type, ...named }: { id?: number; type: string }) => ({
    data: { type, ...('id' in named && { id: named.id ?? null }) },
  });
  const delivery = { deliveryAddress: link(address(1)) };
  const whole = { ...delivery, billingAddress: link(address(2)), pickUpPoint: link(point) };
  const none = { data: null };
  const cases: readonly [Json, Json[], string[], string | null][] = [
    [whole, [address(2), point], ['billing', 'delivery'], 'A'],
    [whole, [], ['billing', 'delivery'], 'A'],
    [delivery, [], ['billing', 'delivery'], 'A'],
    [{ ...delivery, billingAddress: { links: {} } }, [], ['billing', 'delivery'], 'A'],
    [{ ...whole, pickUpPoint: link({ ...point, id: 8 }) }, [], ['billing', 'delivery'], null],
    [{ ...whole, pickUpPoint: link(unnamed) }, [unnamed], ['billing', 'delivery'], 'B'],
    [{ ...whole, pickUpPoint: link(unnamed) }, [], ['billing', 'delivery'], 'B'],
    [{ ...delivery, billingAddress: none, pickUpPoint: none }, [], ['delivery'], null],
  ];

  for (const [index, [relationships, included, roles, name]] of cases.entries()) {
    await readOrder(index + 1, relationships, [address(1), ...included]);
    const stored = await database.query(`
      select array(select role from fulfilment.order_addresses order by role) as roles,
        pick_up_point #>> '{attributes,name}' as point
      from fulfilment.orders`);
    expect(stored, String(index)).toEqual([{ roles, point: name }]);
  }
});
