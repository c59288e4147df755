import { z } from 'zod';
import { dayMs, hourMs, minuteMs } from '../../core/time.ts';
import { defaultOrdersPerDay } from '../options.ts';
import { announceGoods } from '../rules/announcements.ts';
import {
  addOrder,
  emptyDraft,
  type OrderDraft,
  placeOrder,
  toRobotPrefix,
} from '../rules/orders.ts';
import { soldSkus } from '../rules/products.ts';
import type { Client, Performers } from '../store/client.ts';
import { type AddressLines, type Order, type Product, shipmentStatuses } from '../store/model.ts';
import { addShipment } from './shipments.ts';

const customers = [
  ['Anna', 'de Vries', 'Keizersgracht', 'Amsterdam', '1015CJ', 'NL', 'nl-NL'],
  ['Jonas', 'Becker', 'Lindenstraße', 'Köln', '50674', 'DE', 'de-DE'],
  ['Élise', 'Lambert', 'Rue Haute', 'Bruxelles', '1000', 'BE', 'fr-BE'],
  ['Bram', "van 't Hof", 'Dorpsstraat', 'Utrecht', '3511AB', 'NL', 'nl-NL'],
] as const;
type Customer = (typeof customers)[number];
/** Stock of all warehouses. */
const refillBelow = 250;
const refillQuantity = 400;

export const shopTasks = {
  /** Takes an order, reorders products that run out, and plans the next order. */
  'take-order': (client, atMs) => {
    const { random, options } = client;
    const pauseMs = random.between(2, 40) * minuteMs * (defaultOrdersPerDay / options.ordersPerDay);
    planOrder(client, atMs + pauseMs);

    const draft = drawOrder(client, atMs, 1, 4);
    const extra = random.chance(0.2) ? [createLine('SHIPPING', 1, 4.95)] : [];
    placeOrder(client, { ...draft, lines: [...draft.lines, ...extra] }, atMs);
    refillStock(client, atMs);
  },
} satisfies Partial<Performers>;

