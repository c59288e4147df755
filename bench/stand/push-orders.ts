import { orderPayload } from '../../test/helpers/order-payload.ts';
import { waitFor } from '../../test/helpers/wait.ts';
import type { Stand } from './stand.ts';

let batch = 0;

/** Returns the requests per second from the first to the last request that the service received after `place`. */
export async function computeRate(stand: Stand, place: number, orders: number): Promise<number> {
  const posts = (await stand.sandbox.requests(place)).filter(({ operation }) => operation === 'v3.orders.create');
  if (posts.length !== orders) throw new Error(`${posts.length} requests for ${orders} orders`);
  const times = posts.map(({ atMs }) => atMs);
  return ((orders - 1) * 1_000) / (Math.max(...times) - Math.min(...times));
}

/** Inserts orders at once, waits until a worker has pushed them, and returns the requests per second. */
export async function pushOrders(stand: Stand, orders: number): Promise<number> {
  const place = await stand.sandbox.lastPlace();
  const prefix = `P${++batch}`;
  await stand.query(
    `insert into fulfilment.outbox (kind, reference, payload)
     select 'order.create', $2 || n, jsonb_set($1::jsonb, '{externalOrderNumber}', to_jsonb($2 || n))
     from generate_series(1, $3::int) n`,
    [JSON.stringify(orderPayload('?')), `${prefix}-`, orders],
  );
  const open = 'select from fulfilment.outbox where finished_at is null limit 1';
  await waitFor('the orders to be done', async () => (await stand.query(open)).length === 0, 300_000);
  return computeRate(stand, place, orders);
}
