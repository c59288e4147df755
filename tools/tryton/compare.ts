/** Compares what Tryton has booked with what the sandbox has done. */

import type { SandboxControl } from '../../test/helpers/sandbox-control.ts';

type Named = Readonly<Record<string, unknown>>;

interface Entry {
  readonly resource: {
    readonly id: number;
    readonly attributes: Named;
    readonly relationships?: { readonly order?: { readonly data?: { readonly id: string } } };
  };
  readonly visible?: boolean;
  readonly included?: readonly { readonly type: string; readonly attributes: Named }[];
  readonly items?: readonly { readonly attributes: Named }[];
  readonly tracks?: readonly { readonly packageNumber: string | null }[];
}

interface SandboxState {
  readonly products: readonly { readonly sku: string; readonly stock: Record<string, number> }[];
  readonly orders: readonly Entry[];
  readonly shipments: readonly Entry[];
  readonly returnItems: readonly Entry[];
  readonly inbounds: readonly Entry[];
  readonly inboundPackingSlips: readonly Entry[];
}

interface Move {
  readonly quantity: number;
  readonly state: string;
  readonly shipment: string | null;
  readonly origin: string | null;
  readonly 'product.': { readonly code: string };
  readonly 'lot.': { readonly number: string } | null;
  readonly 'from_location.': { readonly type: string };
  readonly 'to_location.': { readonly type: string };
}

interface Document {
  readonly id: number;
  readonly state: string;
  readonly fulfilment_id: number | null;
  readonly tracking_numbers?: string | null;
}

/** What shop.py reports. */
export interface ErpState {
  readonly sales: readonly {
    readonly number: string | null;
    readonly origin: string | null;
    readonly state: string;
    readonly shipment_state: string;
    readonly fulfilment_error: string | null;
  }[];
  readonly moves: readonly Move[];
  readonly shipments: readonly Document[];
  readonly returns: readonly Document[];
  readonly receipts: readonly Document[];
  readonly purchases: readonly { readonly number: string; readonly shipment_state: string }[];
  readonly stock: readonly {
    readonly stock: number;
    readonly quantity: number;
    readonly 'product.': { readonly code: string };
  }[];
  readonly requests: readonly {
    readonly kind: string;
    readonly reference: string;
    readonly status: string;
    readonly error: string | null;
  }[];
  readonly failed: readonly Named[];
}

interface Comparison {
  readonly counts: Readonly<Record<string, number>>;
  readonly differences: readonly string[];
}

/** Reads the state of the sandbox, and compares it with that of Tryton. */
export async function compare(erp: ErpState, sandbox: SandboxControl): Promise<Comparison> {
  const lists = 'products,orders,shipments,returnItems,inbounds,inboundPackingSlips';
  const { clients } = await sandbox.call<{ clients: SandboxState[] }>(
    'GET',
    `/_sandbox/state?lists=${lists}`,
  );
  const [service] = clients as [SandboxState];
  const shipped = service.shipments.filter(({ resource }) => has(resource, 'status', 'SHIPPED'));
  const processed = service.returnItems.filter(({ visible }) => visible);
  const received = service.inbounds.filter(({ resource }) => has(resource, 'status', 'COMPLETED'));

  const differences = [
    ...compareOrders(erp, service),
    ...compareDocuments('shipment', erp.shipments, shipped, movesOf(erp, 'stock.shipment.out')),
    ...compareDocuments('receipt', erp.receipts, received, arrivalsOf(erp)),
    ...compareReturns(erp, processed),
    ...compareTracking(erp, shipped),
    ...compareStock(erp, service),
    ...findUnfinished(erp),
  ];
  const counts = count(erp, service);
  const untested = Object.entries(counts).filter(([, number]) => number === 0);
  return { counts, differences: [...differences, ...untested.map(([name]) => `no ${name}`)] };
}

const has = ({ attributes }: Entry['resource'], name: string, value: unknown) =>
  attributes[name] === value;

