import { describe, expect, test } from 'vitest';
import { operations } from '../../../config/operations.ts';
import { order as orderFields } from '../../../src/pull/streams/orders.ts';
import { performCheck } from '../../../src/push/check-payload.ts';
import { describeLineDifference, type PushContext } from '../../../src/push/kind.ts';
import { buildOrderDocument, type OrderPayload } from '../../../src/push/kinds/order-payload.ts';
import {
  buildWantedState,
  describeLoss,
  listMembers,
} from '../../../src/push/kinds/order-state.ts';
import type { WriteRequest } from '../../../src/service/client.ts';
import { decodeRow } from '../../../src/service/decoding/fields.ts';
import { findKind } from '../../helpers/check-payload.ts';
import { withSwitches } from '../../helpers/config/operations-file.ts';

async function order(text: string): Promise<OrderPayload> {
  const task = { do: 'check payload', kind: 'order.create', payload: text, known: null } as const;
  const read = await performCheck({ ...task, reference: undefined, operations }, async () => null);
  if (!('read' in read)) throw new Error(JSON.stringify(read.problems));
  return read.read as OrderPayload;
}
const requiredMembers = `"externalOrderNumber": "SO-1", "orderTypeId": 31, "locale": "nl-NL",
  "deliveryAddress": {"lastName": "X", "street1": "Y 1", "countryCode": "FR"}`;

test('a text that loses its leading zero is changed, and a decimal in another form is not', () => {
  const read = (phoneNumber: string | number, price: string | number) =>
    listMembers({
      attributes: { phoneNumber },
      included: [{ id: 7, type: 'orderItem', attributes: { price } }],
    });
  const loss = describeLoss(read('01067', '9.50'), read(1067, 9.5), []);
  expect(loss).toBe('changed phoneNumber');
});

describe('the body of POST /v3/orders', () => {
  test('keeps every digit of prices and of members that are passed through', async () => {
    const text = `{${requiredMembers}, "items": [{"sku": "A", "quantity": 2.0, "price": 0.12345678901234567890, "vat": "0.210"},
      {"sku": "B", "quantity": 1, "price": 9.90}], "pickUpPoint": {"latitude": 52.10, "id": 12345678901234567890}}`;
    const body = JSON.stringify(
      buildOrderDocument(
        await order(text),
        { orderTypeId: 31, shippingMethodId: null },
        { included: 'inside' },
      ),
    );
    for (const part of [
      '"quantity":2,',
      '"price":0.12345678901234567890,',
      '"vat":0.210',
      '"price":9.90}',
      '"latitude":52.10,',
      '"id":12345678901234567890',
    ])
      expect(body).toContain(part);
  });
});

test('without a billing address the delivery address is billed, unless that is switched off', async () => {
  const text = `{${requiredMembers}, "items": [{"sku": "A", "quantity": 1, "channelIdentifier": "L-1"}]}`;
  const ids = { orderTypeId: 31, shippingMethodId: null };
  const lines = { lastName: 'X', street1: 'Y 1', countryCode: 'FR' };
  expect(buildOrderDocument(await order(text), ids, { included: 'top' })).toMatchObject({
    data: { relationships: { billingAddress: { data: { id: 2, type: 'address' } } } },
    included: [
      { attributes: { sku: 'A', channelIdentifier: 'L-1' } },
      { type: 'address', id: 1, attributes: lines },
      { type: 'address', id: 2, attributes: lines },
    ],
  });
  const omitted = buildOrderDocument(await order(text), ids, {
    included: 'top',
    billingAddress: 'omit',
  });
  expect(JSON.stringify(omitted)).not.toContain('billingAddress');
});

