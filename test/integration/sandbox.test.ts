import { beforeEach, describe, expect, test } from 'vitest';
import type { SandboxControl } from '../helpers/sandbox.ts';
import { useSandbox } from '../helpers/sandbox.ts';

const sandbox = useSandbox(['default', 'other']);
let token = '';

type Resource = {
  id: number;
  type: string;
  attributes: Record<string, unknown>;
  relationships: Record<string, { data: { id: number } }>;
  included?: Resource[];
};
/** What answers hold, as far as these tests look; `data` of a single document is read with `one`. */
interface Body {
  data: Resource[];
  links: { next: { href: string } };
  errors: { title: string; source: { parameter: string } }[];
  result: object;
}
const one = (body: Body) => body.data as unknown as Resource;

async function tokenOf(username: string, password = username, control: SandboxControl = sandbox) {
  const body = new URLSearchParams({ grant_type: 'password', username, password });
  return fetch(new URL('/token', control.url), { method: 'POST', body });
}

async function get(path: string, bearer = token) {
  const answer = await fetch(new URL(path, sandbox.url), {
    headers: bearer ? { authorization: `bearer ${bearer}` } : {},
  });
  return { status: answer.status, date: answer.headers.get('date') ?? '', body: (await answer.json()) as Body };
}

const list = async (query: string) => (await get(`/v3/shipments?${query}`)).body.data;
const statuses = (shipments: Resource[]) => [...new Set(shipments.map(({ attributes }) => attributes.status))];

beforeEach(async () => {
  await sandbox.seed(30, ['SHIPPED', 'READY_TO_PICK', 'ERROR']);
  token = ((await (await tokenOf('default')).json()) as { access_token: string }).access_token;
});

describe('common operations', () => {
  test('a token for the right name and password, with all its fields', async () => {
    expect(await (await tokenOf('default')).json()).toEqual({
      access_token: expect.any(String),
      token_type: 'bearer',
      expires_in: 1_200,
      userName: 'default',
      issued: expect.stringMatching(/GMT$/),
      expires: expect.stringMatching(/GMT$/),
    });
    expect((await tokenOf('default', 'wrong')).status).toBe(400);
    expect((await tokenOf('stranger')).status).toBe(400);
  });

  test('the service is up for everyone, the settings are for bearers', async () => {
    expect((await get('/status/get', '')).body).toMatchObject({ messageCode: 'OK', result: null });
    expect((await get('/settings/get', '')).status).toBe(401);
    const { body } = await get('/settings/get');
    expect(Object.keys(body.result)).toEqual([
      'mainShippingMethods',
      'shippingMethods',
      'returnShippingMethods',
      'orderTypes',
      'returnReasons',
      'languages',
      'countries',
      'paymentMethods',
    ]);
  });

  test.each(['/v3/shipments', '/v3/shipments/1', '/v3/orders', '/v3/orders/1', '/settings/get'])(
    '%s needs a token that is valid',
    async (path) => {
      expect((await get(path, '')).status).toBe(401);
      expect((await get(path, 'made-up')).status).toBe(401);
    },
  );

  test('tokens expire in real time, and by a fault', async () => {
    await sandbox.faults({ operation: 'v3.shipments.list', count: 1, effect: { expireTokens: true } });
    expect((await get('/v3/shipments')).status).toBe(401);
  });
});

