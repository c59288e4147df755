import fc from 'fast-check';
import { expect, test } from 'vitest';
import { address, line, orderBody, type Resource, useClient } from '../helpers/client.ts';
import { quiet, useSandbox } from '../helpers/sandbox.ts';

const sandbox = useSandbox(['default'], { ...quiet, ordersPerDay: 12 });
const client = useClient(sandbox);

interface Row {
  readonly resource: Resource;
  readonly items: Resource[];
}
interface State {
  readonly now: string;
  readonly clients: {
    readonly orders: { resource: Resource; included: Resource[]; fulfilled: number[] }[];
    readonly shipments: (Row & { visible: boolean })[];
    readonly returnItems: Row[];
    readonly returnMerchandiseAuthorizations: Row[];
    readonly inbounds: Row[];
    readonly inboundPackingSlips: Row[];
    readonly products: { sku: string; stock: Record<string, number> }[];
  }[];
}

const skus = ['MUG-BLUE', 'TEA-500', 'SHIPPING', 'PHONE-128'];
const ranks: Record<string, readonly string[]> = {
  shipments: ['READY_TO_PICK', 'READY_TO_SORT', 'READY_TO_SHIP', 'SHIPPED'],
  inbounds: ['PROCESSING', 'CHECKING', 'CHECKED', 'COMPLETED'],
  inboundPackingSlips: ['EXPECTED', 'IN_PROGRESS', 'CHECKING', 'COMPLETED'],
};

/**
 * Values that must never decrease: first quantity by order item, state by resource, highest id by
 * kind.
 */
class SeenValues {
  readonly ordered = new Map<number, number>();
  readonly states = new Map<string, number>();
  readonly highest = new Map<string, number>();
}

/**
 * Checks the state of the sandbox against the rules of the interface and the values seen before.
 */
function checkState({ clients: [held] }: State, seen: SeenValues): void {
  if (held === undefined) throw new Error('there is no client');
  const shipped = new Map<number, number>();
  for (const { items } of held.shipments)
    for (const { attributes, relationships } of items) {
      const item = relationships.orderItem?.data.id ?? 0;
      shipped.set(item, (shipped.get(item) ?? 0) + Number(attributes.quantity));
    }
  for (const { resource, included, fulfilled } of held.orders) {
    const items = included.filter(({ type }) => type === 'orderItem');
    for (const [index, { id, attributes }] of items.entries()) {
      const quantity = Number(attributes.quantity);
      if (!seen.ordered.has(id)) seen.ordered.set(id, quantity);
      const ordered = seen.ordered.get(id) ?? 0;
      const cancelled = ordered - quantity;
      expect(cancelled, `cancelled of item ${id}`).toBeGreaterThanOrEqual(0);
      expect(
        (shipped.get(id) ?? 0) + cancelled,
        `shipped and cancelled of item ${id}`,
      ).toBeLessThanOrEqual(ordered);
      if (attributes.sku !== 'SHIPPING')
        expect(fulfilled[index], `order ${resource.id}`).toBe(shipped.get(id) ?? 0);
    }
  }
  const numbers = held.orders.map(({ resource }) => resource.attributes.externalOrderNumber);
  expect(new Set(numbers).size, 'one order per number').toBe(numbers.length);
  for (const { sku, stock } of held.products)
    for (const pieces of Object.values(stock)) expect(pieces, sku).toBeGreaterThanOrEqual(0);
  const returned = new Map<number, number>();
  for (const { resource } of held.returnItems) {
    const item = resource.relationships.shipmentItem?.data.id ?? 0;
    returned.set(item, (returned.get(item) ?? 0) + Number(resource.attributes.quantity));
  }
  for (const { items } of held.shipments)
    for (const { id, attributes } of items)
      expect(returned.get(id) ?? 0).toBeLessThanOrEqual(Number(attributes.quantity));
  for (const kind of [
    'orders',
    'shipments',
    'returnItems',
    'inbounds',
    'inboundPackingSlips',
  ] as const) {
    const ids = held[kind].map(({ resource }) => resource.id);
    expect(ids, kind).toEqual([...new Set(ids)].sort((left, right) => left - right));
    for (const { resource } of held[kind]) checkProgress(kind, resource, seen);
  }
}

