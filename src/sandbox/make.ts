import type { Random } from './random.ts';
import { settings, warehouseCodes } from './settings.ts';
import type { ClientStore, ShipmentStatus, StoredAddress, StoredItem, StoredOrder, StoredShipment } from './store.ts';
import { dayOf, momentAt } from './times.ts';

const products = [
  ['MUG-BLUE', 'Mug, blue'],
  ['MUG-RED', 'Mug, red'],
  ['TEA-500', 'Tea, 500 g'],
  ['LAMP-OAK', 'Lamp, oak'],
  ['SOCKS-M', 'Socks, M'],
  ['BOOK-042', 'Book, volume 42'],
  ['PHONE-128', 'Phone, 128 GB'],
  ['CREAM-50', 'Cream, 50 ml'],
] as const;
const people = [
  ['Anna', 'de Vries', 'Keizersgracht', 'Amsterdam', '1015CJ', 'NL', 'nl-NL'],
  ['Jonas', 'Becker', 'Lindenstraße', 'Köln', '50674', 'DE', 'de-DE'],
  ['Élise', 'Lambert', 'Rue Haute', 'Bruxelles', '1000', 'BE', 'fr-BE'],
  ['Bram', "van 't Hof", 'Dorpsstraat', 'Utrecht', '3511AB', 'NL', 'nl-NL'],
] as const;
const dayMs = 86_400_000;

/** Draws ids that rise strictly, with gaps, as they do where many clients share one service. */
export class Ids {
  readonly #random: Random;
  #last = 1_000;

  constructor(random: Random) {
    this.#random = random;
  }

  next(): number {
    this.#last += this.#random.between(1, 3);
    return this.#last;
  }
}

/** Makes the orders and shipments of one client, the same ones for the same seed. */
export class Maker {
  readonly #store: ClientStore;
  readonly #random: Random;
  readonly #ids: Ids;

  constructor(store: ClientStore, random: Random) {
    this.#store = store;
    this.#random = random;
    this.#ids = new Ids(random);
  }

  order(atMs: number, maxItems: number): StoredOrder {
    const random = this.#random;
    const number = String(this.#store.orders.length + 1).padStart(6, '0');
    const person = random.pick(people);
    const items = Array.from({ length: random.between(1, maxItems) }, (_, index) => {
      const product = random.between(0, products.length - 1);
      const [sku, name] = products[product] ?? products[0];
      const vat = index === 1 ? '0.09' : 0.21;
      const price = random.between(100, 9_999) / 100;
      return { id: this.#ids.next(), sku, name, quantity: random.between(1, 4), price, vat, productId: 500 + product };
    });
    const order: StoredOrder = {
      id: this.#ids.next(),
      externalOrderNumber: `SO-${this.#store.name}-${number}`,
      reference: random.chance(0.3) ? `PO ${random.between(1, 999)}` : null,
      orderedOn: dayOf(atMs, this.#store.zone),
      locale: person[6],
      email: `customer${number}@example.com`,
      orderTypeId: random.chance(0.8) ? 31 : 32,
      shippingMethodId: random.pick(settings.mainShippingMethods).id,
      items,
      deliveryAddress: this.#address(person),
      billingAddress: this.#address(person),
      pickUpPoint: random.chance(0.1) ? { id: this.#ids.next(), name: 'Corner shop' } : null,
    };
    this.#store.addOrder(order);
    return order;
  }

  /** @param parts `[index, of]`: which part of an order that leaves in several parcels */
  shipment(
    order: StoredOrder,
    atMs: number,
    visibleFromMs: number,
    [index, of]: readonly [number, number] = [0, 1],
  ): StoredShipment {
    const own = order.items.filter((_, place) => place % of === index);
    const id = this.#ids.next();
    const shipment: StoredShipment = {
      id,
      status: 'READY_TO_PICK',
      readyToPickOn: momentAt(atMs, id * 7_919, this.#store.zone),
      readyToShipOn: null,
      shippedOn: null,
      warehouseCode: this.#random.pick(warehouseCodes),
      returnLabel: null,
      orderId: order.id,
      orderTypeId: order.orderTypeId,
      shippingMethodId: order.shippingMethodId,
      items: own.map((item) => this.#item(item)),
      visibleFromMs,
    };
    this.#store.addShipment(shipment);
    return shipment;
  }

  /** Many orders with one shipment each at once, in the given states by turns, spread over the last days. */
  bulk(count: number, statuses: readonly ShipmentStatus[], nowMs: number, spreadDays: number): void {
    const startMs = nowMs - spreadDays * dayMs;
    for (let index = 0; index < count; index++) {
      const atMs = Math.floor(startMs + (index / count) * spreadDays * dayMs);
      const shipment = this.shipment(this.order(atMs, 2), atMs, atMs);
      this.#store.setStatus(shipment, statuses[index % statuses.length] ?? 'READY_TO_PICK', atMs + 3_600_000);
    }
  }

  #item(item: StoredOrder['items'][number]): StoredItem {
    const random = this.#random;
    const perishable = item.sku.startsWith('TEA') || item.sku.startsWith('CREAM');
    const serial = item.sku.startsWith('PHONE');
    return {
      id: this.#ids.next(),
      sku: item.sku,
      quantity: item.quantity,
      lotNumber: perishable ? `LOT${random.between(100, 999)}` : null,
      expirationDate: perishable ? `2029-0${random.between(1, 9)}-15` : null,
      serialNumbers: serial ? Array.from({ length: item.quantity }, () => `SN${random.between(10_000, 99_999)}`) : [],
      orderItemId: item.id,
      productId: item.productId,
    };
  }

  #address([firstName, lastName, street1, city, postcode, countryCode]: (typeof people)[number]): StoredAddress {
    const houseNumber = String(this.#random.between(1, 250));
    return { id: this.#ids.next(), firstName, lastName, street1, houseNumber, postcode, city, countryCode };
  }
}