/** Every sale has one order at the service, and none if its request was withdrawn. */
function compareOrders(erp: ErpState, { orders }: SandboxState): string[] {
  const numbers = orders.map(({ resource }) => resource.attributes.externalOrderNumber);
  const withdrawn = listWithdrawn(erp);
  return erp.sales
    .filter(({ origin }) => origin === null)
    .flatMap(({ number }) => {
      const found = numbers.filter((other) => other === number).length;
      const wanted = withdrawn.includes(number) ? 0 : 1;
      return found === wanted ? [] : [`sale ${number} has ${found} orders, not ${wanted}`];
    });
}

/** Returns the numbers of sales that were refused, and are not wanted any more. */
const listWithdrawn = ({ requests }: ErpState): readonly (string | null)[] =>
  requests.filter(({ status }) => status === 'cancelled').map(({ reference }) => reference);

/** Pieces by article and lot, as one text. */
const describeGoods = (
  parts: readonly { sku: unknown; lot: unknown; pieces: number }[],
): string => {
  const sums = new Map<string, number>();
  for (const { sku, lot, pieces } of parts) {
    const name = `${sku}${lot ? ` (${lot})` : ''}`;
    sums.set(name, (sums.get(name) ?? 0) + pieces);
  }
  return [...sums]
    .map(([name, pieces]) => `${pieces} x ${name}`)
    .sort()
    .join(', ');
};

const toPart = (move: Move) => ({
  sku: move['product.'].code,
  lot: move['lot.']?.number,
  pieces: move.quantity,
});

/** Done moves by the id of their document. */
function groupMoves(moves: readonly Move[], model: string): ReadonlyMap<number, string> {
  const done = moves.filter(({ state, shipment }) => state === 'done' && shipment !== null);
  const own = done.filter(({ shipment }) => shipment?.startsWith(`${model},`));
  const grouped = Map.groupBy(own, ({ shipment }) => Number(shipment?.split(',')[1]));
  return new Map([...grouped].map(([id, group]) => [id, describeGoods(group.map(toPart))]));
}

const movesOf = (erp: ErpState, model: string) => groupMoves(erp.moves, model);

/** What suppliers delivered: a receipt also has moves from the arrivals to the storage. */
const arrivalsOf = (erp: ErpState) =>
  groupMoves(
    erp.moves.filter((move) => move['from_location.'].type === 'supplier'),
    'stock.shipment.in',
  );

function compareDocuments(
  what: string,
  documents: readonly Document[],
  entries: readonly Entry[],
  goods: ReadonlyMap<number, string>,
): string[] {
  const booked = Map.groupBy(
    documents.filter(({ fulfilment_id }) => fulfilment_id !== null),
    ({ fulfilment_id }) => fulfilment_id,
  );
  const wrong = entries.flatMap(({ resource: { id }, items = [] }) => {
    const found = booked.get(id) ?? [];
    booked.delete(id);
    if (found.length !== 1) return [`${what} ${id} is booked ${found.length} times`];

    const wanted = describeGoods(
      items.map(({ attributes }) => ({
        sku: attributes.sku,
        lot: attributes.lotNumber,
        pieces: Number(attributes.quantity),
      })),
    );
    const has = goods.get(found[0]?.id ?? 0) ?? '';
    return has === wanted ? [] : [`${what} ${id} has ${has} instead of ${wanted}`];
  });
  return [...wrong, ...[...booked.keys()].map((id) => `${what} ${id} is not at the service`)];
}

function compareReturns(erp: ErpState, entries: readonly Entry[]): string[] {
  const fromCustomers = groupMoves(
    erp.moves.filter((move) => move['from_location.'].type === 'customer'),
    'stock.shipment.out.return',
  );
  const withoutLots = new Map(
    [...fromCustomers].map(([id, text]) => [id, text.replace(/ \([^)]*\)/, '')]),
  );
  const asDocuments = entries.map(({ resource }) => ({
    resource,
    items: [{ attributes: { ...resource.attributes, lotNumber: null } }],
  }));
  const states = new Map(erp.returns.map(({ fulfilment_id, state }) => [fulfilment_id, state]));
  const wrongStates = entries.flatMap(({ resource: { id, attributes } }) => {
    const wanted = attributes.restockOn ? 'done' : 'received';
    return states.get(id) === wanted ? [] : [`return ${id} is ${states.get(id)}, not ${wanted}`];
  });
  return [...compareDocuments('return', erp.returns, asDocuments, withoutLots), ...wrongStates];
}

