import type { FastifyInstance } from 'fastify';
import { page, place, type Row } from '../paging.ts';
import { allowOnly, BadRequest, dateOf, listOf, type Query } from '../query.ts';
import { orderIncludes, orderResource } from '../resources.ts';
import type { StoredOrder } from '../store.ts';
import type { World } from '../world.ts';
import { notFound, pageRequest, storeOf } from './request.ts';

const listParameters = [
  'page[size]',
  'page[cursor]',
  'include',
  'filter[orderedOn][gt]',
  'filter[orderedOn][lt]',
  'filter[externalOrderNumber][in]',
  'filter[reference][in]',
];
const maxNumberLength = 50;

/** GET /v3/orders and GET /v3/orders/:id. */
export function orderRoutes(app: FastifyInstance, world: World): void {
  app.get('/v3/orders', { config: { operation: 'v3.orders.list' } }, async (request) => {
    const asked = pageRequest(request, world);
    allowOnly(asked.query, listParameters);
    const includes = includesOf(asked.query);
    const orders = storeOf(request, world).orders.filter(matcher(asked.query));
    // interface.md (Conventions): in answers of orders the included array stands inside the order.
    const switches = { ...asked.switches, included: 'inside' as const };
    return page(
      orders.map((order) => rowOf(order, includes)),
      { ...asked, switches },
    );
  });

  app.get('/v3/orders/:id', { config: { operation: 'v3.orders.get' } }, async (request, reply) => {
    const asked = pageRequest(request, world);
    allowOnly(asked.query, ['include']);
    const order = storeOf(request, world).orderById.get(Number((request.params as { id: string }).id));
    if (order === undefined) return notFound(reply, 'order');
    const { data } = place([rowOf(order, includesOf(asked.query)).render()], 'inside');
    return { data: data[0] };
  });
}

type Include = keyof typeof orderIncludes;

function includesOf(query: Query): readonly Include[] {
  return (listOf(query, 'include', Object.keys(orderIncludes)) ?? []) as readonly Include[];
}

function rowOf(order: StoredOrder, includes: readonly Include[]): Row {
  return {
    id: order.id,
    render: () => ({
      resource: orderResource(order),
      included: includes.flatMap((name) => orderIncludes[name](order)),
    }),
  };
}

function matcher(query: Query): (order: StoredOrder) => boolean {
  const [after, before] = [dateOf(query, 'filter[orderedOn][gt]'), dateOf(query, 'filter[orderedOn][lt]')];
  const numbers = listOf(query, 'filter[externalOrderNumber][in]');
  const references = listOf(query, 'filter[reference][in]');
  if (numbers?.some((number) => number.length > maxNumberLength)) {
    throw new BadRequest(
      'filter[externalOrderNumber][in]',
      `must hold values of at most ${maxNumberLength} characters`,
    );
  }
  return (order) =>
    (after === null || order.orderedOn > after) &&
    (before === null || order.orderedOn < before) &&
    (numbers === null || numbers.includes(order.externalOrderNumber)) &&
    (references === null || references.includes(order.reference ?? ''));
}
