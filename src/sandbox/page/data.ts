import { type Child, type Html, html } from '../../core/html.ts';
import type { ClientStore } from '../store/client-store.ts';
import type { Authorization, Order, Shipment } from '../store/model.ts';
import { badge, controlForm, hidden, moment, type Row, section, type Tone, table } from './elements.ts';
import { writeAddress } from './view.ts';

const shownRows = 25;

/** Renders the newest rows of a client. */
export function renderData(store: ClientStore): Html {
  const orders = store.orders.latest(shownRows).map((order) => toOrderRow(store, order));
  const shipments = store.shipments.latest(shownRows).map((shipment) => toShipmentRow(store, shipment));
  const announced = store.authorizations.latest(shownRows).map((row) => toAuthorizationRow(store, row));
  const returns = store.returnItems.latest(shownRows).map(({ id, sku, quantity, orderId, processedOn, restockIn }) => ({
    cells: [id, search(store, sku), quantity, search(store, orderId), processedOn ?? 'not yet', restockIn ?? '–'],
  }));
  const slips = store.slips.latest(shownRows).map((row) => ({
    cells: [
      search(store, row.id),
      row.reference === null ? '–' : search(store, row.reference),
      row.expectedIn,
      row.expectedOn,
      badge('note', row.status),
      row.inboundId === null ? '–' : search(store, row.inboundId),
    ],
  }));
  const list = (id: string, title: string, total: number, headings: readonly string[], rows: readonly Row[]) =>
    section(id, `${title} (${total})`, id === 'orders' || id === 'shipments', table(title, headings, rows));
  return html`
${list('orders', 'Orders', store.orders.size, orderHeadings, orders)}
${list('shipments', 'Shipments', store.shipments.size, shipmentHeadings, shipments)}
${list('announced', 'Announced returns', store.authorizations.size, authorizationHeadings, announced)}
${list('returns', 'Returns', store.returnItems.size, ['id', 'sku', 'quantity', 'order', 'processed on', 'restocked in'], returns)}
${list('slips', 'Inbound packing slips', store.slips.size, ['id', 'reference', 'to', 'expected on', 'state', 'inbound'], slips)}`;
}

/** Renders a link to the search for a number, a sku or a reference. */
export const search = ({ name }: ClientStore, text: string | number): Html =>
  html`<a href="${writeAddress({ client: name, q: String(text) })}">${text}</a>`;

/** Renders a button for a row: a form that calls a control. */
const rowButton = ({ name }: ClientStore, control: string, label: string, id: Html): Html =>
  controlForm(control, [hidden('client', name), id, html`<button class="small">${label}</button>`]);

const orderHeadings = ['number', 'id', 'ordered on', 'items', 'fulfilled', 'state', 'action'];

/** Makes the row of an order, with a button to ship it. */
function toOrderRow(store: ClientStore, order: Order): Row {
  const { id, externalOrderNumber, orderedOn } = order;
  const number = search(store, externalOrderNumber);
  const sums = [countPieces(order, 'quantity'), countPieces(order, 'fulfilled')];
  return {
    id: `order-${id}`,
    cells: [number, id, orderedOn, ...sums, renderOrderState(store, order), renderShipButton(store, order)],
  };
}

const countPieces = ({ items }: Order, key: 'quantity' | 'fulfilled'): number =>
  items.reduce((sum, item) => sum + item[key], 0);

/** Returns whether goods of an order have not left the warehouse. */
function isOpen(store: ClientStore, order: Order): boolean {
  const isFulfilled = countPieces(order, 'fulfilled') >= countPieces(order, 'quantity');
  return !isFulfilled || store.listShipments(order).some(({ status }) => status !== 'SHIPPED');
}

/** Renders the state of an order as a word. */
export function renderOrderState(store: ClientStore, order: Order): Html {
  if (order.notValid) return badge('bad', 'Not Valid: no house number');
  if (order.onHold) return badge('warn', 'on hold');
  return isOpen(store, order) ? badge('note', 'open') : badge('good', 'shipped');
}

/** Renders the button that ships an order, if something is left to ship. */
export function renderShipButton(store: ClientStore, order: Order): Child {
  const number = hidden('externalOrderNumber', order.externalOrderNumber);
  return isOpen(store, order) ? rowButton(store, 'ship', 'Ship', number) : '';
}

export const shipmentHeadings = [
  'id',
  'order',
  'state',
  'warehouse',
  'goods',
  'ready to pick (UTC)',
  'shipped (UTC)',
  'action',
];
const tones: Readonly<Record<Shipment['status'], Tone>> = {
  READY_TO_PICK: 'note',
  READY_TO_SORT: 'note',
  READY_TO_SHIP: 'note',
  SHIPPED: 'good',
  ERROR: 'bad',
};

/** Makes the row of a shipment, with a button to announce its return. */
export function toShipmentRow(store: ClientStore, shipment: Shipment): Row {
  const order = store.orders.get(shipment.orderId);
  const announce = rowButton(store, 'return', 'Announce return', hidden('shipmentId', shipment.id));
  return {
    id: `shipment-${shipment.id}`,
    cells: [
      search(store, shipment.id),
      order === undefined ? shipment.orderId : search(store, order.externalOrderNumber),
      badge(tones[shipment.status], shipment.status),
      shipment.warehouseCode,
      listGoods(shipment.items),
      moment(shipment.readyToPickOnMs),
      moment(shipment.shippedOnMs),
      shipment.status === 'SHIPPED' ? announce : '',
    ],
  };
}

export const authorizationHeadings = ['id', 'reference', 'shipment', 'goods', 'announced on', 'state', 'action'];

/** Makes the row of an announced return, with a button to process it. */
export function toAuthorizationRow(store: ClientStore, authorization: Authorization): Row {
  const { id, externalReference, shipmentId, items, createdOn } = authorization;
  const isProcessed = items.some(({ returnItemId }) => returnItemId !== null);
  const process = rowButton(store, 'return/process', 'Process', hidden('authorizationId', id));
  return {
    id: `announced-${id}`,
    cells: [
      search(store, id),
      externalReference ?? '–',
      search(store, shipmentId),
      listGoods(items),
      createdOn,
      badge(isProcessed ? 'good' : 'note', isProcessed ? 'processed' : 'announced'),
      isProcessed ? '' : process,
    ],
  };
}

/** Writes quantities and skus, as in `2 x MUG-BLUE`. */
export const listGoods = (items: readonly { readonly quantity: number; readonly sku: string }[]): string =>
  items.map(({ quantity, sku }) => `${quantity} x ${sku}`).join(', ');
