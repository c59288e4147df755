import type { ClientStore } from '../store/client-store.ts';
import type { Inbound, Order, Product, Slip } from '../store/model.ts';

/** What a search has found. Shipments and returns are shown with their order. */
export interface SearchResult {
  readonly orders: readonly Order[];
  readonly products: readonly Product[];
  readonly slips: readonly Slip[];
  /** Inbounds of other slips, or without a slip. */
  readonly inbounds: readonly Inbound[];
}

/** Results of each kind. */
const maxResults = 10;
/** Rows that are looked at if no index helps. */
const maxScanned = 5_000;

/**
 * Finds what has a number, an id, a sku or a reference. If nothing has exactly this text, finds what contains it.
 * Looks only at the latest rows, except for numbers and ids.
 */
export function findByText(store: ClientStore, text: string): SearchResult {
  const found = findExactly(store, text);
  const isEmpty = Object.values(found).every((rows) => rows.length === 0);
  return isEmpty ? findSimilar(store, text.toLowerCase()) : found;
}

function findExactly(store: ClientStore, text: string): SearchResult {
  const id = /^\d{1,15}$/.test(text) ? Number(text) : null;
  const slips = [
    ...(id === null ? [] : [store.slips.get(id)]),
    ...store.slips
      .latest(maxScanned)
      .filter((slip) => slip.reference === text || (slip.inboundId === id && id !== null)),
  ];
  const inbounds = [
    ...(id === null ? [] : [store.inbounds.get(id)]),
    ...store.inbounds.latest(maxScanned).filter(({ reference }) => reference === text),
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
    store.returnItems.get(id) ?? store.returnItems.latest(maxScanned).find(({ returnId }) => returnId === id);
  const orderIds = [id, store.shipments.get(shipmentId)?.orderId, returned?.orderId];
  return [...orderIds.map((orderId) => store.orders.get(orderId ?? -1)), store.findOrderOfItem(id)];
}

function findOrdersByReference(store: ClientStore, text: string): (Order | undefined)[] {
  const announced = store.authorizations
    .latest(maxScanned)
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
      .latest(maxScanned)
      .filter(({ externalOrderNumber, reference }) => has(externalOrderNumber) || has(reference)),
    products: [...store.products.values()].filter(({ sku, name }) => has(sku) || has(name)),
    slips: store.slips.latest(maxScanned).filter(({ reference }) => has(reference)),
    inbounds: store.inbounds.latest(maxScanned).filter(({ reference }) => has(reference)),
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
