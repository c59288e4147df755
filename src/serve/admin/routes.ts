/**
 * The pages that only show something, as HTML or JSON. A viewer gets them without forms and without
 * words of the service.
 */

import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import { z } from 'zod';
import { describeIssue } from '../../../config/config-error.ts';
import { auditActions } from '../../db/audit.ts';
import type { Database } from '../../db/pool.ts';
import { type Overview, withReadTimeout } from '../../operate/health/overview.ts';
import { readSnapshot } from '../../operate/health/state.ts';
import { readOrderDetails } from '../../operate/sql/order-details.ts';
import { listOrders, maxSearchedOrders, orderLists } from '../../operate/sql/order-list.ts';
import { searchOrders } from '../../operate/sql/order-search.ts';
import { readOrderTimeline } from '../../operate/sql/order-timeline.ts';
import { readAudit } from '../../operate/sql/read-audit.ts';
import { readTrends } from '../../operate/sql/read-trends.ts';
import { listRuns, type RunFilter } from '../../operate/sql/run-list.ts';
import { listQuarantined, readQuarantined } from '../../pull/sql/quarantine.ts';
import { streams } from '../../pull/streams/all-streams.ts';
import { readPushDatabase } from '../../push/sql/push-database.ts';
import {
  listOutbox,
  type OutboxFilter,
  outboxGroups,
  outboxStatuses,
} from '../../push/sql/read-outbox.ts';
import { wantsJson } from '../listen.ts';
import { renderChartsPage } from '../pages/charts.ts';
import { renderDatabasePage } from '../pages/database-page.ts';
import {
  describeSchedules,
  renderAuditPage,
  renderQuarantinePage,
  renderQuarantineRowPage,
  renderQueuesPage,
  renderRunsPage,
  renderSchedulesPage,
  runJobs,
  runStatuses,
} from '../pages/lists.ts';
import { findStages, renderOrderPage } from '../pages/order-page.ts';
import { renderFoundOrders, renderOrdersPage } from '../pages/orders-page.ts';
import { renderOutboxPage } from '../pages/outbox-page.ts';
import { renderOverviewPage } from '../pages/overview-page.ts';
import { readSchedulers } from '../pages/queue-state.ts';
import { describeEvents, findOrderIds } from '../pages/timeline.ts';
import { chooseClient, toOrderPath } from '../pages/view.ts';
import { RequestError } from '../request-error.ts';
import { requireRow } from '../row-actions.ts';
import type { AdminDeps, PageDeps } from './admin-deps.ts';
import { makeRowPage, type Page, sendPage } from './send-page.ts';

/** What a page reads of its request. */
type PageRequest = Pick<FastifyRequest, 'headers' | 'role'>;

/** Where a page is, what it takes from its path and its query, and how it is made. */
interface PageRoute {
  /** Parameters of the path are in braces. */
  readonly path: string;
  readonly parameters: z.ZodObject;
  /** Makes the page, or returns the path of another page to go to. */
  readonly make: (values: never, deps: PageDeps, request: PageRequest) => Promise<Page | string>;
}

/** Declares a page. Its parameters are checked before it is made. */
const definePage = <T extends z.ZodObject>(
  path: string,
  parameters: T,
  make: (values: z.output<T>, deps: PageDeps, request: PageRequest) => Promise<Page | string>,
): PageRoute => ({ path, parameters, make });

const rowsShown = 100;
/** Runs have more cells, which are cards on a narrow screen. */
const runsShown = 20;
const ordersShown = 25;
/** A customer may have more orders than fit a page of the lists. */
const foundOrdersShown = 50;
const eventsShown = 500;
/** Maximum characters of a search. References of the outbox have at most 200. */
const maxLength = 200;

/** Makes a parameter optional. An empty value, as a filter form sends it, counts as none. */
const optionalParam = <T extends z.ZodType>(schema: T) =>
  z.preprocess((value) => (value === '' ? undefined : value), schema.optional()).optional();
const client = optionalParam(z.string());
export const idSchema = z.object({
  id: z
    .string()
    .regex(/^[1-9]\d{0,14}$/, 'is not the number of a row')
    .transform(Number),
});
const outboxFilter = z.object({
  client,
  group: optionalParam(z.enum(outboxGroups)),
  status: optionalParam(z.enum(outboxStatuses)),
  kind: optionalParam(z.string()),
  reference: optionalParam(z.string()),
});
const runFilter = z.object({
  client,
  job: optionalParam(z.enum(runJobs)),
  status: optionalParam(z.enum(runStatuses)),
  before: optionalParam(z.coerce.number().int().positive()),
});
const auditFilter = z.object({
  by: optionalParam(z.string().max(maxLength)),
  action: optionalParam(z.enum(auditActions)),
});
const orderText = z.string('is missing').max(maxLength);
const orderSearch = z.object({
  q: optionalParam(orderText.trim()),
  list: optionalParam(z.enum(orderLists)),
  client,
  skip: optionalParam(z.coerce.number().int().min(0).max(maxSearchedOrders)),
});

