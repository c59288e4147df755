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
let shipment: Resource;

beforeEach(async () => {
  await sandbox.seed(6);
  const { data } = (await client.ask('v3.shipments.list', { query: 'include=shipmentItems' })).body;
  shipment = data.find(({ included }) => (included?.length ?? 0) > 1) ?? (data[0] as Resource);
});

const item = (index = 0, attributes: object = {}, relationships: object = {}) => ({
  type: 'returnMerchandiseAuthorizationItem',
  attributes: {
    quantity: 1,
    externalReference: `L-${index}`,
    metadata: { colour: 'blue' },
    ...attributes,
  },
  relationships: {
    shipmentItem: { data: { id: shipment.included?.[index]?.id, type: 'shipmentItem' } },
    returnReason: { data: { id: 42, type: 'returnReason' } },
    ...relationships,
  },
});
const document = (items: unknown[], changes: object = {}) => ({
  data: {
    type: 'returnMerchandiseAuthorization',
    attributes: {
      externalReference: 'R-1',
      comments: 'broken',
      metadata: { any: [1, { thing: true }] },
    },
    relationships: { shipment: { data: { id: shipment.id, type: 'shipment' } } },
    included: items,
    ...changes,
  },
});
const announce = (items: unknown[] = [item()], changes: object = {}) =>
  client.ask('v3.returnMerchandiseAuthorizations.create', { body: document(items, changes) });
const read = (id: number) =>
  client.ask('v3.returnMerchandiseAuthorizations.get', {
    path: { id },
    query: 'include=returnMerchandiseAuthorizationItems',
  });
const listReturned = async (query = '') =>
  (await client.ask('v3.returnItems.list', { query })).body.data;

/** Advances the time until a return is processed, and returns its first line. */
async function advanceUntilProcessed(): Promise<Resource> {
  await sandbox.advanceUntil(async () => (await listReturned()).length > 0, 24);
  return (await listReturned())[0] as Resource;
}

describeOperation('v3.returnMerchandiseAuthorizations.create', () => {
  test('answers status, dates, items and empty links to return items', async () => {
    const made = readOne(
      await announce([item(0), item(1, { reasonCode: 'TOO_SMALL' }, { returnReason: undefined })]),
    );
    expect(made).toMatchObject({
      attributes: {
        externalReference: 'R-1',
        comments: 'broken',
        metadata: { any: [1, { thing: true }] },
        status: 'PENDING',
        createdOn: expect.stringMatching(/^\d{4}-\d\d-\d\d$/),
        modifiedOn: expect.any(String),
      },
      relationships: { shipment: { data: { id: shipment.id, type: 'shipment' } } },
    });
    expect(made.included?.map(({ attributes }) => attributes.reasonCode)).toEqual([
      'DAMAGED',
      'TOO_SMALL',
    ]);
    expect(made.included?.[0]).toMatchObject({
      attributes: {
        externalReference: 'L-0',
        sku: shipment.included?.[0]?.attributes.sku,
        metadata: { colour: 'blue' },
      },
      relationships: {
        returnItem: { data: null },
        returnReason: { data: { id: 42, type: 'returnReason' } },
      },
    });
  });

  test.each<[string, () => unknown[], object, string]>([
    [
      'an unknown shipment',
      () => [item()],
      { relationships: { shipment: { data: { id: 9, type: 'shipment' } } } },
      'no shipment 9',
    ],
    [
      'an unknown reason',
      () => [item(0, {}, { returnReason: { data: { id: 99, type: 'returnReason' } } })],
      {},
      'no return reason 99',
    ],
    ['two reasons', () => [item(0, { reasonCode: 'REGRET' })], {}, 'one known return reason'],
    ['several lines of one item', () => [item(), item()], {}, 'Several lines'],
    ['more than was shipped', () => [item(0, { quantity: 99 })], {}, 'not 99 left'],
    ['no items', () => [], {}, 'at least one item'],
  ])('rejects %s', async (_, items, changes, words) => {
    const answer = await announce(items(), changes);
    expect(answer.status).toBe(422);
    expect(titles(answer)).toContain(words);
  });
});

describeOperation('v3.returnMerchandiseAuthorizations.get', () => {
  test('answers the items if they are asked for, and the return item after processing', async () => {
    const made = readOne(await announce());
    expect(readOne(await read(made.id))).toEqual(made);
    const { body } = await client.ask('v3.returnMerchandiseAuthorizations.get', {
      path: { id: made.id },
    });
    expect((body.data as unknown as Resource).included).toBeUndefined();
    const row = await advanceUntilProcessed();
    expect(readOne(await read(made.id)).included?.[0]?.relationships.returnItem?.data.id).toBe(
      row.id,
    );
    expect(row.relationships.returnMerchandiseAuthorizationItem?.data.id).toBe(
      made.included?.[0]?.id,
    );
    expect((await read(9)).status).toBe(404);
  });
});

