import { type Child, type Html, html } from '../../core/html.ts';
import type { ClientStore } from '../store/client-store.ts';
import type { Inbound, Order, Product, Slip } from '../store/model.ts';
import {
  authorizationHeadings,
  listGoods,
  renderOrderState,
  renderShipButton,
  search,
  shipmentHeadings,
  toAuthorizationRow,
  toShipmentRow,
} from './data.ts';
import { facts, moment, type Row, table } from './elements.ts';
import { type View, writeAddress } from './view.ts';

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
const rename = (rows: readonly Row[]): Row[] => rows.map(({ id, cells }) => ({ id: `found-${id}`, cells }));

function renderOrder(store: ClientStore, order: Order): Html {
  const { externalOrderNumber, id, orderedOn, reference, items } = order;
  const shipments = store.listShipments(order);
  const announced = shipments.flatMap((shipment) => [...store.listedAuthorizations.findRows('shipment', shipment.id)]);
  const returned = store.returnItems.latest(scannedRows).filter(({ orderId }) => orderId === id);
  const packages = shipments.flatMap((shipment) =>
    shipment.tracks.map(({ packageNumber, status, statusOnMs }) => ({
      cells: [shipment.id, packageNumber ?? '–', status, moment(statusOnMs)],
    })),
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
      items.map(({ sku, ordered, quantity, fulfilled }) => ({
        cells: [search(store, sku), ordered, ordered - quantity, fulfilled],
      })),
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
      returned.map((row) => ({
        cells: [row.id, row.sku, row.quantity, row.processedOn ?? 'not yet', row.restockIn ?? '–', row.comment ?? '–'],
      })),
    ),
  ]);
}

function renderProduct(store: ClientStore, { sku, name, stock, service, barcode }: Product): Html {
  const orders = store.orders
    .latest(scannedRows)
    .filter(({ items }) => items.some((item) => item.sku === sku))
    .slice(0, shownOrders);
  const slips = store.slips
    .latest(scannedRows)
    .filter(({ items }) => items.some((item) => item.sku === sku))
    .slice(0, shownOrders);
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
      orders.map((order) => ({
        cells: [search(store, order.externalOrderNumber), order.orderedOn, listGoods(order.items)],
      })),
    ),
    renderRows(
      'Latest inbound packing slips',
      ['id', 'reference', 'state', 'goods'],
      slips.map((slip) => ({
        cells: [search(store, slip.id), slip.reference ?? '–', slip.status, listGoods(slip.items)],
      })),
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
      slip.items.map(({ sku, quantity, received }) => ({ cells: [search(store, sku), quantity, received] })),
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
      items.map(({ sku, quantity, lotNumber }) => ({ cells: [search(store, sku), quantity, lotNumber ?? '–'] })),
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

/** Results of each kind. */
const maxResults = 10;

/**
 * Finds what has a number, an id, a sku or a reference. If nothing has exactly this text, finds what contains it.
 * Looks only at the latest rows, except for numbers and ids.
 */
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

/** Finds the orders that have an id, or a part that has it. */
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
