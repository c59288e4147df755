import { beforeEach, expect, test } from 'vitest';
import {
  describeOperation,
  type Resource,
  readOne,
  titles,
  useClient,
} from '../../helpers/client.ts';
import { quiet, useSandbox } from '../../helpers/sandbox.ts';

const sandbox = useSandbox(['default', 'other'], quiet);
const client = useClient(sandbox);
const authorizations = 'v3.returnMerchandiseAuthorizations';
let shipment: Resource;

beforeEach(async () => {
  await sandbox.seed(6);
  const { data } = (await client.ask('v3.shipments.list', { query: 'include=shipmentItems' })).body;
  shipment = data.find(({ included }) => (included?.length ?? 0) > 1) ?? (data[0] as Resource);
});

const reason = (id: number) => ({ returnReason: { data: { id, type: 'returnReason' } } });
const item = (index = 0, attributes: object = {}, relationships: object = reason(42)) => ({
  type: 'returnMerchandiseAuthorizationItem',
  attributes: { quantity: 1, externalReference: `L-${index}`, ...attributes },
  relationships: {
    shipmentItem: { data: { id: shipment.included?.[index]?.id, type: 'shipmentItem' } },
    ...relationships,
  },
});
const document = (items: unknown[], attributes: object = {}, shipmentId = shipment.id) => ({
  data: {
    type: 'returnMerchandiseAuthorization',
    attributes: { externalReference: 'R-1', metadata: { any: [1] }, ...attributes },
    relationships: { shipment: { data: { id: shipmentId, type: 'shipment' } } },
    included: items,
  },
});
const announce = async (items: unknown[] = [item()]) =>
  readOne(await client.ask(`${authorizations}.create`, { body: document(items) }));
const read = (id: number) =>
  client.ask(`${authorizations}.get`, {
    path: { id },
    query: 'include=returnMerchandiseAuthorizationItems',
  });
const replace = (id: number, body: unknown) =>
  client.ask(`${authorizations}.replace`, { path: { id }, body });
const remove = (id: number) => client.ask(`${authorizations}.delete`, { path: { id } });
const listReturned = async (query = '') =>
  (await client.ask('v3.returnItems.list', { query })).body.data;

/** Advances the time until a return is processed, and returns its first line. */
async function advanceUntilProcessed(): Promise<Resource> {
  await sandbox.advanceUntil(async () => (await listReturned()).length > 0, 24);
  return (await listReturned())[0] as Resource;
}

describeOperation(`${authorizations}.create`, () => {
  test('answers the announced lines, with reasons by id or code', async () => {
    const made = await announce([item(0), item(1, { reasonCode: 'TOO_SMALL' }, {})]);
    expect(made.attributes).toMatchObject({
      externalReference: 'R-1',
      metadata: { any: [1] },
      status: 'PENDING',
    });
    expect(made.included?.map(({ attributes }) => attributes.reasonCode)).toEqual([
      'DAMAGED',
      'TOO_SMALL',
    ]);
    expect(made.included?.[0]).toMatchObject({
      attributes: { externalReference: 'L-0', sku: shipment.included?.[0]?.attributes.sku },
      relationships: { returnItem: { data: null }, ...reason(42) },
    });
  });

  test.each<[string, () => unknown[], string]>([
    ['an unknown reason', () => [item(0, {}, reason(99))], 'no return reason 99'],
    ['two reasons', () => [item(0, { reasonCode: 'REGRET' })], 'one known return reason'],
    ['several lines of one item', () => [item(), item()], 'Several lines'],
    ['more than was shipped', () => [item(0, { quantity: 99 })], 'not 99 left'],
    ['no items', () => [], 'at least one item'],
  ])('rejects %s', async (_, items, words) => {
    const answer = await client.ask(`${authorizations}.create`, { body: document(items()) });
    expect([answer.status, titles(answer)]).toEqual([422, expect.stringContaining(words)]);
  });

  test('rejects an unknown shipment', async () => {
    const body = document([item()], {}, 9);
    expect(titles(await client.ask(`${authorizations}.create`, { body }))).toContain(
      'no shipment 9',
    );
  });
});

