import type { FastifyInstance } from 'fastify';
import { z } from 'zod';
import { findOrders } from '../../erp/reports/order-search.ts';
import { readOrderTimeline } from '../../erp/reports/order-timeline.ts';
import type { AdminDeps } from './admin-deps.ts';
import { AdminError } from './admin-error.ts';
import { wantsJson } from './json/wants-json.ts';
import {
  describeEvents,
  findOrderIds,
  findStages,
  renderOrdersPage,
  renderTimelinePage,
  toOrderPath,
} from './pages/timeline.ts';
import { sendPage } from './send-page.ts';

const ordersShown = 50;
const eventsShown = 500;
/** Maximum characters of a search. References of the outbox have at most 200. */
const maxLength = 200;

/** Registers the search for orders, and the timeline of an order. */
export function registerOrderRoutes(app: FastifyInstance, { db }: AdminDeps): void {
  app.get('/orders', async (request, reply) => {
    const { q } = z.object({ q: z.string().trim().max(maxLength).optional() }).parse(request.query);
    const text = q === '' ? undefined : q;
    const orders = text === undefined ? [] : await findOrders(db, text, ordersShown);
    const [only] = orders;
    if (only !== undefined && orders.length === 1 && !wantsJson(request.headers.accept))
      return reply.redirect(toOrderPath(only.client, only.number), 303);
    return sendPage(request, reply, {
      title: 'Orders',
      body: renderOrdersPage(orders, text, ordersShown),
      data: { orders, hasMore: orders.length === ordersShown },
    });
  });
  app.get('/order', async (request, reply) => {
    const order = z
      .object({ client: z.string().max(maxLength), number: z.string().max(maxLength) })
      .parse(request.query);
    const events = await readOrderTimeline(db, order.client, order.number, eventsShown);
    if (events.length === 0) throw new AdminError(404, `There is no order ${order.number} of client ${order.client}`);
    return sendPage(request, reply, {
      title: `Order ${order.number}`,
      body: renderTimelinePage(order, events, eventsShown),
      data: {
        ...order,
        orderIds: findOrderIds(events),
        stages: findStages(events),
        events: describeEvents(events),
        hasMore: events.length === eventsShown,
      },
    });
  });
}
