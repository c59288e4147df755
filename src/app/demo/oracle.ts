import { isDeepStrictEqual } from 'node:util';
import { z } from 'zod';
import type { Database } from '../../erp/connect.ts';
import { readShipments, type ShipmentSnapshot } from '../../erp/snapshot.ts';

const link = z.object({ data: z.object({ id: z.number() }) });
const itemSchema = z.object({
  id: z.number(),
  attributes: z.object({
    sku: z.string(),
    quantity: z.number(),
    lotNumber: z.string().nullable(),
    expirationDate: z.string().nullable(),
    serialNumbers: z.array(z.string()),
  }),
  relationships: z.object({ orderItem: link }),
});
const stateSchema = z.object({
  now: z.string(),
  clients: z.array(
    z.object({
      client: z.string(),
      orders: z.array(
        z.object({ resource: z.object({ id: z.number(), attributes: z.object({ externalOrderNumber: z.string() }) }) }),
      ),
      shipments: z.array(
        z.object({
          visible: z.boolean(),
          resource: z.object({
            id: z.number(),
            attributes: z.object({ status: z.string(), warehouseCode: z.string(), returnLabel: z.string().nullable() }),
            relationships: z.object({ order: link }),
          }),
          items: z.array(itemSchema),
          instants: z.object({
            readyToPickOn: z.string().nullable(),
            readyToShipOn: z.string().nullable(),
            shippedOn: z.string().nullable(),
          }),
        }),
      ),
    }),
  ),
});
type ClientState = z.infer<typeof stateSchema>['clients'][number];

/** What the sandbox holds, by its own account. */
export async function readState(sandbox: URL): Promise<z.infer<typeof stateSchema>> {
  const answer = await fetch(new URL('/_sandbox/state', sandbox));
  return stateSchema.parse(await answer.json());
}

/** The rows that a client's tables should hold. */
export function expectedShipments(state: ClientState): ShipmentSnapshot[] {
  const numbers = new Map(state.orders.map(({ resource }) => [resource.id, resource.attributes.externalOrderNumber]));
  return state.shipments
    .filter(({ visible }) => visible)
    .map(({ resource, items, instants }) => {
      const orderId = resource.relationships.order.data.id;
      return {
        id: resource.id,
        ...resource.attributes,
        ...instants,
        orderId,
        externalOrderNumber: numbers.get(orderId) ?? null,
        items: items
          .map(({ id, attributes, relationships }) => ({
            id,
            ...attributes,
            orderItemId: relationships.orderItem.data.id,
          }))
          .sort((left, right) => left.id - right.id),
      };
    });
}

/** Compares the tables with the sandbox, row by row. Returns what differs, in words; empty where nothing does. */
export async function compareWithSandbox(db: Database, sandbox: URL): Promise<string[]> {
  const differences: string[] = [];
  for (const state of (await readState(sandbox)).clients) {
    const [expected, actual] = [expectedShipments(state), await readShipments(db, state.client)];
    const stored = new Map(actual.map((shipment) => [shipment.id, shipment]));
    for (const shipment of expected) {
      const row = stored.get(shipment.id);
      stored.delete(shipment.id);
      if (row === undefined) differences.push(`${state.client}: shipment ${shipment.id} is missing`);
      else if (!isDeepStrictEqual(row, shipment)) {
        const keys = Object.keys(shipment) as (keyof ShipmentSnapshot)[];
        const members = keys.filter((key) => !isDeepStrictEqual(row[key], shipment[key]));
        differences.push(`${state.client}: shipment ${shipment.id} differs in ${members.join(', ')}`);
      }
    }
    for (const id of stored.keys()) differences.push(`${state.client}: shipment ${id} is not in the sandbox`);
  }
  return differences;
}