describeOperation(`${authorizations}.get`, () => {
  test('answers the return item after processing; then nothing can be changed', async () => {
    const made = await announce();
    expect(readOne(await read(made.id))).toEqual(made);
    const alone = await client.ask(`${authorizations}.get`, { path: { id: made.id } });
    expect(readOne(alone).included).toBeUndefined();
    expect((await read(9)).status).toBe(404);

    const row = await advanceUntilProcessed();
    const [line] = readOne(await read(made.id)).included ?? [];
    expect(line?.relationships.returnItem?.data.id).toBe(row.id);
    expect(row.relationships.returnMerchandiseAuthorizationItem?.data.id).toBe(line?.id);
    expect(titles(await replace(made.id, document([item()])))).toContain('cannot be replaced');
    expect(titles(await remove(made.id))).toContain('cannot be removed');
    expect((await read(made.id)).status).toBe(200);
  });
});

describeOperation(`${authorizations}.replace`, () => {
  test('keeps the id and replaces the content, or nothing if it is refused', async () => {
    const { id } = await announce();
    const quantity = Number(shipment.included?.[0]?.attributes.quantity);
    const attributes = { externalReference: 'R-2', metadata: null };
    const changed = readOne(await replace(id, document([item(0, { quantity })], attributes)));
    expect([changed.id, changed.attributes]).toMatchObject([
      id,
      { externalReference: 'R-2', metadata: {} },
    ]);
    expect(changed.included?.map((line) => line.attributes.quantity)).toEqual([quantity]);
    expect((await replace(id, document([item(), item()]))).status).toBe(422);
    expect(readOne(await read(id))).toEqual(changed);
    expect((await replace(9, document([item()]))).status).toBe(404);
  });
});

describeOperation(`${authorizations}.delete`, () => {
  test('answers the id as a string; no return item follows', async () => {
    const { id } = await announce();
    expect((await remove(id)).body).toEqual({ id: String(id) });
    expect([(await read(id)).status, (await remove(id)).status]).toEqual([404, 404]);
    await sandbox.advance(40 * 86_400);
    expect(await listReturned()).toEqual([]);
  });
});

describeOperation('v3.returnItems.list', () => {
  test('lists only processed lines, at any age', async () => {
    await announce();
    await sandbox.advance(3_600);
    expect(await listReturned()).toEqual([]);
    const row = await advanceUntilProcessed();
    expect(row).toMatchObject({
      attributes: {
        sku: shipment.included?.[0]?.attributes.sku,
        quantity: 1,
        processedIn: shipment.attributes.warehouseCode,
        externalOrderNumber: expect.stringMatching(/^SO-default-/),
      },
      relationships: {
        order: { data: { id: shipment.relationships.order?.data.id } },
        shipmentItem: { data: { id: shipment.included?.[0]?.id } },
      },
    });
    await sandbox.advance(100 * 86_400);
    expect((await listReturned()).map(({ id }) => id)).toEqual([row.id]);
    expect((await client.ask('v3.returnItems.list', { query: 'include=order' })).status).toBe(400);
  });

  test('lists by ascending id, not day; filters by exclusive days', async () => {
    await sandbox.call('POST', '/_sandbox/reset', { seed: 3, ordersPerDay: 68 });
    await client.logIn();
    await sandbox.advance(25 * 86_400);
    const all = await listReturned();
    const ids = all.map(({ id }) => id);
    expect(ids).toEqual([...ids].sort((left, right) => left - right));
    const readDay = ({ attributes }: Resource) => String(attributes.processedOn);
    const days = all.map(readDay);
    expect(days).not.toEqual([...days].sort());

    const sorted = [...new Set(days)].sort();
    const [low, high] = [sorted[2] ?? '', sorted.at(-3) ?? ''];
    const between = all.filter((row) => readDay(row) > low && readDay(row) < high);
    expect(between.length).toBeGreaterThan(0);
    expect(
      await listReturned(`filter[processedOn][gt]=${low}&filter[processedOn][lt]=${high}`),
    ).toEqual(between);
  });
});
