import type { StateEntry, StateResource } from './sandbox-state.ts';

/** The values that a row of a table must have, by column. */
export type ExpectedRow = Readonly<Record<string, unknown>>;

const toSnakeCase = (name: string) => name.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`);

/** Returns an instant as Postgres writes it in JSON: without zeros at the end of the fraction. */
const toInstant = (text: unknown) =>
  typeof text === 'string'
    ? text.replace(/(?<!0)0+Z$/, (zeros) => (text.includes('.') ? 'Z' : zeros)).replace(/\.?Z$/, '+00:00')
    : null;

const toNumber = (value: unknown) => (value === undefined || value === null ? null : Number(value));

const readRelatedId = (resource: StateResource, name: string): number | null => {
  const data = resource.relationships?.[name]?.data ?? null;
  return data === null || Array.isArray(data) ? null : data.id;
};

/** Converts a resource to a row: each attribute to a column, each relationship to one resource to `<name>_id`. */
function toColumns(resource: StateResource, renamed: Readonly<Record<string, unknown>> = {}): ExpectedRow {
  const attributes = Object.entries(resource.attributes).map(([name, value]) => [toSnakeCase(name), value] as const);
  const related = Object.entries(resource.relationships ?? {})
    .filter(([, relationship]) => !Array.isArray(relationship?.data))
    .map(([name]) => [`${toSnakeCase(name)}_id`, readRelatedId(resource, name)] as const);
  return {
    id: resource.id,
    ...Object.fromEntries(attributes),
    ...Object.fromEntries(related),
    ...renamed,
    raw: resource,
  };
}

const toInstants = (values: Readonly<Record<string, unknown>>) =>
  Object.fromEntries(Object.entries(values).map(([name, value]) => [toSnakeCase(name), toInstant(value)]));
const pickInstants = (resource: StateResource, ...names: string[]) =>
  toInstants(Object.fromEntries(names.map((name) => [name, resource.attributes[name]])));

/** The rows that a table must hold, and the lists of the sandbox that they are made from. */
interface ExpectedTable {
  readonly lists: readonly string[];
  readonly rows: (...entries: readonly (readonly StateEntry[])[]) => ExpectedRow[];
}

const filterVisible = (entries: readonly StateEntry[] = []) => entries.filter(({ visible }) => visible);

/** Makes the rows of items, each with the id of its parent in this column. */
const toChildRows =
  (parentColumn: string) =>
  (entries: readonly StateEntry[] = []) =>
    filterVisible(entries).flatMap(({ resource, items }) =>
      items.map((item) => toColumns(item, { [parentColumn]: resource.id })),
    );

/** The expected rows of each table, made from the sandbox's lists of one client. */
export const expectedRows: Readonly<Record<string, ExpectedTable>> = {
  orders: {
    lists: ['orders'],
    rows: (orders = []) =>
      orders.map(({ resource, included }) =>
        toColumns(resource, { pick_up_point: included.find(({ type }) => type === 'pickUpPoint') ?? null }),
      ),
  },
  order_items: {
    lists: ['orders'],
    rows: (orders = []) =>
      orders.flatMap(({ included }) =>
        included
          .filter(({ type }) => type === 'orderItem')
          .map((item) => toColumns(item, { vat: toNumber(item.attributes.vat) })),
      ),
  },
  order_addresses: {
    lists: ['orders'],
    rows: (orders = []) =>
      orders.flatMap(({ resource, included }) =>
        ['delivery', 'billing'].map((role) => {
          const id = readRelatedId(resource, `${role}Address`);
          const address = included.find((other) => other.type === 'address' && other.id === id) as StateResource;
          return toColumns(address, { order_id: resource.id, role });
        }),
      ),
  },
  shipments: {
    // The order numbers of shipments come from the orders.
    lists: ['shipments', 'orders'],
    rows: (shipments, orders = []) => {
      const numbers = new Map(orders.map(({ resource }) => [resource.id, resource.attributes.externalOrderNumber]));
      return filterVisible(shipments).map(({ resource, instants }) => {
        const number = numbers.get(readRelatedId(resource, 'order') ?? 0) ?? null;
        return toColumns(resource, { ...toInstants(instants), external_order_number: number });
      });
    },
  },
  shipment_items: { lists: ['shipments'], rows: toChildRows('shipment_id') },
  return_items: {
    lists: ['returnItems'],
    rows: (items) => filterVisible(items).map(({ resource, instants }) => toColumns(resource, toInstants(instants))),
  },
  inbounds: {
    lists: ['inbounds'],
    rows: (inbounds = []) =>
      inbounds.map(({ resource }) =>
        toColumns(resource, pickInstants(resource, 'createdOn', 'checkingOn', 'completedOn')),
      ),
  },
  inbound_items: { lists: ['inbounds'], rows: toChildRows('inbound_id') },
  inbound_packing_slips: {
    lists: ['inboundPackingSlips'],
    rows: (slips = []) =>
      slips.map(({ resource }) => toColumns(resource, pickInstants(resource, 'receivedOn', 'completedOn'))),
  },
  inbound_packing_slip_items: { lists: ['inboundPackingSlips'], rows: toChildRows('inbound_packing_slip_id') },
};
