import type { StateEntry, StateResource } from './sandbox-state.ts';

/** What a table must hold, by column. */
export type ExpectedRow = Readonly<Record<string, unknown>>;

const snake = (name: string) => name.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`);

/** An instant as Postgres writes it in JSON: no zeros at the end of the fraction. */
const instant = (text: unknown) =>
  typeof text === 'string'
    ? text.replace(/(?<!0)0+Z$/, (zeros) => (text.includes('.') ? 'Z' : zeros)).replace(/\.?Z$/, '+00:00')
    : null;

const relatedId = (resource: StateResource, name: string): number | null => {
  const data = resource.relationships?.[name]?.data ?? null;
  return data === null || Array.isArray(data) ? null : data.id;
};

/** Every attribute as a column of its name, and every relationship to one resource as `<name>_id`. */
function columnsOf(resource: StateResource, renamed: Readonly<Record<string, unknown>> = {}): ExpectedRow {
  const attributes = Object.entries(resource.attributes).map(([name, value]) => [snake(name), value] as const);
  const related = Object.entries(resource.relationships ?? {})
    .filter(([, { data }]) => !Array.isArray(data))
    .map(([name]) => [`${snake(name)}_id`, relatedId(resource, name)] as const);
  return {
    id: resource.id,
    ...Object.fromEntries(attributes),
    ...Object.fromEntries(related),
    ...renamed,
    raw: resource,
  };
}

const times = (values: Readonly<Record<string, unknown>>) =>
  Object.fromEntries(Object.entries(values).map(([name, value]) => [snake(name), instant(value)]));
const pick = (resource: StateResource, ...names: string[]) =>
  times(Object.fromEntries(names.map((name) => [name, resource.attributes[name]])));

/** What a table must hold: the lists of the sandbox that it is made from, and its rows. */
interface Expected {
  readonly lists: readonly string[];
  readonly rows: (...entries: readonly (readonly StateEntry[])[]) => ExpectedRow[];
}

const listed = (entries: readonly StateEntry[] = []) => entries.filter(({ visible }) => visible);

/** Rows of lines, each with the id of its parent in this column. */
const lines =
  (parentColumn: string) =>
  (entries: readonly StateEntry[] = []) =>
    listed(entries).flatMap(({ resource, items }) =>
      items.map((item) => columnsOf(item, { [parentColumn]: resource.id })),
    );

/** The rows that one client's part of the sandbox makes, by table. */
export const expectedRows: Readonly<Record<string, Expected>> = {
  orders: {
    lists: ['orders'],
    rows: (orders = []) =>
      orders.map(({ resource, included }) =>
        columnsOf(resource, { pick_up_point: included.find(({ type }) => type === 'pickUpPoint') ?? null }),
      ),
  },
  order_items: {
    lists: ['orders'],
    rows: (orders = []) =>
      orders.flatMap(({ included }) =>
        included
          .filter(({ type }) => type === 'orderItem')
          .map((item) => columnsOf(item, { vat: item.attributes.vat === null ? null : Number(item.attributes.vat) })),
      ),
  },
  order_addresses: {
    lists: ['orders'],
    rows: (orders = []) =>
      orders.flatMap(({ resource, included }) =>
        ['delivery', 'billing'].map((role) => {
          const id = relatedId(resource, `${role}Address`);
          const address = included.find((other) => other.type === 'address' && other.id === id) as StateResource;
          return columnsOf(address, { order_id: resource.id, role });
        }),
      ),
  },
  shipments: {
    // Their order numbers come from the orders.
    lists: ['shipments', 'orders'],
    rows: (shipments, orders = []) => {
      const numbers = new Map(orders.map(({ resource }) => [resource.id, resource.attributes.externalOrderNumber]));
      return listed(shipments).map(({ resource, instants }) => {
        const number = numbers.get(relatedId(resource, 'order') ?? 0) ?? null;
        return columnsOf(resource, { ...times(instants), external_order_number: number });
      });
    },
  },
  shipment_items: { lists: ['shipments'], rows: lines('shipment_id') },
  return_items: {
    lists: ['returnItems'],
    rows: (items) => listed(items).map(({ resource, instants }) => columnsOf(resource, times(instants))),
  },
  inbounds: {
    lists: ['inbounds'],
    rows: (inbounds = []) =>
      inbounds.map(({ resource }) => columnsOf(resource, pick(resource, 'createdOn', 'checkingOn', 'completedOn'))),
  },
  inbound_items: { lists: ['inbounds'], rows: lines('inbound_id') },
  inbound_packing_slips: {
    lists: ['inboundPackingSlips'],
    rows: (slips = []) => slips.map(({ resource }) => columnsOf(resource, pick(resource, 'receivedOn', 'completedOn'))),
  },
  inbound_packing_slip_items: { lists: ['inboundPackingSlips'], rows: lines('inbound_packing_slip_id') },
};
