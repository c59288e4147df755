import { once } from 'node:events';
import { type IncomingMessage, request } from 'node:http';
import { describe, expect, test } from 'vitest';
import { useClient } from '../../helpers/client.ts';
import { quiet, useSandbox } from '../../helpers/sandbox.ts';

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

const post = (control: string, body: object, headers: Record<string, string> = {}) =>
  fetch(new URL(`/_sandbox/${control}`, sandbox.url), {
    method: 'POST',
    headers: { 'content-type': 'application/json', origin: sandbox.url.origin, ...headers },
    body: JSON.stringify(body),
  });

describe('the controls', () => {
  test.each([
    ['an origin of another site', { origin: 'http://evil.example' }],
    ['an origin of another port', { origin: 'http://127.0.0.1:1' }],
    ['a hidden origin', { origin: 'null' }],
    ['a request that the browser calls cross-site', { 'sec-fetch-site': 'cross-site' }],
    ['a request that the browser calls same-site', { 'sec-fetch-site': 'same-site' }],
  ])('refuse %s', async (_what, headers) => {
    expect((await post('order', { client: 'default' }, headers)).status).toBe(403);
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

  test('do what their own page asks for', async () => {
    expect((await post('order', { client: 'default' })).status).toBe(200);
    expect(await list('orders')).toHaveLength(1);
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