/** Plans the next order of the robot's shop, if the shop takes orders. */
export function planOrder(client: Client, atMs: number): void {
  if (client.options.ordersPerDay > 0) client.plan(Math.floor(atMs), { kind: 'take-order' });
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
  client: Client,
  { shipments, statuses, spreadDays, items }: z.output<z.ZodObject<typeof seedMembers>>,
  nowMs: number,
): void {
  const startMs = nowMs - spreadDays * dayMs;
  for (let index = 0; index < shipments; index++) {
    const atMs = Math.floor(startMs + (index / shipments) * spreadDays * dayMs);
    const order = addOrder(client, drawOrder(client, atMs, items ?? 1, items ?? 2));
    const goods = order.items.map((item) => {
      item.fulfilled = item.quantity;
      const product = client.products.get(item.sku) as Product;
      return { item, product, quantity: item.quantity };
    });

    const offering = client.lists.findOfferingWarehouses(order.shippingMethodId);
    const times = { warehouseCode: client.random.pick(offering), atMs, visibleFromMs: atMs };
    const shipment = addShipment(client, order, goods, times);
    const status = statuses[index % statuses.length] ?? 'READY_TO_PICK';
    client.setStatus(shipment, status, atMs + hourMs);
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
  client: Client,
  { externalOrderNumber, lines: given, onHold }: z.output<z.ZodObject<typeof orderMembers>>,
  atMs: number,
): Order {
  const draft = drawOrder(client, atMs, 1, 4);
  const lines = given?.map(({ sku, quantity }) => createLine(sku, quantity, 9.95)) ?? draft.lines;
  const wanted = {
    ...draft,
    onHold,
    lines,
    allowPartialDelivery: lines.length > 1,
    externalOrderNumber: externalOrderNumber ?? draft.externalOrderNumber,
  };
  return placeOrder(client, wanted, atMs);
}

/** Draws an order with a number of lines between two bounds. */
function drawOrder(client: Client, atMs: number, fewest: number, most: number): OrderDraft {
  const { random, lists, orders } = client;
  const customer = random.pick(customers);
  const locale = customer[6];
  const lines = Array.from({ length: random.between(fewest, most) }, (_, index) =>
    drawLine(client, index),
  );
  const count = orders.size;

  return {
    ...emptyDraft,
    externalOrderNumber: findFreeNumber(client),
    reference: random.chance(0.3) ? `PO ${random.between(1, 999)}` : null,
    orderedOn: client.zone.day(atMs),
    locale: lists.languages.some(({ code }) => code === locale) ? locale : lists.usualLocale,
    email: `customer${(count % 1_000) + 1}@example.com`,
    allowPartialDelivery: lines.length > 1,
    metadata: shopMetadata[count % shopMetadata.length] ?? emptyTexts,
    // Most orders have the first order type.
    orderTypeId: random.pick(random.chance(0.8) ? lists.orderTypes.slice(0, 1) : lists.orderTypes)
      .id,
    shippingMethodId: random.pick(lists.mainShippingMethods).id,
    lines,
    deliveryAddress: drawAddress(client, customer),
    billingAddress: drawAddress(client, customer),
    pickUpPoint: random.chance(0.1) ? { name: 'Corner shop' } : null,
  };
}

function drawLine({ random, products }: Client, index: number) {
  const sku = random.pick(soldSkus);
  const price = random.between(100, 9_999) / 100;
  const quantity = random.between(1, 4);
  const name = products.get(sku)?.name ?? sku;
  // Some rates are decimal texts, as in one response (docs/interface.md, 8.1 Fields).
  return { ...createLine(sku, quantity, price), name, vat: index === 1 ? '0.09' : 0.21 };
}

const createLine = (sku: string, quantity: number, price: number) => ({
  sku,
  quantity,
  price,
  name: null,
  vat: 0.21,
  fulfillFrom: null,
  metadata: emptyTexts,
});

const emptyTexts = {};
const shopMetadata = [{ extra1: 'shop 0' }, { extra1: 'shop 1' }, { extra1: 'shop 2' }];
/**
 * The addresses drawn so far, which orders share. A million separate addresses would take much
 * memory.
 */
const knownAddresses = new Map<string, AddressLines>();

function drawAddress({ random }: Client, customer: Customer): AddressLines {
  const [firstName, lastName, street1, city, postcode, countryCode] = customer;
  const houseNumber = String(random.between(1, 250));
  const key = `${lastName} ${houseNumber}`;
  const known = knownAddresses.get(key);
  if (known !== undefined) return known;

  const place = { street1, houseNumber, houseNumberExtension: null, postcode, city, countryCode };
  const address = { firstName, lastName, prefix: null, ...place };
  knownAddresses.set(key, address);
  return address;
}

/** Returns the next order number of the shop. Skips numbers that pushed orders already have. */
function findFreeNumber(client: Client): string {
  for (let count = client.orders.size + 1; ; count++) {
    const number = `${toRobotPrefix(client)}${String(count).padStart(6, '0')}`;
    if (!client.orderByNumber.has(number)) return number;
  }
}

/**
 * Announces goods for the products that run out in a warehouse, unless goods for them are already
 * on the way.
 */
function refillStock(client: Client, atMs: number): void {
  const { products, slips, zone, lists } = client;
  const open = slips.filter(({ status }) => status !== 'COMPLETED');
  const onTheWay = new Set(open.flatMap(({ items }) => items.map(({ sku }) => sku)));

  for (const expectedIn of lists.warehouseCodes) {
    const isLow = (sku: string) =>
      (products.get(sku)?.stock[expectedIn] ?? 0) < refillBelow / lists.warehouseCodes.length;
    const skus = soldSkus.filter((sku) => isLow(sku) && !onTheWay.has(sku));
    if (skus.length === 0) continue;

    for (const sku of skus) onTheWay.add(sku);
    const lines = skus.map((sku) => ({ sku, quantity: refillQuantity }));
    const expectedOn = zone.day(atMs + client.random.between(1, 4) * dayMs);
    const reference = `REFILL-${slips.size + 1}`;
    const metadata = { reference, purchases: `PUR ${slips.size + 1}` };
    const draft = { expectedIn, expectedOn, reference, comments: null, metadata, lines };
    announceGoods(client, draft, atMs);
  }
}