function compareTracking(erp: ErpState, shipped: readonly Entry[]): string[] {
  const booked = new Map(erp.shipments.map((document) => [document.fulfilment_id, document]));
  return shipped.flatMap(({ resource: { id }, tracks = [] }) => {
    const codes = booked.get(id)?.tracking_numbers ?? '';
    const missing = tracks.filter(
      ({ packageNumber }) => packageNumber && !codes.includes(packageNumber),
    );
    return missing.length === 0 ? [] : [`shipment ${id} lacks tracking numbers: it has ${codes}`];
  });
}

function compareStock({ stock }: ErpState, { products }: SandboxState): string[] {
  return stock.flatMap((row) => {
    const { code } = row['product.'];
    const there = products.find(({ sku }) => sku === code)?.stock.AMS;
    return row.quantity === there && row.stock === there
      ? []
      : [`of ${code} the warehouse has ${there}, the report ${row.stock}, Tryton ${row.quantity}`];
  });
}

/** A return that is not restocked keeps its move into the storage open. */
const isReturn = (shipment: string | null) =>
  shipment?.startsWith('stock.shipment.out.return,') === true;

/** Everything was shipped, received or given up, and nothing failed. */
function findUnfinished(erp: ErpState): string[] {
  const sales = erp.sales.filter(({ origin, shipment_state, fulfilment_error }) =>
    origin === null ? shipment_state !== 'sent' || fulfilment_error !== null : false,
  );
  const requests = erp.requests.filter(({ status }) => !['done', 'cancelled'].includes(status));
  const purchases = erp.purchases.filter(({ shipment_state }) => shipment_state !== 'received');
  return [
    ...sales.map(({ number, shipment_state }) => `sale ${number} is ${shipment_state}`),
    ...requests.map((one) => `${one.kind} ${one.reference} is ${one.status}: ${one.error}`),
    ...purchases.map(({ number, shipment_state }) => `purchase ${number} is ${shipment_state}`),
    ...erp.failed.map((one) => `${one.entity} ${one.key} is not booked: ${one.error}`),
    ...erp.moves
      .filter(({ state, shipment }) => state === 'draft' && !isReturn(shipment))
      .map((move) => `${move.quantity} x ${move['product.'].code} is open (${move.shipment})`),
  ];
}

/** Counts the orders that have more than one shipment. */
function countParts({ shipments }: SandboxState): number {
  const orders = shipments.map(({ resource }) => resource.relationships?.order?.data?.id);
  return [...Map.groupBy(orders, (id) => id).values()].filter(({ length }) => length > 1).length;
}

function count(erp: ErpState, service: SandboxState): Comparison['counts'] {
  const done = (documents: readonly Document[]) =>
    documents.filter(({ fulfilment_id }) => fulfilment_id !== null).length;
  const own = erp.sales.filter(({ origin }) => origin === null);
  const cancelled = erp.moves.filter(({ state }) => state === 'cancelled');
  const asked = (kind: string) => erp.requests.filter((one) => one.kind === kind).length;
  const short = service.inboundPackingSlips.filter(({ items = [] }) =>
    items.some(({ attributes }) => Number(attributes.received) < Number(attributes.quantity)),
  );
  return {
    sales: own.length,
    orders: service.orders.length,
    changed: asked('order.replace'),
    cancels: asked('order.cancel'),
    withdrawn: listWithdrawn(erp).length,
    'shipped in parts': countParts(service),
    shipments: done(erp.shipments),
    returns: done(erp.returns),
    credited: erp.sales.length - own.length,
    purchases: erp.purchases.length,
    'short deliveries': short.length,
    receipts: done(erp.receipts),
    'cancelled moves': cancelled.length,
    articles: erp.stock.length,
  };
}
