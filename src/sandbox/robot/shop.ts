import { dayMs, hourMs, minuteMs } from '../../core/time.ts';
import { addOrder, type OrderDraft, placeOrder } from '../rules/place-order.ts';
import { announceGoods } from '../rules/slips.ts';
import { soldSkus } from '../store/catalogue.ts';
import type { ClientStore } from '../store/client-store.ts';
import { type Life, usualOrdersPerDay } from '../store/life.ts';
import type { AddressLines, ShipmentStatus } from '../store/model.ts';
import { settings, warehouseCodes } from '../store/settings.ts';
import { itemOf, newShipment } from './fulfil.ts';

const people = [
  ['Anna', 'de Vries', 'Keizersgracht', 'Amsterdam', '1015CJ', 'NL', 'nl-NL'],
  ['Jonas', 'Becker', 'Lindenstraße', 'Köln', '50674', 'DE', 'de-DE'],
  ['Élise', 'Lambert', 'Rue Haute', 'Bruxelles', '1000', 'BE', 'fr-BE'],
  ['Bram', "van 't Hof", 'Dorpsstraat', 'Utrecht', '3511AB', 'NL', 'nl-NL'],
] as const;
/** Below this a product is ordered anew. */
const lowStock = 250;
const refillQuantity = 400;

/** The robot's own shop takes an order, and looks whether its shelves get empty. */
export function takeOrder(life: Life, atMs: number): void {
  planOrder(life, atMs + life.random.between(2, 40) * minuteMs * (usualOrdersPerDay / life.habits.ordersPerDay));
  const draft = drawOrder(life, atMs, [1, 4]);
  const extra = life.random.chance(0.2) ? [serviceLine('SHIPPING', 4.95)] : [];
  placeOrder(life, { ...draft, lines: [...draft.lines, ...extra] }, atMs);
  refill(life, atMs);
}

/** The next order of the shop, unless it takes none. */
export function planOrder(life: Life, atMs: number): void {
  if (life.habits.ordersPerDay > 0) life.plan(Math.floor(atMs), { kind: 'take-order' });
}

/** What `bulk` makes: a number of shipments, in these states by turns, spread over the last days; of one or two items unless told. */
export interface Bulk {
  readonly shipments: number;
  readonly statuses: readonly ShipmentStatus[];
  readonly spreadDays: number;
  readonly items?: number | undefined;
}

/** Many orders with one shipment each at once. */
export function bulk(life: Life, { shipments, statuses, spreadDays, items: each }: Bulk, nowMs: number): void {
  const startMs = nowMs - spreadDays * dayMs;
  for (let index = 0; index < shipments; index++) {
    const atMs = Math.floor(startMs + (index / shipments) * spreadDays * dayMs);
    const order = addOrder(life, drawOrder(life, atMs, [each ?? 1, each ?? 2]));
    const items = order.items.map((item) => {
      item.fulfilled = item.quantity;
      const product = life.store.products.get(item.sku);
      if (product === undefined) throw new Error(`the shop sold ${item.sku}, which nobody knows`);
      return itemOf(life, { item, product, quantity: item.quantity }, atMs);
    });
    const shipment = newShipment(life, order, items, life.random.pick(warehouseCodes), atMs, atMs);
    life.store.addShipment(shipment, order);
    life.store.setStatus(shipment, statuses[index % statuses.length] ?? 'READY_TO_PICK', atMs + hourMs);
    life.store.showShipment(shipment, nowMs);
  }
}

function drawOrder({ random, store }: Life, atMs: number, [fewest, most]: readonly [number, number]): OrderDraft {
  const [firstName, lastName, street1, city, postcode, countryCode, locale] = random.pick(people);
  const lines = Array.from({ length: random.between(fewest, most) }, (_, index) => {
    const sku = random.pick(soldSkus);
    // One answer of the interface shows the rate as a decimal text.
    const vat = index === 1 ? '0.09' : 0.21;
    const price = random.between(100, 9_999) / 100;
    const name = store.products.get(sku)?.name ?? sku;
    return { sku, name, quantity: random.between(1, 4), price, vat, fulfillFrom: null, metadata: noTexts };
  });
  const address = {
    firstName,
    lastName,
    prefix: null,
    street1,
    postcode,
    houseNumberExtension: null,
    city,
    countryCode,
  };
  return {
    externalOrderNumber: nextNumber(store),
    reference: random.chance(0.3) ? `PO ${random.between(1, 999)}` : null,
    consumerReference: null,
    promotionCode: null,
    orderedOn: store.zone.day(atMs),
    currency: 'EUR',
    locale,
    email: mailboxes[store.orders.size % mailboxes.length] ?? '',
    phoneNumber: null,
    vatNumber: null,
    fulfillFrom: null,
    preferredShippingDate: null,
    allowPartialDelivery: lines.length > 1,
    onHold: false,
    metadata: shopMarks[store.orders.size % shopMarks.length] ?? noTexts,
    orderTypeId: random.chance(0.8) ? 31 : 32,
    shippingMethodId: random.pick(settings.mainShippingMethods).id,
    lines,
    deliveryAddress: housed(address, random.between(1, 250)),
    billingAddress: housed(address, random.between(1, 250)),
    pickUpPoint: random.chance(0.1) ? { name: 'Corner shop' } : null,
    attachment: null,
  };
}

const noTexts = {};
const mailboxes = Array.from({ length: 1_000 }, (_, index) => `customer${index + 1}@example.com`);
const shopMarks = [{ extra1: 'shop 0' }, { extra1: 'shop 1' }, { extra1: 'shop 2' }];
/** Lines of addresses by their text: a store of a million orders has many customers, and few houses. */
const houses = new Map<string, AddressLines>();

function housed(address: Omit<AddressLines, 'houseNumber'>, number: number): AddressLines {
  const key = `${address.lastName} ${number}`;
  const known = houses.get(key);
  if (known !== undefined) return known;
  const lines = { ...address, houseNumber: String(number) };
  houses.set(key, lines);
  return lines;
}

/** The next number of the shop's own that no order has; somebody may have pushed one like it. */
function nextNumber({ name, orders, orderByNumber }: ClientStore): string {
  for (let count = orders.size + 1; ; count++) {
    // Joined, as a text put together otherwise keeps its parts, too.
    const number = ['SO', name, String(count).padStart(6, '0')].join('-');
    if (!orderByNumber.has(number)) return number;
  }
}

function serviceLine(sku: string, price: number) {
  return { sku, name: null, quantity: 1, price, vat: 0.21, fulfillFrom: null, metadata: noTexts };
}

/** Announces goods for whatever is getting low, unless some are on their way. */
function refill(life: Life, atMs: number): void {
  const { store, random } = life;
  const low = soldSkus.filter((sku) => {
    const stock = Object.values(store.products.get(sku)?.stock ?? {}).reduce((sum, pieces) => sum + pieces, 0);
    return stock < lowStock && !life.onTheWay.has(sku);
  });
  if (low.length === 0) return;
  const lines = low.map((sku) => ({ sku, quantity: refillQuantity }));
  for (const sku of low) life.onTheWay.add(sku);
  const expectedOn = store.zone.day(atMs + random.between(1, 4) * dayMs);
  const reference = `REFILL-${store.slips.size + 1}`;
  const metadata = { reference, purchases: `PUR ${store.slips.size + 1}` };
  announceGoods(
    life,
    { expectedIn: random.pick(warehouseCodes), expectedOn, reference, comments: null, metadata, lines },
    atMs,
  );
}
