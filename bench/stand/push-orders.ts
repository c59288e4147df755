import { setTimeout as wait } from 'node:timers/promises';
import { orderPayload } from '../../test/helpers/order-payload.ts';
import type { Stand } from './stand.ts';

/** Milliseconds between two looks whether all orders are done. */
const pauseMs = 200;
let batch = 0;

/**
 * Returns the requests per second from the first to the last request that the service received
 * after `place`.
 */
export async function computeRate(stand: Stand, place: number, orders: number): Promise<number> {
  const posts = (await stand.sandbox.requests(place)).filter(
    ({ operation }) => operation === 'v3.orders.create',
  );
  if (posts.length !== orders) throw new Error(`${posts.length} requests for ${orders} orders`);
  const times = posts.map(({ atMs }) => atMs);
  return ((orders - 1) * 1_000) / (Math.max(...times) - Math.min(...times));
}

/**
 * Inserts orders at once, waits until a worker has pushed them, and returns the requests per
 * second.
 */
export async function pushOrders(stand: Stand, orders: number): Promise<number> {
  const place = await stand.sandbox.lastPlace();
  const prefix = `P${++batch}`;
  await stand.query(
    `insert into fulfilment.outbox (kind, reference, payload)
     select 'order.create', $2 || n, jsonb_set($1::jsonb, '{externalOrderNumber}', to_jsonb($2 || n))
     from generate_series(1, $3::int) n`,
    [JSON.stringify(orderPayload('?')), `${prefix}-`, orders],
  );
  // The partial index outbox_lanes answers this. A scan of the table would cost more than the
  // pushes themselves.
  const open = `select from fulfilment.outbox where status in ('pending', 'sending', 'unknown', 'dead') limit 1`;
  const isDone = async () => (await stand.query(open)).length === 0;
  while (!(await isDone())) await wait(pauseMs);
  return computeRate(stand, place, orders);
}
