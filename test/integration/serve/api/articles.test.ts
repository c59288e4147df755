import { expect, test } from 'vitest';
import { useApi } from '../../../helpers/api.ts';
import { useDatabase } from '../../../helpers/database.ts';

const database = useDatabase();
const api = useApi(database);

test('a program names articles of its client, and forgets them', async () => {
  const { server } = await api();
  const send = async (method: string, path: string, token = 'erp') => {
    const headers = { authorization: `Bearer ${token}` };
    const answer = await fetch(`http://127.0.0.1:${server.port}/v1/${path}`, { method, headers });
    return [answer.status, await answer.json()];
  };
  const read = (table: string) =>
    database.query(`select client, sku from ${table} order by client, sku`);

  for (const _ of ['first', 'again'])
    expect(await send('PUT', 'stock_watch/MUG%2FA')).toEqual([200, { sku: 'MUG/A' }]);
  await send('PUT', 'stock_watch/MUG%2FA', 'other');
  await send('PUT', 'service_products/SHIPPING');
  const watched = [
    { client: 'default', sku: 'MUG/A' },
    { client: 'other', sku: 'MUG/A' },
  ];
  expect(await read('sync.watched_articles')).toEqual(watched);
  expect(await read('fulfilment.service_products')).toEqual([
    { client: 'default', sku: 'SHIPPING' },
  ]);

  const refused = [
    await send('PUT', 'stock_watch/B', 'reader'),
    await send('DELETE', 'stock_watch/MUG%2FA', 'reader'),
    await send('PUT', `stock_watch/${'x'.repeat(201)}`),
    await send('PUT', 'stock_levels/MUG%2FA'),
  ];
  expect(refused.map(([status]) => status)).toEqual([403, 403, 400, 404]);
  expect(await read('fulfilment.stock_watch')).toEqual(watched);

  for (const _ of ['first', 'again'])
    expect(await send('DELETE', 'stock_watch/MUG%2FA')).toEqual([200, { sku: 'MUG/A' }]);
  expect(await read('fulfilment.stock_watch')).toEqual(watched.slice(1));
});