const listClients = ({ config }: PageDeps) => config.clients.map(({ key }) => key);

/** All pages. */
export const pages: readonly PageRoute[] = [
  definePage('/', z.object({}), async (_values, { readOverview }) => {
    const overview = await readOverview();
    return {
      title: 'Overview',
      body: renderOverviewPage(overview),
      data: toOverviewJson(overview),
      refreshSeconds: 2,
      isReloaded: true,
    };
  }),
  definePage('/charts', z.object({ client }), async ({ client }, deps) => {
    const trends = await readTrends(deps.db, client ?? '', new Date());
    const body = renderChartsPage(trends, listClients(deps), client);
    return { title: 'Charts', body, data: trends };
  }),
  definePage('/orders', orderSearch, makeOrdersPage),
  definePage('/order', z.object({ client: orderText, number: orderText }), makeOrderPage),
  definePage('/outbox', outboxFilter, makeOutboxPage),
  definePage('/outbox/{id}', idSchema, async ({ id }, { db }) => {
    return makeRowPage(await requireRow(db, id), false);
  }),
  definePage('/runs', runFilter, async (chosen, deps) => {
    const filter = chosen as RunFilter;
    const runs = await listRuns(deps.db, filter, runsShown);
    const body = renderRunsPage(runs, filter, listClients(deps), runsShown);
    return { title: 'Runs', body, data: { runs, hasMore: runs.length === runsShown } };
  }),
  definePage('/schedules', z.object({ client }), async (values, deps) => {
    // Not from the cache: after an action, the page has to show its effect.
    const snapshot = await readSnapshot(deps.db);
    const data = describeSchedules(snapshot, deps.config, values.client);
    const choice = chooseClient(listClients(deps), values.client);
    const body = (csrf: string | null) => renderSchedulesPage(data, choice, csrf);
    return { title: 'Schedules', body, data };
  }),
  definePage(
    '/quarantine',
    z.object({ client, stream: optionalParam(z.string()) }),
    async ({ client = null, stream = null }, deps) => {
      const rows = await listQuarantined(deps.db, { client, stream }, rowsShown);
      const clients = listClients(deps);
      const names = streams.map(({ name }) => name);
      const filter = { client, stream, clients, streams: names };
      const body = renderQuarantinePage(rows, filter, rowsShown);
      return { title: 'Quarantine', body, data: { rows, hasMore: rows.length === rowsShown } };
    },
  ),
  definePage('/quarantine/{id}', idSchema, async ({ id }, { db }) => {
    const { document: _, ...row } = await readQuarantineRow(db, id);
    const body = (csrf: string | null) => renderQuarantineRowPage(row, csrf);
    return { title: `Quarantine ${id}`, body, data: row };
  }),
  definePage('/database', z.object({}), async (_values, { db }) => {
    const database = await readPushDatabase(db);
    const body = (csrf: string | null) => renderDatabasePage(database, csrf);
    return { title: 'Database', body, data: database };
  }),
  definePage('/queues', z.object({}), async (_values, { daemon }) => {
    const queues = [...(daemon()?.queues.values() ?? [])];
    const read = Promise.all(queues.map(readSchedulers));
    const schedulers = await withReadTimeout(read).catch(() => {
      throw new RequestError(503, 'The queue does not answer; see the log of the worker');
    });

    const body = renderQueuesPage(schedulers.flat(), new Date());
    return { title: 'Queues', body, data: { schedulers: schedulers.flat() } };
  }),
  definePage('/audit', auditFilter, async (chosen, { db }) => {
    const entries = await readAudit(db, chosen, rowsShown);
    return { title: 'Audit', body: renderAuditPage(entries, chosen), data: { entries } };
  }),
];

/** @throws RequestError if there is no such row */
export async function readQuarantineRow(db: Database, id: number) {
  const row = await readQuarantined(db, id);
  if (row === null) throw new RequestError(404, `There is no row ${id} in quarantine`);
  return row;
}

