import type { TestDatabase } from './database.ts';

/**
 * Returns the payload of an order.create with one line, with changes. `undefined` removes a member.
 */
export function orderPayload(externalOrderNumber: string, changes: Record<string, unknown> = {}) {
  return {
    externalOrderNumber,
    orderType: 'B2C',
    locale: 'nl-NL',
    email: 'anna@example.com',
    items: [{ sku: 'MUG-BLUE', quantity: 2, price: '9.95', vat: 0.21 }],
    deliveryAddress: {
      firstName: 'Anna',
      lastName: 'de Vries',
      street1: 'Keizersgracht',
      houseNumber: '12',
      postcode: '1015CJ',
      city: 'Amsterdam',
      countryCode: 'NL',
    },
    ...changes,
  };
}

/** Inserts rows of order.create for the numbers SO-<first> to SO-<last>. */
export const insertOrders = (
  { query }: Pick<TestDatabase, 'query'>,
  first: number,
  last: number,
  client = 'default',
) =>
  query(
    `insert into fulfilment.outbox (client, kind, reference, payload)
     select $1, 'order.create', 'SO-' || n, jsonb_set($2::jsonb, '{externalOrderNumber}', to_jsonb('SO-' || n))
     from generate_series($3::int, $4::int) n`,
    [client, JSON.stringify(orderPayload('?')), first, last],
  );