describe('the request of a row that leaves out members', () => {
  /** Returns the first request of a push. The push then ends with an error. */
  async function push(
    name: string,
    payload: object,
    switches: Parameters<typeof withSwitches>[0] = {},
  ) {
    const requests: WriteRequest[] = [];
    const send = async (request: WriteRequest) => {
      requests.push(request);
      throw new Error('stop');
    };
    const warehouse = { ask: async () => null };
    const context = {
      row: { reference: 'R-1' },
      operations: withSwitches(switches),
      warehouse,
      send,
    };
    const pushing = findKind(name).push(payload, context as unknown as PushContext);
    await expect(pushing).rejects.toThrow('stop');
    return requests[0];
  }

  test('has no such members: a slip', async () => {
    expect(
      await push('inbound_packing_slip.create', { items: [{ sku: 'A', quantity: null }] }),
    ).toEqual({
      operation: 'v3.inboundPackingSlips.create',
      body: {
        data: {
          type: 'inboundPackingSlip',
          attributes: { reference: 'R-1' },
          included: [{ type: 'inboundPackingSlipItem', attributes: { sku: 'A' } }],
        },
      },
    });
    const onTop = { 'v3.inboundPackingSlips.create': { included: 'top' } };
    expect(await push('inbound_packing_slip.create', { expectedIn: null }, onTop)).toMatchObject({
      body: {
        data: { type: 'inboundPackingSlip', attributes: { reference: 'R-1' } },
        included: [],
      },
    });
  });

  test('has no such members: a product', async () => {
    const sent = await push('product.save', { weight: 1 });
    expect(JSON.parse(JSON.stringify(sent?.body))).toEqual({ Sku: 'R-1', Weight: 1 });
  });
});

test('lines are compared without the quantities that a row leaves out', () => {
  const found = [
    { sku: 'A', quantity: 1 },
    { sku: 'B', quantity: 2 },
  ];
  expect(describeLineDifference([{ sku: 'A' }, { sku: 'B', quantity: 2 }], found)).toBeNull();
  expect(describeLineDifference([{ sku: 'A' }, { sku: 'B', quantity: 3 }], found)).toBe(
    'it has any x A, 2 x B, but the row asks for any x A, 3 x B',
  );
  expect(describeLineDifference([{ sku: 'C', quantity: null }], found)).toBe(
    'it has 1 x A, 2 x B, but the row asks for any x C',
  );
});

describe('the state that an update sends', () => {
  const attributes = {
    externalOrderNumber: 'SO-1',
    reference: 'old',
    orderedOn: '2026-01-01',
    consumerReference: null,
    promotionCode: 'P',
    currency: 'EUR',
    locale: 'nl-NL',
    email: 'a@example.com',
    phoneNumber: '020',
    vatNumber: null,
    fulfillFrom: 'AMS',
    preferredShippingDate: '2026-05-04',
    allowPartialDelivery: false,
    onHold: null,
    metadata: { extra1: 'one', extra2: 'two' },
    channelIdentifier: 'web',
  };
  const decoded = decodeRow(orderFields, { id: 1, type: 'order', attributes });
  if ('problem' in decoded) throw new Error(decoded.problem.reason);
  const current = decoded.row;
  const state = (change: Record<string, unknown>, today = '2026-05-04') =>
    buildWantedState(current, change, today);

  test('is complete, except for members that the service sets or that must not be null', () => {
    const {
      orderedOn: _day,
      currency: _currency,
      channelIdentifier: _channel,
      onHold: _hold,
      ...whole
    } = attributes;
    expect(state({})).toEqual({ attributes: whole, note: null });
  });

  test('has the changes: null and an empty phone number erase, metadata is merged by member', () => {
    const change = {
      reference: '',
      phoneNumber: '',
      email: null,
      fulfillFrom: null,
      metadata: { extra1: null, extra3: 'three' },
    };
    expect(state(change).attributes).toMatchObject({
      reference: '',
      phoneNumber: null,
      email: null,
      fulfillFrom: null,
      metadata: { extra2: 'two', extra3: 'three' },
      promotionCode: 'P',
    });
    expect(state({ metadata: null }).attributes.metadata).toBeNull();
  });

  test('has null instead of a shipping date that has passed', () => {
    expect(state({}, '2026-05-05')).toMatchObject({
      attributes: { preferredShippingDate: null },
      note: 'preferredShippingDate 2026-05-04 had passed and was sent as null',
    });
    expect(
      state({ preferredShippingDate: '2026-05-05' }, '2026-05-05').attributes.preferredShippingDate,
    ).toBe('2026-05-05');
  });

  test('is refused if the change asks for a shipping date that has passed', () => {
    expect(() => state({ preferredShippingDate: '2026-05-03' })).toThrow(
      'preferredShippingDate: 2026-05-03 is before today, 2026-05-04',
    );
    const sentBeforeMidnight = { preferredShippingDate: '2026-05-04' };
    expect(() => buildWantedState(current, sentBeforeMidnight as never, '2026-05-05')).toThrow(
      'is before today',
    );
    expect(
      buildWantedState(current, sentBeforeMidnight as never, '2026-05-05', true).note,
    ).toContain('had passed');
  });
});