async function makeOutboxPage(
  chosen: z.output<typeof outboxFilter>,
  { db, config, readOverview }: PageDeps,
): Promise<Page> {
  // A status is chosen within no group.
  const group = chosen.status === undefined ? chosen.group : undefined;
  const open = chosen.status === undefined && group === undefined;
  const filter = { ...chosen, group, open } as OutboxFilter;

  const rows = await listOutbox(db, filter, rowsShown, 'newest first');
  const { snapshot } = await readOverview();
  const counts = snapshot.outbox.filter(
    (row) => chosen.client === undefined || row.client === chosen.client,
  );
  const clients = config.clients.map(({ key }) => key);
  const shown = { rows, chosen, counts, clients, limit: rowsShown };
  return {
    title: 'Outbox',
    body: (csrf) => renderOutboxPage(shown, csrf),
    data: { rows, hasMore: rows.length === rowsShown },
  };
}

type OrderSearch = z.output<typeof orderSearch>;

async function makeOrdersPage(
  chosen: OrderSearch,
  deps: PageDeps,
  request: PageRequest,
): Promise<Page | string> {
  const { q: text, list = 'newest', client, skip = 0 } = chosen;
  if (text !== undefined) return makeFoundOrdersPage(text, deps, request);

  const part = { skip, limit: ordersShown };
  const orders = await listOrders(deps.db, { list, client: client ?? null }, part);
  const shown = { orders, list, client, clients: listClients(deps), ...part };
  return {
    title: 'Orders',
    body: (csrf) => renderOrdersPage(shown, csrf),
    data: { list, orders, hasMore: orders.length === ordersShown },
  };
}

async function makeFoundOrdersPage(
  text: string,
  { db }: PageDeps,
  request: PageRequest,
): Promise<Page | string> {
  const byEmail = request.role === 'operator';
  const orders = await searchOrders(db, text, { limit: foundOrdersShown, byEmail });

  const [only] = orders;
  if (only !== undefined && orders.length === 1 && !wantsJson(request.headers.accept))
    return toOrderPath(only.client, only.number);

  return {
    title: 'Orders',
    body: (csrf) => renderFoundOrders(orders, text, foundOrdersShown, csrf),
    data: { orders, hasMore: orders.length === foundOrdersShown },
  };
}

async function makeOrderPage(
  { client, number }: { readonly client: string; readonly number: string },
  { db }: PageDeps,
): Promise<Page> {
  const events = await readOrderTimeline(db, client, number, eventsShown);
  if (events.length === 0)
    throw new RequestError(404, `There is no order ${number} of client ${client}`);

  const orderIds = findOrderIds(events);
  const details = await readOrderDetails(db, { client, number, ids: orderIds });
  const shown = { client, number, details, events, limit: eventsShown };

  return {
    title: `Order ${number}`,
    body: (csrf) => renderOrderPage(shown, csrf === null),
    isReloaded: true,
    data: {
      client,
      number,
      orderIds,
      orders: details.orders.map(({ id, state, problem }) => ({ id, state, problem })),
      lines: details.lines.map(({ name: _, ...line }) => line),
      openRows: details.rows,
      stages: findStages(details, events),
      events: describeEvents(events),
      hasMore: events.length === eventsShown,
    },
  };
}

/** Registers the pages. */
export function registerPageRoutes(app: FastifyInstance, deps: AdminDeps): void {
  const send = async (request: FastifyRequest, reply: FastifyReply, page: Page | string) => {
    if (typeof page === 'string') return reply.redirect(page, 303);
    // JSON has no title.
    if (wantsJson(request.headers.accept)) return sendPage(request, reply, page);
    return sendPage(request, reply, { ...page, title: await countProblems(page.title, deps) });
  };

  for (const { path, parameters, make } of pages)
    app.get(path.replaceAll(/\{(\w+)\}/g, ':$1'), async (request, reply) => {
      const given = { ...(request.query as object), ...(request.params as object) };
      const values = parameters.parse(given, { error: describeIssue });
      return send(request, reply, await make(values as never, deps, request));
    });

  // The search of an operator, whose text may be an e-mail address: it must not be in a URL.
  app.post('/orders', async (request, reply) => {
    const search = orderSearch.parse(request.body ?? {}, { error: describeIssue });
    return send(request, reply, await makeOrdersPage(search, deps, request));
  });
}

/** Puts the number of problems, without notes, before a title: the tab of every page shows it. */
async function countProblems(title: string, { readOverview }: PageDeps): Promise<string> {
  try {
    const { problems } = await withReadTimeout(readOverview());
    const count = problems.filter(({ severity }) => severity !== 'note').length;
    return count === 0 ? title : `(${count}) ${title}`;
  } catch {
    // The overview shows why they cannot be read. Other pages may need other tables.
    return title;
  }
}

function toOverviewJson({ snapshot, problems, stale }: Overview) {
  const { now, streams, outbox, gates } = snapshot;
  return { now, problems, lateJobs: stale, streams, outbox, gates };
}