/**
 * Checks that new rows have higher ids than earlier rows, and that states move forward, except to
 * and from ERROR.
 */
function checkProgress(kind: string, { id, attributes }: Resource, seen: SeenValues): void {
  const key = `${kind} ${id}`;
  if (!seen.states.has(key)) expect(id, key).toBeGreaterThan(seen.highest.get(kind) ?? 0);
  const rank = ranks[kind]?.indexOf(String(attributes.status)) ?? 0;
  const before = seen.states.get(key) ?? 0;
  if (attributes.status !== 'ERROR')
    expect(rank, `${key} is ${attributes.status}`).toBeGreaterThanOrEqual(before);
  else expect(before, `${key} was SHIPPED`).toBeLessThan(3);
  seen.states.set(key, Math.max(rank, before));
}

/** Stores the highest id of each kind. */
function storeHighestIds({ clients: [held] }: State, seen: SeenValues): void {
  for (const kind of [
    'orders',
    'shipments',
    'returnItems',
    'inbounds',
    'inboundPackingSlips',
  ] as const)
    seen.highest.set(kind, held?.[kind].at(-1)?.resource.id ?? 0);
}

const nat = fc.nat(1_000);
const call = fc.oneof(
  fc.record({ kind: fc.constant('advance' as const), hours: fc.integer({ min: 1, max: 120 }) }),
  fc.record({
    kind: fc.constant('create' as const),
    number: fc.integer({ min: 1, max: 12 }),
    lines: fc.array(fc.tuple(fc.constantFrom(...skus), fc.integer({ min: 1, max: 300 })), {
      minLength: 1,
      maxLength: 3,
    }),
    partial: fc.boolean(),
    onHold: fc.boolean(),
  }),
  fc.record({
    kind: fc.constantFrom('cancel' as const, 'cancelItem' as const, 'release' as const),
    which: nat,
  }),
  fc.record({
    kind: fc.constant('update' as const),
    which: nat,
    number: fc.integer({ min: 1, max: 12 }),
  }),
  fc.record({
    kind: fc.constantFrom('announce' as const, 'replace' as const, 'remove' as const),
    which: nat,
    quantity: fc.integer({ min: 1, max: 4 }),
  }),
  fc.record({ kind: fc.constant('slip' as const), quantity: fc.integer({ min: 1, max: 500 }) }),
);

/**
 * Makes one call on a resource that exists, if there is one. Returns whether the call was accepted;
 * many are not.
 */
async function perform(
  step: typeof call extends fc.Arbitrary<infer T> ? T : never,
  state: State,
): Promise<boolean> {
  const [held] = state.clients;
  const pick = <T>(rows: readonly T[] | undefined, which: number) =>
    rows?.[which % Math.max(1, rows.length)];
  if (step.kind === 'advance') {
    await sandbox.advance(step.hours * 3_600);
    return true;
  }
  if (step.kind === 'create') {
    const included = [
      ...step.lines.map(([sku, quantity]) => line(sku, quantity)),
      address('d'),
      address('b'),
    ];
    const attributes = { allowPartialDelivery: step.partial, onHold: step.onHold };
    const body = orderBody(`P-${step.number}`, { attributes, included });
    return (await client.ask('v3.orders.create', { body })).status === 200;
  }
  if (step.kind === 'slip') {
    const items = [
      { type: 'inboundPackingSlipItem', attributes: { sku: 'MUG-BLUE', quantity: step.quantity } },
    ];
    const data = {
      type: 'inboundPackingSlip',
      attributes: { expectedIn: 'AMS', expectedOn: '2026-05-05' },
      included: items,
    };
    return (await client.ask('v3.inboundPackingSlips.create', { body: { data } })).status === 200;
  }
  if ('quantity' in step) return performReturn(step, held, pick);
  const order = pick(held?.orders, step.which);
  const id = order?.resource.id ?? 0;
  if (step.kind === 'cancel')
    return (await client.ask('v3.orders.cancel', { path: { id } })).status === 200;
  if (step.kind === 'cancelItem') {
    const item = order?.included[0]?.id ?? 0;
    const body = { data: { id: item, type: 'orderItem', attributes: { quantity: 0 } } };
    return (await client.ask('v3.orderItems.cancel', { path: { id: item }, body })).status === 200;
  }
  if (step.kind === 'release') {
    const body = { externalOrderNumber: String(order?.resource.attributes.externalOrderNumber) };
    return (await client.ask('v2.order.release', { body })).body.messageCode === 'OK';
  }
  if (!('number' in step)) throw new Error(`there is no step ${step.kind}`);
  const attributes = { externalOrderNumber: `P-${step.number}`, onHold: step.which % 2 === 0 };
  const body = { data: { id, type: 'order', attributes } };
  return (await client.ask('v3.orders.update', { path: { id }, body })).status === 200;
}

