import { z } from 'zod';
import { dayMs, hourMs, minuteMs } from '../../core/time.ts';
import { defaultOrdersPerDay } from '../options.ts';
import type { Random } from '../random.ts';
import { announceGoods } from '../rules/announcements.ts';
import { addOrder, emptyDraft, type OrderDraft, placeOrder } from '../rules/orders.ts';
import { soldSkus } from '../rules/products.ts';
import type { ClientStore } from '../store/client-store.ts';
import { type AddressLines, type Order, shipmentStatuses } from '../store/model.ts';
import type { ServiceLists } from '../store/service-lists.ts';
import type { Simulation } from '../store/simulation.ts';
import { createShipment, createShipmentItem } from './fulfil.ts';

const customers = [
  ['Anna', 'de Vries', 'Keizersgracht', 'Amsterdam', '1015CJ', 'NL', 'nl-NL'],
  ['Jonas', 'Becker', 'Lindenstraße', 'Köln', '50674', 'DE', 'de-DE'],
  ['Élise', 'Lambert', 'Rue Haute', 'Bruxelles', '1000', 'BE', 'fr-BE'],
  ['Bram', "van 't Hof", 'Dorpsstraat', 'Utrecht', '3511AB', 'NL', 'nl-NL'],
] as const;
/** Stock of all warehouses. */
const refillBelow = 250;
const refillQuantity = 400;

/** Takes an order in the robot's shop, reorders products that run out, and plans the next order. */
export function takeOrder(simulation: Simulation, atMs: number): void {
  const pauseMs =
    simulation.random.between(2, 40) *
    minuteMs *
    (defaultOrdersPerDay / simulation.options.ordersPerDay);
  planOrder(simulation, atMs + pauseMs);
  const draft = drawOrder(simulation, atMs, [1, 4]);
  const extra = simulation.random.chance(0.2) ? [createLine('SHIPPING', 4.95)] : [];
  placeOrder(simulation, { ...draft, lines: [...draft.lines, ...extra] }, atMs);
  refillStock(simulation, atMs);
}

/** Plans the next order of the robot's shop, if the shop takes orders. */
export function planOrder(simulation: Simulation, atMs: number): void {
  if (simulation.options.ordersPerDay > 0)
    simulation.plan(Math.floor(atMs), { kind: 'take-order' });
}

/** What `seedShipments` creates. */
export const seedMembers = {
  shipments: z.int().min(1).max(1_000_000),
  /** The states of the shipments, in turn. */
  statuses: z.array(z.enum(shipmentStatuses)).min(1).default(['SHIPPED']),
  /** Number of past days over which the shipments are spread. */
  spreadDays: z.number().min(0).max(400).default(30),
  /** Items of each shipment; one or two if absent. */
  items: z.int().min(1).max(100).optional(),
};

/** Creates many orders with one shipment each. */
export function seedShipments(
  simulation: Simulation,
  { shipments, statuses, spreadDays, items: itemCount }: z.output<z.ZodObject<typeof seedMembers>>,
  nowMs: number,
): void {
  const startMs = nowMs - spreadDays * dayMs;
  for (let index = 0; index < shipments; index++) {
    const atMs = Math.floor(startMs + (index / shipments) * spreadDays * dayMs);
    const order = addOrder(
      simulation,
      drawOrder(simulation, atMs, [itemCount ?? 1, itemCount ?? 2]),
    );
    const items = order.items.map((item) => {
      item.fulfilled = item.quantity;
      const product = simulation.store.products.get(item.sku);
      if (product === undefined) throw new Error(`Product ${item.sku} of the shop does not exist`);
      return createShipmentItem(simulation, { item, product, quantity: item.quantity }, atMs);
    });
    const warehouse = simulation.random.pick(
      simulation.store.lists.findOfferingWarehouses(order.shippingMethodId),
    );
    const shipment = createShipment(simulation, order, items, warehouse, atMs, atMs);
    simulation.store.addShipment(shipment, order);
    simulation.store.setStatus(
      shipment,
      statuses[index % statuses.length] ?? 'READY_TO_PICK',
      atMs + hourMs,
    );
    simulation.store.showShipment(shipment, nowMs);
  }
}

/** An order that is placed by hand. The rest is drawn like the orders of the robot's shop. */
export const orderMembers = {
  /** The next free number of the shop if absent. */
  externalOrderNumber: z.string().min(1).max(50).optional(),
  /** Drawn if absent. */
  lines: z
    .array(
      z.strictObject({
        sku: z.string().min(1),
        quantity: z.int().min(1).max(1_000_000).default(1),
      }),
    )
    .min(1)
    .max(100)
    .optional(),
  onHold: z.boolean().default(false),
};

/** Places an order as the robot's shop does, with some parts as requested. */
export function placeRequestedOrder(
  simulation: Simulation,
  { externalOrderNumber, lines, onHold }: z.output<z.ZodObject<typeof orderMembers>>,
  atMs: number,
): Order {
  const draft = drawOrder(simulation, atMs, [1, 4]);
  const ordered =
    lines?.map(({ sku, quantity }) => ({ ...createLine(sku, 9.95), quantity })) ?? draft.lines;
  const wanted = {
    ...draft,
    onHold,
    lines: ordered,
    allowPartialDelivery: ordered.length > 1,
    externalOrderNumber: externalOrderNumber ?? draft.externalOrderNumber,
  };
  return placeOrder(simulation, wanted, atMs);
}

