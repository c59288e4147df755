import { once } from 'node:events';
import { type IncomingMessage, request } from 'node:http';
import { describe, expect, test } from 'vitest';
import { useClient } from '../../../helpers/client.ts';
import { quiet, useSandbox } from '../../../helpers/sandbox.ts';

const sandbox = useSandbox(['default', 'other'], quiet);
const client = useClient(sandbox);

const list = async (resources: string, query = '') =>
  (await client.ask(`v3.${resources}.list`, { query })).body.data.map(
    ({ attributes, id, included = [] }) => {
      return { ...attributes, id, items: included.map((item) => item.attributes) };
    },
  );
const place = (externalOrderNumber: string, rest: object = {}) =>
  sandbox.call<{ orderId: number }>('POST', '/_sandbox/order', {
    client: 'default',
    externalOrderNumber,
    ...rest,
  });
const ship = (externalOrderNumber: string) =>
  sandbox.call<{ shipmentIds: number[] }>('POST', '/_sandbox/ship', {
    client: 'default',
    externalOrderNumber,
  });
const announce = (shipmentId: number, quantity: number) =>
  sandbox.call<{ authorizationId: number }>('POST', '/_sandbox/return', {
    client: 'default',
    shipmentId,
    quantity,
  });

const post = (
  control: string,
  fields: Record<string, string>,
  headers: Record<string, string> = {},
) =>
  fetch(new URL(`/_sandbox/${control}`, sandbox.url), {
    method: 'POST',
    redirect: 'manual',
    headers: {
      accept: 'text/html',
      origin: sandbox.url.origin,
      referer: `${sandbox.url.origin}/?client=other`,
      ...headers,
    },
    body: new URLSearchParams(fields),
  });

/**
 * Fills in a form of the page as a browser does, and sends it. Fails if the page has no such form.
 */
async function submit(control: string, fields: Record<string, string>, path = '/') {
  const page = await (await fetch(new URL(path, sandbox.url))).text();
  const forms =
    page.match(new RegExp(`<form method="post" action="/_sandbox/${control}">[^]*?</form>`, 'g')) ??
    [];
  const read = (form: string) =>
    [...form.matchAll(/ name="([^"]*)"(?: autocomplete="off")?(?: value="([^"]*)")?/g)].map(
      ([, name = '', value = '']) => [name, value] as const,
    );
  const fitting = forms.find((form) =>
    Object.keys(fields).every((name) => read(form).some(([has]) => has === name)),
  );
  expect(fitting, `a form for ${control} with ${Object.keys(fields)}`).toBeDefined();
  const filled = Object.fromEntries(
    read(fitting ?? '').filter(([name]) => !name.startsWith('effect')),
  );
  return post(control, { ...filled, ...fields });
}

describe('a form of the page', () => {
  test('places an order, which the page then shows', async () => {
    const fields = {
      externalOrderNumber: 'WEB-1',
      'lines[0][sku]': 'MUG-BLUE',
      'lines[0][quantity]': '3',
    };
    const answer = await submit('order', { ...fields, onHold: '' });
    expect(answer.headers.get('location')).toBe('/?client=other&said=order&q=WEB-1');
    const [order] = await list('orders', 'include=orderItems');
    expect(order).toMatchObject({ externalOrderNumber: 'WEB-1', onHold: false });
    expect(order?.items).toMatchObject([{ sku: 'MUG-BLUE', quantity: 3 }]);
  });

  test('ships an order, announces a return and processes it', async () => {
    await place('WEB-1', { lines: [{ sku: 'MUG-BLUE', quantity: 3 }] });
    expect((await submit('ship', { externalOrderNumber: 'WEB-1' }, '/?q=WEB-1')).status).toBe(303);
    const [shipment] = await list('shipments', 'include=shipmentItems');
    expect(shipment).toMatchObject({
      status: 'SHIPPED',
      items: [{ sku: 'MUG-BLUE', quantity: 3 }],
    });
    expect((await submit('return', { shipmentId: String(shipment?.id) })).status).toBe(303);
    const page = await (await fetch(new URL('/', sandbox.url))).text();
    const [, authorizationId = ''] = /name="authorizationId" value="(\d+)"/.exec(page) ?? [];
    expect((await submit('return/process', { authorizationId })).status).toBe(303);
    const returned = await list('returnItems');
    expect(returned).toMatchObject([{ quantity: 3, processedOn: '2026-05-04' }]);
  });

  test('says why it is refused, and leads back', async () => {
    await place('WEB-1', { onHold: true });
    const answer = await submit('ship', { externalOrderNumber: 'WEB-1' });
    const page = await answer.text();
    expect([answer.status, page]).toEqual([
      422,
      expect.stringContaining('cannot be shipped: it is on hold'),
    ]);
    expect(page).toContain('<a href="/?client=other">Back to the page</a>');
    const unknown = await post('order', { client: 'default', colour: 'red' });
    expect([unknown.status, await unknown.text()]).toEqual([
      400,
      expect.stringContaining('colour is unknown'),
    ]);
  });
});

describe('the controls', () => {
  test.each([
    ['an origin of another site', { origin: 'http://evil.example' }],
    ['an origin of another port', { origin: 'http://127.0.0.1:1' }],
    ['a hidden origin', { origin: 'null' }],
    ['a request that the browser calls cross-site', { 'sec-fetch-site': 'cross-site' }],
    ['a request that the browser calls same-site', { 'sec-fetch-site': 'same-site' }],
  ])('refuse %s', async (_what, headers) => {
    for (const accept of ['text/html', '*/*'])
      expect((await post('order', { client: 'default' }, { accept, ...headers })).status).toBe(403);
    const clear = { method: 'DELETE', headers: { origin: sandbox.url.origin, ...headers } };
    expect((await fetch(new URL('/_sandbox/faults', sandbox.url), clear)).status).toBe(403);
    expect(await list('orders')).toEqual([]);
  });

  test('refuse a site that has given its own name to this machine', async () => {
    const host = `evil.example:${sandbox.url.port}`;
    const headers = { host, origin: `http://${host}`, 'content-type': 'application/json' };
    const calling = request(new URL('/_sandbox/reset', sandbox.url), {
      method: 'POST',
      headers,
    }).end('{}');
    const [answer] = (await once(calling, 'response')) as [IncomingMessage];
    answer.resume();
    expect(answer.statusCode).toBe(403);
  });

  test('process a return once, whatever the robot has planned', async () => {
    await place('WEB-1', { lines: [{ sku: 'MUG-BLUE', quantity: 3 }] });
    const [shipmentId = 0] = (await ship('WEB-1')).shipmentIds;
    const { authorizationId } = await announce(shipmentId, 1);
    const body = { client: 'default', authorizationId };
    await sandbox.call('POST', '/_sandbox/return/process', body);
    const processed = await list('returnItems');
    expect(processed).toMatchObject([{ quantity: 1, processedOn: '2026-05-04' }]);
    await expect(sandbox.call('POST', '/_sandbox/return/process', body)).rejects.toThrow(
      /was processed before/,
    );
    await sandbox.advance(60 * 86_400);
    expect(await list('returnItems')).toMatchObject([{ processedOn: '2026-05-04' }]);
    await expect(announce(shipmentId, 3)).rejects.toThrow(/left to return/);
  });
});