describe('shipments', () => {
  test('carry every field of the interface, with times that have fractions and no zone', async () => {
    const [shipment] = await list('include=shipmentItems');
    expect(shipment).toEqual({
      id: expect.any(Number),
      type: 'shipment',
      attributes: {
        status: 'SHIPPED',
        readyToPickOn: expect.stringMatching(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{7}$/),
        readyToShipOn: expect.stringMatching(/\.\d{7}$/),
        shippedOn: expect.stringMatching(/\.\d{7}$/),
        warehouseCode: expect.any(String),
        returnLabel: null,
      },
      relationships: {
        order: { data: { id: expect.any(Number), type: 'order' } },
        orderType: { data: { id: expect.any(Number), type: 'orderType' } },
        shippingMethod: { data: { id: expect.any(Number), type: 'shippingMethod' } },
        shipmentItems: { data: expect.arrayContaining([{ id: expect.any(Number), type: 'shipmentItem' }]) },
      },
      included: expect.any(Array),
    });
    expect(shipment?.included?.[0]).toMatchObject({
      type: 'shipmentItem',
      attributes: { sku: expect.any(String), quantity: expect.any(Number), serialNumbers: expect.any(Array) },
      relationships: { orderItem: { data: { type: 'orderItem' } }, product: { data: { type: 'product' } } },
    });
  });

  test('come in pages by ascending id', async () => {
    const first = (await get('/v3/shipments?page[size]=20')).body;
    expect(first.data).toHaveLength(20);
    const rest = await list(new URL(first.links.next.href).search.slice(1));
    const ids = [...first.data, ...rest].map(({ id }: Resource) => id);
    expect(ids).toEqual([...new Set(ids)].sort((left, right) => left - right));
    expect(ids).toHaveLength(30);
  });

  test('are filtered as the interface says, filters combined', async () => {
    const all = await list('');
    expect(statuses(await list('filter[status][in]=ERROR,READY_TO_PICK'))).toEqual(['READY_TO_PICK', 'ERROR']);
    const orderId = all[4]?.relationships.order?.data.id;
    expect(await list(`filter[orderId][in]=${orderId}`)).toEqual([all[4]]);
    expect(await list(`filter[orderId]=${orderId}&filter[status][in]=SHIPPED`)).toEqual([]);
    const number = one((await get(`/v3/orders/${orderId}`)).body).attributes.externalOrderNumber;
    expect(await list(`filter[externalOrderNumber][in]=${number},none`)).toEqual([all[4]]);
    expect(await list(`filter[externalOrderNumber]=${number}`)).toEqual([all[4]]);
    const types = await list('filter[orderType][in]=32');
    expect(types.length).toBeGreaterThan(0);
    expect(types.every(({ relationships }) => relationships.orderType?.data.id === 32)).toBe(true);
  });

  test('dates of a filter are exclusive', async () => {
    const shipped = await list('filter[status][in]=SHIPPED');
    const days = shipped.map(({ attributes }) => String(attributes.shippedOn).slice(0, 10)).sort();
    const [first, last] = [days[0] ?? '', days.at(-1) ?? ''];
    const between = await list(`filter[shippedOn][gt]=${first}&filter[shippedOn][lt]=${last}`);
    expect(between.length).toBe(days.filter((day) => day > first && day < last).length);
    expect(between.length).toBeLessThan(shipped.length);
  });

  test('that are older than 90 days are not listed but can be read by id', async () => {
    const [oldest] = await list('');
    await sandbox.advance(91 * 86_400);
    expect((await list('')).map(({ id }) => id)).not.toContain(oldest?.id);
    expect((await get(`/v3/shipments/${oldest?.id}`)).body.data).toEqual(oldest);
  });

  test('of another client do not exist', async () => {
    const { access_token: other } = (await (await tokenOf('other')).json()) as { access_token: string };
    const [own] = await list('');
    expect((await get('/v3/shipments', other)).body.data).toEqual([]);
    expect((await get(`/v3/shipments/${own?.id}`, other)).status).toBe(404);
    expect((await get(`/v3/orders/${own?.relationships.order?.data.id}`, other)).status).toBe(404);
  });

  test.each([
    ['page[size]=0', 'page[size]'],
    ['page[size]=101', 'page[size]'],
    ['page[cursor]=-1', 'page[cursor]'],
    ['include=product', 'include'],
    ['filter[status][in]=', 'filter[status][in]'],
    ['filter[status][in]=SENT', 'filter[status][in]'],
    ['filter[status][in]=ERROR,ERROR', 'filter[status][in]'],
    ['filter[shippedOn][gt]=yesterday', 'filter[shippedOn][gt]'],
    ['filter[orderId][in]=abc', 'filter[orderId][in]'],
    ['filter[nothing]=1', 'filter[nothing]'],
  ])("%s is refused by the parameter's name", async (query, parameter) => {
    const { status, body } = await get(`/v3/shipments?${query}`);
    expect(status).toBe(400);
    expect(body.errors[0]?.source.parameter).toBe(parameter);
  });
});

describe('orders', () => {
  test('have their parts inside the order, as far as they are asked for', async () => {
    const { data } = (
      await get('/v3/orders?page[size]=1&include=orderItems,deliveryAddress,billingAddress,pickUpPoint')
    ).body;
    expect(new Set(data[0]?.included?.map(({ type }) => type))).toEqual(new Set(['orderItem', 'address']));
    expect(one((await get(`/v3/orders/${data[0]?.id}?include=orderItems`)).body).included?.[0]?.type).toBe('orderItem');
    expect(one((await get(`/v3/orders/${data[0]?.id}`)).body).included).toBeUndefined();
  });

  test('are found by number, reference and day', async () => {
    const { data } = (await get('/v3/orders')).body;
    const { externalOrderNumber, orderedOn } = data[3]?.attributes ?? {};
    expect((await get(`/v3/orders?filter[externalOrderNumber][in]=${externalOrderNumber}`)).body.data).toEqual([
      data[3],
    ]);
    const after = (await get(`/v3/orders?filter[orderedOn][gt]=${orderedOn}`)).body.data;
    expect(after).toEqual(data.filter(({ attributes }) => String(attributes.orderedOn) > String(orderedOn)));
    const { body, status } = await get(`/v3/orders?filter[externalOrderNumber][in]=${'x'.repeat(51)}`);
    expect([status, body.errors[0]?.title]).toEqual([400, expect.stringContaining('50 characters')]);
  });
});

describe('the sandbox as a tool', () => {
  test('paths match in any case; a route that does not exist is 404 and on record as unexpected', async () => {
    expect((await get('/V3/SHIPMENTS')).status).toBe(200);
    expect((await get('/v4/parcels')).status).toBe(404);
    expect((await sandbox.requests()).at(-1)).toMatchObject({
      path: '/v4/parcels',
      operation: null,
      status: 404,
      client: 'default',
    });
  });

  test('the Date header is virtual time, and time is advanced by any span', async () => {
    const before = Date.parse((await get('/status/get')).date);
    await sandbox.advance(3 * 86_400);
    expect(Date.parse((await get('/status/get')).date) - before).toBe(3 * 86_400_000);
  });

  test('the same seed gives the same state', async () => {
    const state = async () => {
      await sandbox.call('POST', '/_sandbox/reset', { seed: 5, startMs: Date.parse('2026-05-01T00:00:00Z') });
      await sandbox.advance(4 * 86_400);
      return sandbox.call('GET', '/_sandbox/state');
    };
    expect(await state()).toEqual(await state());
  });

  test('the request log holds no secret', async () => {
    await get('/v3/shipments');
    const log = JSON.stringify(await sandbox.requests());
    expect(log).not.toContain(token);
  });

  test('a control call that is wrong says what it does not understand', async () => {
    await expect(sandbox.call('POST', '/_sandbox/advance', { days: 1 })).rejects.toThrow(/seconds/);
    await expect(sandbox.seed(1, ['SHIPPED'], 'stranger')).rejects.toThrow(/default, other/);
  });
});
