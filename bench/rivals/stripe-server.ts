/**
 * Serves subscriptions with two items each in the shape that @supabase/stripe-sync-engine reads:
 * `stripe-server.ts COUNT`.
 */
import { createServer } from 'node:http';

const count = Number(process.argv[2]);
const prices = ['price_a', 'price_b'];

function subscription(number: number) {
  const id = `sub_${String(number).padStart(9, '0')}`;
  const items = prices.map((price, index) => ({
    id: `si_${number}_${index}`,
    object: 'subscription_item',
    created: 1_700_000_000,
    metadata: {},
    price: {
      id: price,
      object: 'price',
      currency: 'eur',
      unit_amount: 1_000 + index,
      type: 'recurring',
      active: true,
    },
    quantity: index + 1,
    subscription: id,
    tax_rates: [],
  }));
  return {
    id,
    object: 'subscription',
    cancel_at_period_end: false,
    collection_method: 'charge_automatically',
    created: 1_700_000_000 + number,
    currency: 'eur',
    current_period_end: 1_702_000_000,
    current_period_start: 1_700_000_000,
    customer: `cus_${number}`,
    items: {
      object: 'list',
      data: items,
      has_more: false,
      url: `/v1/subscription_items?subscription=${id}`,
    },
    latest_invoice: `in_${number}`,
    livemode: false,
    metadata: { reference: `SO-${number}` },
    status: 'active',
  };
}

// The texts are made once, because only the reader is measured.
const texts = Array.from({ length: count }, (_, index) => JSON.stringify(subscription(index + 1)));

const server = createServer((request, response) => {
  const query = new URL(request.url ?? '/', 'http://localhost').searchParams;
  const after = Number(query.get('starting_after')?.slice(4) ?? 0);
  const page = texts.slice(after, after + Number(query.get('limit') ?? 10));
  response.setHeader('content-type', 'application/json');
  const more = after + page.length < count;
  response.end(
    `{"object":"list","url":"/v1/subscriptions","has_more":${more},"data":[${page.join(',')}]}`,
  );
});
server.listen(0, '127.0.0.1', () => {
  const address = server.address();
  process.stdout.write(`Listening on ${typeof address === 'object' ? address?.port : ''}\n`);
});