/** Announces, replaces or removes a return. Returns whether the call was accepted. */
async function performReturn(
  step: { kind: 'announce' | 'replace' | 'remove'; which: number; quantity: number },
  held: State['clients'][number] | undefined,
  pick: <T>(rows: readonly T[] | undefined, which: number) => T | undefined,
): Promise<boolean> {
  const authorizationId = pick(held?.returnMerchandiseAuthorizations, step.which)?.resource.id ?? 0;
  if (step.kind === 'remove')
    return (
      (
        await client.ask('v3.returnMerchandiseAuthorizations.delete', {
          path: { id: authorizationId },
        })
      ).status === 200
    );
  const shipment = pick(held?.shipments, step.which);
  const item = {
    type: 'returnMerchandiseAuthorizationItem',
    attributes: { quantity: step.quantity, reasonCode: 'REGRET' },
    relationships: {
      shipmentItem: { data: { id: shipment?.items[0]?.id ?? 0, type: 'shipmentItem' } },
    },
  };
  const body = {
    data: {
      type: 'returnMerchandiseAuthorization',
      attributes: {},
      relationships: { shipment: { data: { id: shipment?.resource.id ?? 0, type: 'shipment' } } },
      included: [item],
    },
  };
  const parts = step.kind === 'announce' ? { body } : { body, path: { id: authorizationId } };
  const name = step.kind === 'announce' ? 'create' : 'replace';
  return (await client.ask(`v3.returnMerchandiseAuthorizations.${name}`, parts)).status === 200;
}

test('the rules of the interface hold for all calls of a client and all steps of the robot', async () => {
  const accepted = new Map<string, number>();
  await fc.assert(
    fc.asyncProperty(
      fc.nat(1_000),
      fc.array(call, { minLength: 10, maxLength: 30 }),
      async (seed, steps) => {
        await sandbox.call('POST', '/_sandbox/reset', { seed });
        await client.logIn();
        const seen = new SeenValues();
        let state = await sandbox.call<State>('GET', '/_sandbox/state');
        for (const step of [...steps, { kind: 'advance' as const, hours: 24 * 30 }]) {
          if (await perform(step, state))
            accepted.set(step.kind, (accepted.get(step.kind) ?? 0) + 1);
          state = await sandbox.call<State>('GET', '/_sandbox/state');
          checkState(state, seen);
          storeHighestIds(state, seen);
        }
      },
    ),
    { numRuns: 20, seed: 20_261_121 },
  );
  // Each kind of call was accepted at least once. Otherwise the checks would prove little.
  expect([...accepted.keys()].sort()).toEqual(
    [
      'advance',
      'announce',
      'cancel',
      'cancelItem',
      'create',
      'release',
      'remove',
      'replace',
      'slip',
      'update',
    ].sort(),
  );
});
