import { Agent, request } from 'undici';
import { buildOrderDocument, type OrderPayload } from '../../src/push/kinds/order-payload.ts';
import { createServiceLists } from '../../src/sandbox/store/service-lists.ts';
import { orderPayload } from '../../test/helpers/order-payload.ts';

const [, , base = '', concurrency = '1', prefix = '', count = '0', database = '', redis = ''] =
  process.argv;

/** The arguments of every rival program. */
export const rivalOptions = {
  concurrency: Number(concurrency),
  count: Number(count),
  database,
  redis,
};
export const numbers = Array.from(
  { length: rivalOptions.count },
  (_, index) => `${prefix}-${index}`,
);

const agent = new Agent();
const form = new URLSearchParams({
  grant_type: 'password',
  username: 'default',
  password: 'default',
});
const answer = await fetch(new URL('/token', base), { method: 'POST', body: form });
const { access_token: token } = (await answer.json()) as { access_token: string };
const ids = { orderTypeId: createServiceLists().orderTypes[0]?.id ?? 0, shippingMethodId: null };

/** Creates one order with the body that our worker sends. Returns the document of the answer. */
export async function post(number: string): Promise<unknown> {
  const { statusCode, body } = await request(new URL('/v3/orders', base), {
    dispatcher: agent,
    method: 'POST',
    headers: { authorization: `bearer ${token}`, 'content-type': 'application/json' },
    body: JSON.stringify(
      buildOrderDocument(orderPayload(number) as unknown as OrderPayload, ids, {}),
    ),
  });
  const text = await body.text();
  if (statusCode !== 200 && statusCode !== 201) throw new Error(`${number}: ${statusCode} ${text}`);
  return JSON.parse(text);
}

let left = rivalOptions.count;
const { promise, resolve } = Promise.withResolvers<void>();
/** Resolves when all orders are created. */
export const allPlaced = promise;
/** Counts one more created order. */
export const countPlaced = () => {
  if (--left === 0) resolve();
};
