import { startTracking } from '../robot/carrier.ts';
import { createShipment, createShipmentItem } from '../robot/fulfil.ts';
import { checkWarehouse, placeOrder } from '../rules/place-order.ts';
import type { Order, OrderItem, Product } from '../store/model.ts';
import type { Simulation } from '../store/simulation.ts';
import type { Arguments } from './schema.ts';

const address = {
  firstName: 'Anna',
  lastName: 'de Vries',
  prefix: null,
  street1: 'Keizersgracht',
  postcode: '1015CJ',
  houseNumber: '12',
  houseNumberExtension: null,
  city: 'Amsterdam',
  countryCode: 'NL',
};

/** The error of a step that cannot be performed. The next step happens nevertheless. */
export class StepError extends Error {
  override readonly name = 'StepError';
}

/**
 * Places orders at the service, as another program of the client would.
 * @throws Refusal if the service refuses one
 */
export function placeOrders(
  simulation: Simulation,
  atMs: number,
  { orders, type, partial, onHold }: Arguments<'place'>,
) {
  const { orderTypes, usualLocale } = simulation.store.settings;
  const orderType = type === undefined ? orderTypes[0] : orderTypes.find(({ code }) => code === type);
  if (orderType === undefined) throw new StepError(`There is no order type with the code ${type}`);
  for (const [externalOrderNumber, lines] of Object.entries(orders))
    placeOrder(
      simulation,
      {
        externalOrderNumber,
        reference: null,
        consumerReference: null,
        promotionCode: null,
        orderedOn: simulation.store.zone.day(atMs),
        currency: 'EUR',
        locale: usualLocale,
        email: 'anna@example.com',
        phoneNumber: null,
        vatNumber: null,
        fulfillFrom: null,
        preferredShippingDate: null,
        allowPartialDelivery: partial ?? null,
        onHold,
        metadata: {},
        orderTypeId: orderType.id,
        shippingMethodId: null,
        lines: Object.entries(lines).map(([sku, quantity]) => toLine(simulation, sku, quantity)),
        deliveryAddress: address,
        billingAddress: address,
        pickUpPoint: null,
        attachment: null,
      },
      atMs,
    );
}

function toLine({ store }: Simulation, sku: string, quantity: number) {
  const product = findProduct(store.products, sku);
  return { sku, name: product.name, quantity, price: 9.95, vat: 0.21, fulfillFrom: null, metadata: {} };
}

/** @throws StepError if there is no product with the sku */
export function findProduct(products: ReadonlyMap<string, Product>, sku: string): Product {
  const product = products.get(sku);
  if (product === undefined) throw new StepError(`There is no product ${sku}; a stock step can add it`);
  return product;
}

/** @throws StepError if there is no order with the number */
export function findOrder({ store }: Simulation, number: string): Order {
  const order = store.orderByNumber.get(number);
  if (order === undefined) throw new StepError(`There is no order ${number}`);
  return order;
}

/** Ships a part of an order in one parcel: the given lines, or everything that is open. */
export function shipOrder(
  simulation: Simulation,
  atMs: number,
  { order: number, lines, from, status }: Arguments<'ship'>,
) {
  const { store } = simulation;
  const order = findOrder(simulation, number);
  const warehouse = from ?? store.settings.warehouseCodes[0] ?? '';
  checkWarehouse(store.settings, warehouse);
  const parts = order.items.flatMap((item) => {
    const product = findProduct(store.products, item.sku);
    const open = item.quantity - item.fulfilled;
    const quantity = lines === undefined ? open : (lines[item.sku] ?? 0);
    if (quantity > open) throw new StepError(`Of ${item.sku} only ${open} of order ${number} are open`);
    return quantity > 0 ? [{ item, product, quantity }] : [];
  });
  const shipped = parts.map(({ item }) => item.sku);
  const missing = Object.keys(lines ?? {}).filter((sku) => !shipped.includes(sku));
  if (parts.length === 0 || missing.length > 0)
    throw new StepError(`Order ${number} has no open line ${missing.join(', ')}`.trimEnd());
  for (const { product, quantity } of parts) {
    const pieces = product.stock[warehouse] ?? 0;
    if (!product.service && pieces < quantity)
      throw new StepError(`${warehouse} has only ${pieces} pieces of ${product.sku}`);
  }
  const items = parts.map((part) => createShipmentItem(simulation, part, atMs));
  for (const { item, product, quantity } of parts) takeGoods(item, product, quantity, warehouse);
  const shipment = createShipment(simulation, order, items, warehouse, atMs, atMs);
  store.addShipment(shipment, order);
  store.showShipment(shipment, atMs);
  if (status !== 'READY_TO_PICK') store.setStatus(shipment, status, atMs);
  if (status === 'SHIPPED') startTracking(simulation, shipment, atMs);
}

function takeGoods(item: OrderItem, product: Product, quantity: number, warehouse: string): void {
  item.fulfilled += quantity;
  if (!product.service) product.stock[warehouse] = (product.stock[warehouse] ?? 0) - quantity;
}

/** Sets the state of all shipments of an order that are not shipped yet. */
export function moveShipments(simulation: Simulation, atMs: number, { order: number, status }: Arguments<'move'>) {
  const { store } = simulation;
  const open = store.listShipments(findOrder(simulation, number)).filter((shipment) => shipment.status !== 'SHIPPED');
  if (open.length === 0) throw new StepError(`Order ${number} has no shipment that is still in the warehouse`);
  for (const shipment of open) {
    store.setStatus(shipment, status, atMs);
    if (status === 'SHIPPED') startTracking(simulation, shipment, atMs);
  }
}

/** Returns the numbers of expected orders that the service has not received. */
export function findMissingOrders({ store }: Simulation, { orders }: Arguments<'expect'>): string[] {
  return Object.keys(orders).filter((number) => !store.orderByNumber.has(number));
}
