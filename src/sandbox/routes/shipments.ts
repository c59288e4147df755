import type { FastifyInstance } from 'fastify';
import { page, place, type Row } from '../paging.ts';
import { allowOnly, dateOf, idsOf, listOf, type Query } from '../query.ts';
import { shipmentItemResource, shipmentResource } from '../resources.ts';
import { type ClientStore, type StoredShipment, shipmentStatuses } from '../store.ts';
import { dayOf } from '../times.ts';
import type { World } from '../world.ts';
import { notFound, pageRequest, storeOf } from './request.ts';

/** Older shipments are not listed, but can be read by id (interface.md, Limits). */
const listedDays = 90;
const dayMs = 86_400_000;

const listParameters = [
  'page[size]',
  'page[cursor]',
  'include',
  'filter[status][in]',
  'filter[shippedOn][gt]',
  'filter[shippedOn][lt]',
  'filter[orderType][in]',
  'filter[reference][in]',
  'filter[orderId]',
  'filter[orderId][in]',
  'filter[externalOrderNumber]',
  'filter[externalOrderNumber][in]',
];

/** GET /v3/shipments and GET /v3/shipments/:id. */
export function shipmentRoutes(app: FastifyInstance, world: World): void {
  app.get('/v3/shipments', { config: { operation: 'v3.shipments.list' } }, async (request) => {
    const asked = pageRequest(request, world);
    allowOnly(asked.query, listParameters);
    const withItems = listOf(asked.query, 'include', ['shipmentItems']) !== null;
    const store = storeOf(request, world);
    const matches = matcher(store, asked.query, world.clock.nowMs());
    const rows = candidates(store, asked.query).filter(matches);
    return page(
      rows.map((shipment) => rowOf(store, shipment, withItems)),
      asked,
    );
  });

  app.get('/v3/shipments/:id', { config: { operation: 'v3.shipments.get' } }, async (request, reply) => {
    const asked = pageRequest(request, world);
    allowOnly(asked.query, ['include']);
    const withItems = listOf(asked.query, 'include', ['shipmentItems']) !== null;
    const store = storeOf(request, world);
    const shipment = store.shipmentById.get(Number((request.params as { id: string }).id));
    if (shipment === undefined || shipment.visibleFromMs > world.clock.nowMs()) return notFound(reply, 'shipment');
    const { data, included } = place([rowOf(store, shipment, withItems).render()], world.switches.included);
    return { data: data[0], ...(included === undefined ? {} : { included }) };
  });
}

function rowOf(store: ClientStore, shipment: StoredShipment, withItems: boolean): Row {
  return {
    id: shipment.id,
    render: () => ({
      resource: shipmentResource(store, shipment),
      included: withItems ? shipment.items.map(shipmentItemResource) : [],
    }),
  };
}

/** Orders named in a filter have few shipments: those are looked up rather than searched for. */
function candidates(store: ClientStore, query: Query): readonly StoredShipment[] {
  const orderIds = idsOf(query, 'filter[orderId][in]') ?? idsOf(query, 'filter[orderId]');
  if (orderIds === null) return store.shipments;
  return [...orderIds].flatMap((id) => store.shipmentsOfOrder(id)).sort((left, right) => left.id - right.id);
}

/** All filters of the list; they combine. Dates are exclusive. */
function matcher(store: ClientStore, query: Query, nowMs: number): (shipment: StoredShipment) => boolean {
  const statuses = listOf(query, 'filter[status][in]', shipmentStatuses);
  const orderTypes = idsOf(query, 'filter[orderType][in]');
  const references = listOf(query, 'filter[reference][in]');
  const orderId = idsOf(query, 'filter[orderId]');
  const numbers = listOf(query, 'filter[externalOrderNumber][in]');
  const number = listOf(query, 'filter[externalOrderNumber]');
  const [after, before] = [dateOf(query, 'filter[shippedOn][gt]'), dateOf(query, 'filter[shippedOn][lt]')];
  const oldestMs = nowMs - listedDays * dayMs;
  return (shipment) => {
    if (shipment.visibleFromMs > nowMs || shipment.readyToPickOn.ms < oldestMs) return false;
    if (statuses !== null && !statuses.includes(shipment.status)) return false;
    if (orderTypes !== null && !orderTypes.has(shipment.orderTypeId)) return false;
    if (orderId !== null && !orderId.has(shipment.orderId)) return false;
    const order = store.orderById.get(shipment.orderId);
    if (references !== null && !references.includes(order?.reference ?? '')) return false;
    if (numbers !== null && !numbers.includes(order?.externalOrderNumber ?? '')) return false;
    if (number !== null && !number.includes(order?.externalOrderNumber ?? '')) return false;
    if (after === null && before === null) return true;
    const day = shipment.shippedOn === null ? null : dayOf(shipment.shippedOn.ms, store.zone);
    return day !== null && (after === null || day > after) && (before === null || day < before);
  };
}
