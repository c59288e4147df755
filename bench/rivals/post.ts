import { Agent, request } from 'undici';
import { settings } from '../../src/sandbox/store/settings.ts';
import { type OrderPayload, orderDocument } from '../../src/sync/push/kinds/order/order-payload.ts';
import { orderPayload } from '../../test/helpers/order-payload.ts';

const [, , base = '', concurrency = '1', prefix = '', count = '0', database = '', redis = ''] = process.argv;

/** What every rival is told. */
export const told = { concurrency: Number(concurrency), count: Number(count), database, redis };
export const numbers = Array.from({ length: told.count }, (_, index) => `${prefix}-${index}`);

const agent = new Agent();
const form = new URLSearchParams({ grant_type: 'password', username: 'default', password: 'default' });
const answer = await fetch(new URL('/token', base), { method: 'POST', body: form });
const { access_token: token } = (await answer.json()) as { access_token: string };
const ids = { orderTypeId: settings.orderTypes[0]?.id ?? 0, shippingMethodId: null };

/** Places one order, with the very body that the product sends, and reads the answer. */
export async function post(number: string): Promise<void> {
  const { statusCode, body } = await request(new URL('/v3/orders', base), {
    dispatcher: agent,
    method: 'POST',
    headers: { authorization: `bearer ${token}`, 'content-type': 'application/json' },
    body: JSON.stringify(orderDocument(orderPayload(number) as unknown as OrderPayload, ids, 'inside')),
  });
  const text = await body.text();
  if (statusCode !== 200 && statusCode !== 201) throw new Error(`${number}: ${statusCode} ${text}`);
  JSON.parse(text);
}

let left = told.count;
const { promise, resolve } = Promise.withResolvers<void>();
/** Ends when so many orders as there are were placed. */
export const allPlaced = promise;
/** One more is placed. */
export const placed = () => {
  if (--left === 0) resolve();
};
