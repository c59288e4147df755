import { badge, type Child, type Html, html, type Tone } from '../../core/html.ts';
import { isFulfilled } from '../rules/orders.ts';
import type { ClientStore } from '../store/client-store.ts';
import type { SortedRows, StoredRow } from '../store/listing.ts';
import type { Order } from '../store/model.ts';
import {
  controlForm,
  hidden,
  section,
  table,
  type View,
  writeAddress,
  writeMoment,
} from './elements.ts';

const shownRows = 15;
/** Number of the newest rows of each list that a search looks at. */
const searchedRows = 5_000;

type Text = string | number | null;

/** A list of the page: how it shows a row. */
interface RowList<Row> {
  readonly title: string;
  readonly rows: (store: ClientStore) => SortedRows<Row & StoredRow>;
  readonly headings: readonly string[];
  /**
   * The texts of a row, as many as `headings`. A search compares these. The first one is a link to
   * a search for it.
   */
  readonly read: (row: Row, store: ClientStore) => readonly Text[];
  readonly state?: (row: Row, store: ClientStore) => readonly [Tone, string];
  /**
   * The button of a row: the control, its label, and the member of the control that names the row.
   */
  readonly button?: (row: Row, store: ClientStore) => readonly [string, string, Html] | null;
}

/** Returns a list for rows of any type. */
const list = <Row>(definition: RowList<Row>) => definition as RowList<unknown>;

/** Writes quantities and skus, as in `2 x MUG-BLUE`. */
const writeGoods = (
  items: readonly { readonly quantity: number; readonly sku: string }[],
): string => items.map(({ quantity, sku }) => `${quantity} x ${sku}`).join(', ');

const writeMomentOrNothing = (ms: number | null) => (ms === null ? null : writeMoment(ms));

const findNumber = ({ orders }: ClientStore, orderId: number) =>
  orders.get(orderId)?.externalOrderNumber ?? null;

/** Returns whether goods of an order have not left the warehouse. */
const isOpen = (order: Order, store: ClientStore): boolean =>
  !isFulfilled(order) || store.listShipments(order).some(({ status }) => status !== 'SHIPPED');

const lists: readonly RowList<unknown>[] = [
  list<Order>({
    title: 'Orders',
    rows: ({ orders }) => orders,
    headings: ['number', 'id', 'reference', 'ordered on', 'items', 'fulfilled', 'to'],
    read: ({
      externalOrderNumber,
      id,
      reference,
      orderedOn,
      items,
      deliveryAddress: { city, countryCode },
    }) => [
      ...[externalOrderNumber, id, reference, orderedOn, writeGoods(items)],
      items.reduce((sum, { fulfilled }) => sum + fulfilled, 0),
      [city, countryCode].filter(Boolean).join(', '),
    ],
    state: (order, store) => {
      if (order.notValid) return ['bad', 'Not Valid: no house number'];
      if (order.onHold) return ['warn', 'on hold'];
      return isOpen(order, store) ? ['note', 'open'] : ['good', 'shipped'];
    },
    button: (order, store) =>
      isOpen(order, store)
        ? ['ship', 'Ship', hidden('externalOrderNumber', order.externalOrderNumber)]
        : null,
  }),
  list({
    title: 'Shipments',
    rows: ({ shipments }) => shipments,
    headings: [
      'order',
      'id',
      'warehouse',
      'goods',
      'ready to pick (UTC)',
      'shipped (UTC)',
      'packages',
    ],
    read: ({ id, orderId, warehouseCode, items, readyToPickOnMs, shippedOnMs, tracks }, store) => [
      ...[findNumber(store, orderId), id, warehouseCode, writeGoods(items)],
      ...[writeMoment(readyToPickOnMs), writeMomentOrNothing(shippedOnMs)],
      tracks
        .map(({ packageNumber, status }) => `${packageNumber ?? 'no number'}: ${status}`)
        .join(', '),
    ],
    state: ({ status }) => [
      status === 'SHIPPED' ? 'good' : status === 'ERROR' ? 'bad' : 'note',
      status,
    ],
    button: ({ id, status }) =>
      status === 'SHIPPED' ? ['return', 'Announce return', hidden('shipmentId', id)] : null,
  }),
  list({
    title: 'Announced returns',
    rows: ({ authorizations }) => authorizations,
    headings: ['order', 'id', 'reference', 'shipment', 'goods', 'announced on'],
    read: ({ id, externalReference, shipmentId, items, createdOn }, store) => [
      ...[
        findNumber(store, store.shipments.get(shipmentId)?.orderId ?? 0),
        id,
        externalReference,
        shipmentId,
      ],
      ...[writeGoods(items), createdOn],
    ],
    state: ({ items }) =>
      items.some(({ returnItemId }) => returnItemId !== null)
        ? ['good', 'processed']
        : ['note', 'announced'],
    button: ({ id, items }) =>
      items.every(({ returnItemId }) => returnItemId === null)
        ? ['return/process', 'Process', hidden('authorizationId', id)]
        : null,
  }),
  list({
    title: 'Returns',
    rows: ({ returnItems }) => returnItems,
    headings: ['order', 'id', 'sku', 'quantity', 'processed on', 'restocked in', 'comment'],
    read: ({ id, orderId, sku, quantity, processedOn, restockIn, comment }, store) => [
      ...[
        findNumber(store, orderId),
        id,
        sku,
        quantity,
        processedOn ?? 'not yet',
        restockIn,
        comment,
      ],
    ],
  }),
  list({
    title: 'Inbound packing slips',
    rows: ({ slips }) => slips,
    headings: ['id', 'reference', 'to', 'expected on', 'announced', 'received', 'inbound'],
    read: ({ id, reference, expectedIn, expectedOn, items, inboundId }) => [
      ...[id, reference, expectedIn, expectedOn, writeGoods(items)],
      ...[items.reduce((sum, { received }) => sum + received, 0), inboundId],
    ],
    state: ({ status }) => ['note', status],
  }),
  list({
    title: 'Inbounds',
    rows: ({ inbounds }) => inbounds,
    headings: ['id', 'reference', 'slip', 'in', 'counted', 'created (UTC)', 'completed (UTC)'],
    read: ({ id, reference, slipId, receivedIn, items, createdOnMs, completedOnMs }) => [
      ...[id, reference, slipId, receivedIn, writeGoods(items)],
      ...[writeMoment(createdOnMs), writeMomentOrNothing(completedOnMs)],
    ],
    state: ({ status }) => ['note', status],
  }),
  list({
    title: 'Products',
    rows: ({ listedProducts }) => listedProducts,
    headings: ['sku', 'id', 'name', 'barcode', 'stock'],
    read: ({ sku, id, name, barcode, service, stock }) => [
      ...[sku, id, name, barcode],
      service
        ? 'service product'
        : writeGoods(Object.entries(stock).map(([code, quantity]) => ({ sku: code, quantity }))),
    ],
  }),
];

