import { type Child, type Html, html } from '../../core/html.ts';
import type { ClientStore } from '../store/client-store.ts';
import type { Authorization, Inbound, Order, Product, Shipment, Slip } from '../store/model.ts';
import {
  badge,
  controlForm,
  facts,
  hidden,
  moment,
  type NamedRow,
  type Row,
  section,
  type Tone,
  table,
  type View,
  writeAddress,
} from './elements.ts';

const shownRows = 25;

/** Renders the newest rows of a client. */
export function renderData(store: ClientStore): Html {
  const orders = store.orders.latest(shownRows).map((order) => toOrderRow(store, order));
  const shipments = store.shipments.latest(shownRows).map((shipment) => toShipmentRow(store, shipment));
  const announced = store.authorizations.latest(shownRows).map((row) => toAuthorizationRow(store, row));
  const returns = store.returnItems
    .latest(shownRows)
    .map(({ id, sku, quantity, orderId, processedOn, restockIn }) => [
      ...[id, search(store, sku), quantity, search(store, orderId)],
      ...[processedOn ?? 'not yet', restockIn ?? '–'],
    ]);
  const slips = store.slips
    .latest(shownRows)
    .map((row) => [
      search(store, row.id),
      row.reference === null ? '–' : search(store, row.reference),
      row.expectedIn,
      row.expectedOn,
      badge('note', row.status),
      row.inboundId === null ? '–' : search(store, row.inboundId),
    ]);
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
const search = ({ name }: ClientStore, text: string | number): Html =>
  html`<a href="${writeAddress({ client: name, q: String(text) })}">${text}</a>`;

const rowButton = ({ name }: ClientStore, control: string, label: string, id: Html): Html =>
  controlForm(control, [hidden('client', name), id, html`<button class="small">${label}</button>`]);

const orderHeadings = ['number', 'id', 'ordered on', 'items', 'fulfilled', 'state', 'action'];

function toOrderRow(store: ClientStore, order: Order): NamedRow {
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

function renderOrderState(store: ClientStore, order: Order): Html {
  if (order.notValid) return badge('bad', 'Not Valid: no house number');
  if (order.onHold) return badge('warn', 'on hold');
  return isOpen(store, order) ? badge('note', 'open') : badge('good', 'shipped');
}

function renderShipButton(store: ClientStore, order: Order): Child {
  const number = hidden('externalOrderNumber', order.externalOrderNumber);
  return isOpen(store, order) ? rowButton(store, 'ship', 'Ship', number) : '';
}

const shipmentHeadings = [
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

function toShipmentRow(store: ClientStore, shipment: Shipment): NamedRow {
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

const authorizationHeadings = ['id', 'reference', 'shipment', 'goods', 'announced on', 'state', 'action'];

function toAuthorizationRow(store: ClientStore, authorization: Authorization): NamedRow {
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
const listGoods = (items: readonly { readonly quantity: number; readonly sku: string }[]): string =>
  items.map(({ quantity, sku }) => `${quantity} x ${sku}`).join(', ');

const shownOrders = 10;
/** Rows that are looked at if no index helps. */
const scannedRows = 5_000;

/** Renders what a search has found, each with what belongs to it. Renders nothing if nothing is searched for. */
export function renderResults(store: ClientStore, { q, client }: View): Child {
  if (q === '') return '';
  const { orders, products, slips, inbounds } = findByText(store, q);
  const cards = [
    ...orders.map((order) => renderOrder(store, order)),
    ...products.map((product) => renderProduct(store, product)),
    ...slips.map((slip) => renderSlip(store, slip)),
    ...inbounds.map((inbound) => renderInbound(store, inbound)),
  ];
  const title =
    cards.length === 0
      ? html`Client ${client} has nothing like <b>${q}</b>`
      : html`Found ${cards.length} for <b>${q}</b>`;
  return html`<h2>${title}</h2>
<p><a href="${writeAddress({ client, q, text: q })}#requests">Requests with this text</a> ·
<a href="${writeAddress({ client })}">Clear</a></p>
${cards}`;
}

const card = (title: Child, content: Child): Html => html`<article class="card"><h3>${title}</h3>${content}</article>`;

/** Renders a table under its title, or nothing if it has no rows. */
const renderRows = (title: string, headings: readonly string[], rows: readonly Row[]): Child =>
  rows.length === 0 ? '' : html`<h4>${title}</h4>${table(title, headings, rows)}`;

/** Gives rows other ids than the same rows have in the lists of the page. */
const rename = (rows: readonly NamedRow[]): NamedRow[] => rows.map(({ id, cells }) => ({ id: `found-${id}`, cells }));

function renderOrder(store: ClientStore, order: Order): Html {
  const { externalOrderNumber, id, orderedOn, reference, items } = order;
  const shipments = store.listShipments(order);
  const announced = shipments.flatMap((shipment) => [...store.listedAuthorizations.findRows('shipment', shipment.id)]);
  const returned = store.returnItems.latest(scannedRows).filter(({ orderId }) => orderId === id);
  const packages = shipments.flatMap((shipment) =>
    shipment.tracks.map(({ packageNumber, status, statusOnMs }) => [
      shipment.id,
      packageNumber ?? '–',
      status,
      moment(statusOnMs),
    ]),
  );
  return card(html`Order ${externalOrderNumber}`, [
    facts([
      ['id', id],
      ['ordered on', orderedOn],
      ['reference', reference ?? '–'],
      ['state', renderOrderState(store, order)],
      ['to', [order.deliveryAddress.city, order.deliveryAddress.countryCode].filter(Boolean).join(', ')],
    ]),
    renderShipButton(store, order),
    renderRows(
      'Items',
      ['sku', 'ordered', 'cancelled', 'fulfilled'],
      items.map(({ sku, ordered, quantity, fulfilled }) => [
        search(store, sku),
        ordered,
        ordered - quantity,
        fulfilled,
      ]),
    ),
    renderRows('Shipments', shipmentHeadings, rename(shipments.map((shipment) => toShipmentRow(store, shipment)))),
    renderRows('Packages', ['shipment', 'package', 'code', 'reported (UTC)'], packages),
    renderRows(
      'Announced returns',
      authorizationHeadings,
      rename(announced.map((row) => toAuthorizationRow(store, row))),
    ),
    renderRows(
      'Returned items',
      ['id', 'sku', 'quantity', 'processed on', 'restocked in', 'comment'],
      returned.map((row) => [
        row.id,
        row.sku,
        row.quantity,
        row.processedOn ?? 'not yet',
        row.restockIn ?? '–',
        row.comment ?? '–',
      ]),
    ),
  ]);
}

function renderProduct(store: ClientStore, { sku, name, stock, service, barcode }: Product): Html {
  const hasIt = ({ items }: { readonly items: readonly { readonly sku: string }[] }) =>
    items.some((item) => item.sku === sku);
  const orders = store.orders.latest(scannedRows).filter(hasIt).slice(0, shownOrders);
  const slips = store.slips.latest(scannedRows).filter(hasIt).slice(0, shownOrders);
  return card(html`Product ${sku}`, [
    facts([
      ['name', name],
      ['barcode', barcode ?? '–'],
      ...(service
        ? [['stock', 'service product'] as const]
        : Object.entries(stock).map(([code, pieces]) => [`stock ${code}`, pieces] as const)),
    ]),
    renderRows(
      'Latest orders',
      ['number', 'ordered on', 'goods'],
      orders.map((order) => [search(store, order.externalOrderNumber), order.orderedOn, listGoods(order.items)]),
    ),
    renderRows(
      'Latest inbound packing slips',
      ['id', 'reference', 'state', 'goods'],
      slips.map((slip) => [search(store, slip.id), slip.reference ?? '–', slip.status, listGoods(slip.items)]),
    ),
  ]);
}

function renderSlip(store: ClientStore, slip: Slip): Html {
  const inbounds = store.inbounds.latest(scannedRows).filter(({ slipId }) => slipId === slip.id);
  return card(html`Inbound packing slip ${slip.reference ?? slip.id}`, [
    facts([
      ['id', slip.id],
      ['state', slip.status],
      ['to', slip.expectedIn],
      ['expected on', slip.expectedOn],
      ['received (UTC)', moment(slip.receivedOnMs)],
      ['completed (UTC)', moment(slip.completedOnMs)],
    ]),
    renderRows(
      'Items',
      ['sku', 'announced', 'received'],
      slip.items.map(({ sku, quantity, received }) => [search(store, sku), quantity, received]),
    ),
    inbounds.map((inbound) => renderInbound(store, inbound)),
  ]);
}

function renderInbound(store: ClientStore, inbound: Inbound): Html {
  const { id, reference, status, receivedIn, createdOnMs, completedOnMs, items } = inbound;
  return card(html`Inbound ${id}`, [
    facts([
      ['reference', reference ?? '–'],
      ['state', status],
      ['received in', receivedIn],
      ['created (UTC)', moment(createdOnMs)],
      ['completed (UTC)', moment(completedOnMs)],
    ]),
    renderRows(
      'Counted items',
      ['sku', 'quantity', 'lot'],
      items.map(({ sku, quantity, lotNumber }) => [search(store, sku), quantity, lotNumber ?? '–']),
    ),
  ]);
}

/** What a search has found. Shipments and returns are shown with their order. */
interface SearchResult {
  readonly orders: readonly Order[];
  readonly products: readonly Product[];
  readonly slips: readonly Slip[];
  /** Inbounds of other slips, or without a slip. */
  readonly inbounds: readonly Inbound[];
}

const maxResults = 10;

/** Finds what has a number, an id, a sku or a reference. If nothing has exactly this text, finds what contains it. */
function findByText(store: ClientStore, text: string): SearchResult {
  const found = findExactly(store, text);
  const isEmpty = Object.values(found).every((rows) => rows.length === 0);
  return isEmpty ? findSimilar(store, text.toLowerCase()) : found;
}

function findExactly(store: ClientStore, text: string): SearchResult {
  const id = /^\d{1,15}$/.test(text) ? Number(text) : null;
  const slips = [
    ...(id === null ? [] : [store.slips.get(id)]),
    ...store.slips
      .latest(scannedRows)
      .filter((slip) => slip.reference === text || (slip.inboundId === id && id !== null)),
  ];
  const inbounds = [
    ...(id === null ? [] : [store.inbounds.get(id)]),
    ...store.inbounds.latest(scannedRows).filter(({ reference }) => reference === text),
  ];
  return limit({
    orders: [
      store.orderByNumber.get(text),
      ...(id === null ? [] : findOrdersById(store, id)),
      ...findOrdersByReference(store, text),
    ],
    products: [store.products.get(text), store.productByBarcode.get(text)],
    slips,
    inbounds,
  });
}

function findOrdersById(store: ClientStore, id: number): (Order | undefined)[] {
  const shipmentId = store.shipments.get(id)?.id ?? store.authorizations.get(id)?.shipmentId ?? -1;
  const returned =
    store.returnItems.get(id) ?? store.returnItems.latest(scannedRows).find(({ returnId }) => returnId === id);
  const orderIds = [id, store.shipments.get(shipmentId)?.orderId, returned?.orderId];
  return [...orderIds.map((orderId) => store.orders.get(orderId ?? -1)), store.findOrderOfItem(id)];
}

function findOrdersByReference(store: ClientStore, text: string): (Order | undefined)[] {
  const announced = store.authorizations
    .latest(scannedRows)
    .filter(({ externalReference }) => externalReference === text);
  return [
    ...store.listedOrders.findRows('reference', text).latest(maxResults),
    ...announced.map(({ shipmentId }) => store.orders.get(store.shipments.get(shipmentId)?.orderId ?? -1)),
  ];
}

function findSimilar(store: ClientStore, text: string): SearchResult {
  const has = (value: string | null) => value?.toLowerCase().includes(text) ?? false;
  return limit({
    orders: store.orders
      .latest(scannedRows)
      .filter(({ externalOrderNumber, reference }) => has(externalOrderNumber) || has(reference)),
    products: [...store.products.values()].filter(({ sku, name }) => has(sku) || has(name)),
    slips: store.slips.latest(scannedRows).filter(({ reference }) => has(reference)),
    inbounds: store.inbounds.latest(scannedRows).filter(({ reference }) => has(reference)),
  });
}

/** Removes what is absent or given twice, and what exceeds the number of results. */
function limit(
  found: { readonly [Kind in keyof SearchResult]: readonly (SearchResult[Kind][number] | undefined)[] },
): SearchResult {
  const keep = <T>(rows: readonly (T | undefined)[]): T[] =>
    [...new Set(rows)].filter((row) => row !== undefined).slice(0, maxResults);
  const slips = keep(found.slips);
  const others = keep(found.inbounds).filter(({ slipId }) => !slips.some(({ id }) => id === slipId));
  return { orders: keep(found.orders), products: keep(found.products), slips, inbounds: others };
}