describeOperation('v3.returnMerchandiseAuthorizations.replace', () => {
  const replace = (id: number, body: unknown) =>
    client.ask('v3.returnMerchandiseAuthorizations.replace', { path: { id }, body });

  test('keeps the id and replaces the content', async () => {
    const made = readOne(await announce());
    const attributes = { externalReference: 'R-2', comments: null, metadata: null };
    const quantity = Number(shipment.included?.[0]?.attributes.quantity);
    const changed = readOne(
      await replace(made.id, document([item(0, { quantity })], { attributes })),
    );
    expect(changed.id).toBe(made.id);
    expect(changed.attributes).toMatchObject({
      externalReference: 'R-2',
      comments: null,
      metadata: {},
    });
    expect(changed.included?.map(({ attributes: { quantity: replaced } }) => replaced)).toEqual([
      quantity,
    ]);
    expect(readOne(await read(made.id))).toEqual(changed);
    expect((await replace(made.id, document([item(), item()]))).status).toBe(422);
    expect(readOne(await read(made.id))).toEqual(changed);
    expect((await replace(9, document([item()]))).status).toBe(404);
  });

  test('refuses an authorization whose return was processed', async () => {
    const made = readOne(await announce());
    await advanceUntilProcessed();
    const answer = await replace(made.id, document([item()]));
    expect([answer.status, titles(answer)]).toEqual([
      422,
      expect.stringContaining('cannot be replaced'),
    ]);
  });
});

describeOperation('v3.returnMerchandiseAuthorizations.delete', () => {
  const remove = (id: number) =>
    client.ask('v3.returnMerchandiseAuthorizations.delete', { path: { id } });

  test('answers the id as a string; no return item follows', async () => {
    const { id } = readOne(await announce());
    expect((await remove(id)).body).toEqual({ id: String(id) });
    expect([(await read(id)).status, (await remove(id)).status]).toEqual([404, 404]);
    await sandbox.advance(40 * 86_400);
    expect(await listReturned()).toEqual([]);
  });

  test('refuses an authorization whose return was processed', async () => {
    const { id } = readOne(await announce());
    await advanceUntilProcessed();
    const answer = await remove(id);
    expect([answer.status, titles(answer)]).toEqual([
      422,
      expect.stringContaining('cannot be removed'),
    ]);
    expect((await read(id)).status).toBe(200);
  });
});

describeOperation('v3.returnItems.list', () => {
  test('lists only processed lines, with every field', async () => {
    await announce();
    await sandbox.advance(3_600);
    expect(await listReturned()).toEqual([]);
    const row = await advanceUntilProcessed();
    expect(row).toMatchObject({
      type: 'returnItem',
      attributes: {
        sku: shipment.included?.[0]?.attributes.sku,
        quantity: 1,
        condition: 'RETURN',
        processedOn: expect.stringMatching(/^\d{4}-\d\d-\d\d$/),
        processedIn: shipment.attributes.warehouseCode,
        redeliver: expect.any(Boolean),
        externalOrderNumber: expect.stringMatching(/^SO-default-/),
      },
      relationships: {
        order: { data: { id: shipment.relationships.order?.data.id, type: 'order' } },
        return: { data: { id: expect.any(Number), type: 'return' } },
        shipmentItem: { data: { id: shipment.included?.[0]?.id, type: 'shipmentItem' } },
      },
    });
  });

  test('filters by exclusive days; lines of any age are listed, nothing can be included', async () => {
    await sandbox.call('POST', '/_sandbox/reset', { seed: 3, ordersPerDay: 68 });
    await client.logIn();
    await sandbox.advance(25 * 86_400);
    const all = await listReturned();
    expect(all.length).toBeGreaterThan(20);
    expect(all.length).toBeLessThan(100);
    const ids = all.map(({ id }) => id);
    expect(ids).toEqual([...ids].sort((left, right) => left - right));
    const days = all.map(({ attributes }) => String(attributes.processedOn));
    // The order of processing differs from the order of the ids.
    expect(days).not.toEqual([...days].sort());
    const sorted = [...new Set(days)].sort();
    const [low, high] = [sorted[2] ?? '', sorted.at(-3) ?? ''];
    const between = all.filter(
      ({ attributes: { processedOn } }) => String(processedOn) > low && String(processedOn) < high,
    );
    expect(
      await listReturned(`filter[processedOn][gt]=${low}&filter[processedOn][lt]=${high}`),
    ).toEqual(between);
    await sandbox.call('POST', '/_sandbox/advance', { seconds: 100 * 86_400 });
    expect((await listReturned()).map(({ id }) => id)).toContain(ids[0]);
    expect((await client.ask('v3.returnItems.list', { query: 'include=order' })).status).toBe(400);
  });
});