/** Renders the newest rows of a client; with a search, those that show its text. */
export function renderData(store: ClientStore, { q }: View): Html {
  const shown = lists.map((rows) => renderList(store, rows, q));
  if (q === '' || shown.some((part) => part !== '')) return html`${shown}`;
  return html`<p>Client ${store.name} has nothing with <b>${q}</b>.</p>`;
}

function renderList(
  store: ClientStore,
  { title, rows, headings, read, state, button }: RowList<unknown>,
  q: string,
): Child {
  const all = rows(store);
  const wanted = q.toLowerCase();
  const shows = (row: StoredRow) =>
    read(row, store).some((text) =>
      String(text ?? '')
        .toLowerCase()
        .includes(wanted),
    );
  const found =
    q === '' ? all.latest(shownRows) : all.latest(searchedRows).filter(shows).slice(0, shownRows);
  if (q !== '' && found.length === 0) return '';
  const cells = found.map((row) => {
    const [first = null, ...texts] = read(row, store);
    return [
      renderSearchLink(store, first),
      ...texts.map(renderText),
      ...(state ? [badge(...state(row, store))] : []),
      ...(button ? [renderButton(store, button(row, store))] : []),
    ];
  });
  const columns = [...headings, ...(state ? ['state'] : []), ...(button ? ['action'] : [])];
  const id = title.toLowerCase().replaceAll(' ', '-');
  const isShown = q !== '' || title === 'Orders' || title === 'Shipments';
  return section(
    id,
    `${title} (${q === '' ? all.size : found.length})`,
    isShown,
    table(title, columns, cells),
  );
}

const renderSearchLink = ({ name }: ClientStore, text: Text): Child =>
  text === null
    ? '–'
    : html`<a href="${writeAddress({ client: name, q: String(text) })}">${text}</a>`;

/** Renders a text. A date or a time is an element of its own: it is not broken over two lines. */
const renderText = (text: Text): Child =>
  typeof text === 'string' && /^\d{4}-\d\d-\d\d[\d: ]*$/.test(text)
    ? html`<time>${text}</time>`
    : (text ?? '–');

function renderButton(
  { name }: ClientStore,
  button: readonly [string, string, Html] | null,
): Child {
  if (button === null) return '';
  const [control, label, member] = button;
  return controlForm(control, [
    hidden('client', name),
    member,
    html`<button class="small">${label}</button>`,
  ]);
}