function drawOrder(
  { random, store }: Simulation,
  atMs: number,
  [fewest, most]: readonly [number, number],
): OrderDraft {
  const [firstName, lastName, street1, city, postcode, countryCode, locale] = random.pick(
    findCustomers(store.lists),
  );
  const lines = Array.from({ length: random.between(fewest, most) }, (_, index) => {
    const sku = random.pick(soldSkus);
    // Some rates are decimal texts, as in one response (docs/interface.md, 8.1 Fields).
    const vat = index === 1 ? '0.09' : 0.21;
    const price = random.between(100, 9_999) / 100;
    const name = store.products.get(sku)?.name ?? sku;
    return {
      sku,
      name,
      quantity: random.between(1, 4),
      price,
      vat,
      fulfillFrom: null,
      metadata: emptyTexts,
    };
  });
  const drawAddress = () => {
    const houseNumber = String(random.between(1, 250));
    const rest = { prefix: null, houseNumberExtension: null, postcode, city, countryCode };
    const address = knownAddresses.get(`${lastName} ${houseNumber}`);
    const drawn = address ?? { firstName, lastName, street1, houseNumber, ...rest };
    knownAddresses.set(`${lastName} ${houseNumber}`, drawn);
    return drawn;
  };
  return {
    ...emptyDraft,
    externalOrderNumber: findFreeNumber(store),
    reference: random.chance(0.3) ? `PO ${random.between(1, 999)}` : null,
    orderedOn: store.zone.day(atMs),
    locale: store.lists.languages.some(({ code }) => code === locale)
      ? locale
      : store.lists.usualLocale,
    email: `customer${(store.orders.size % 1_000) + 1}@example.com`,
    allowPartialDelivery: lines.length > 1,
    metadata: shopMetadata[store.orders.size % shopMetadata.length] ?? emptyTexts,
    orderTypeId: drawOrderType(random, store.lists),
    shippingMethodId: random.pick(store.lists.mainShippingMethods).id,
    lines,
    deliveryAddress: drawAddress(),
    billingAddress: drawAddress(),
    pickUpPoint: random.chance(0.1) ? { name: 'Corner shop' } : null,
  };
}

/** Returns the customers in the listed countries; all if none lives there. */
function findCustomers({ countries }: ServiceLists): readonly (typeof customers)[number][] {
  const found = customers.filter(([, , , , , countryCode]) =>
    countries.some(({ code }) => code === countryCode),
  );
  return found.length === 0 ? customers : found;
}

/** Draws the id of an order type: the first one for most orders. */
function drawOrderType(random: Random, { orderTypes: [first, ...others] }: ServiceLists): number {
  const chosen = random.chance(0.8)
    ? first
    : others.length > 1
      ? random.pick(others)
      : (others[0] ?? first);
  return chosen?.id ?? 0;
}

const emptyTexts = {};
/**
 * The addresses drawn so far, which orders share. A million separate addresses would take much
 * memory.
 */
const knownAddresses = new Map<string, AddressLines>();
const shopMetadata = [{ extra1: 'shop 0' }, { extra1: 'shop 1' }, { extra1: 'shop 2' }];

/** Returns the next order number of the shop. Skips numbers that pushed orders already have. */
function findFreeNumber({ name, orders, orderByNumber }: ClientStore): string {
  for (let count = orders.size + 1; ; count++) {
    const number = `SO-${name}-${String(count).padStart(6, '0')}`;
    if (!orderByNumber.has(number)) return number;
  }
}

function createLine(sku: string, price: number) {
  return {
    sku,
    name: null,
    quantity: 1,
    price,
    vat: 0.21,
    fulfillFrom: null,
    metadata: emptyTexts,
  };
}

/**
 * Announces goods for the products that run out in a warehouse, unless goods for them are already
 * on the way.
 */
function refillStock(simulation: Simulation, atMs: number): void {
  const { store, random } = simulation;
  const { warehouseCodes } = store.lists;
  for (const expectedIn of warehouseCodes) {
    const lowSkus = soldSkus.filter((sku) => {
      const product = store.products.get(sku);
      const stock = product?.stock[expectedIn] ?? 0;
      return (
        product !== undefined &&
        stock < refillBelow / warehouseCodes.length &&
        !simulation.onTheWay.has(sku)
      );
    });
    if (lowSkus.length === 0) continue;
    const lines = lowSkus.map((sku) => ({ sku, quantity: refillQuantity }));
    for (const sku of lowSkus) simulation.onTheWay.add(sku);
    const expectedOn = store.zone.day(atMs + random.between(1, 4) * dayMs);
    const reference = `REFILL-${store.slips.size + 1}`;
    const metadata = { reference, purchases: `PUR ${store.slips.size + 1}` };
    announceGoods(
      simulation,
      { expectedIn, expectedOn, reference, comments: null, metadata, lines },
      atMs,
    );
  }
}
