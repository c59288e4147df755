/**
 * The pages that only show something, as HTML or JSON. A viewer gets them without forms and without words of the service.
 */

import type { FastifyInstance } from 'fastify';
import { z } from 'zod';
import { streams } from '../../../jobs/registry.ts';
import { listOutbox, type OutboxFilter, outboxStatuses, readOutbox } from '../../erp/outbox/read-outbox.ts';
import { listQuarantined } from '../../erp/pull/quarantine.ts';
import { readDatabaseClock } from '../../erp/reports/job-status.ts';
import { listRuns, type RunFilter } from '../../erp/reports/run-list.ts';
import { readAudit } from '../../erp/runs/audit.ts';
import type { openStateReaders } from '../health/overview.ts';
import { readSnapshot } from '../health/snapshot.ts';
import { readTrends } from '../health/trends.ts';
import type { AdminDeps } from './admin-deps.ts';
import { AdminError } from './admin-error.ts';
import { toChartsJson, toOverviewJson, toSchedulesJson } from './json/answers.ts';
import { renderChartsPage } from './pages/charts.ts';
import { renderAuditPage, renderQuarantinePage } from './pages/lists.ts';
import { renderOutboxPage } from './pages/outbox.ts';
import { renderOverviewPage } from './pages/overview.ts';
import { renderRunsPage, runJobs, runStatuses } from './pages/runs.ts';
import { renderSchedulesPage } from './pages/schedules.ts';
import { sendPage, sendRowPage } from './send-page.ts';

const rowsShown = 100;

/** Makes a parameter optional. An empty value, as a filter form sends it, counts as none. */
const optionalParam = <T extends z.ZodType>(schema: T) =>
  z.preprocess((value) => (value === '' ? undefined : value), schema.optional());
const optionalText = optionalParam(z.string());
export const idSchema = z.object({
  id: z
    .string()
    .regex(/^[1-9]\d{0,14}$/, 'is not the number of a row')
    .transform(Number),
});

/** Registers the pages. */
export function registerPageRoutes(
  app: FastifyInstance,
  deps: AdminDeps,
  readers: ReturnType<typeof openStateReaders>,
): void {
  const { db, config } = deps;
  const clients = config.clients.map(({ key }) => key);
  app.get('/', async (request, reply) => {
    const overview = await readers.readOverview();
    const body = renderOverviewPage(overview);
    return sendPage(request, reply, { title: 'Overview', body, data: toOverviewJson(overview), live: true });
  });
  app.get('/charts', async (request, reply) => {
    const { client } = z.object({ client: optionalText }).parse(request.query);
    const charts = await readTrends(db, client ?? '', await readDatabaseClock(db));
    const body = renderChartsPage(charts, clients, client);
    return sendPage(request, reply, { title: 'Charts', body, data: { charts: toChartsJson(charts) } });
  });
  app.get('/outbox', async (request, reply) => {
    const chosen = z
      .object({
        client: optionalText,
        status: optionalParam(z.enum(outboxStatuses)),
        kind: optionalText,
        reference: optionalText,
      })
      .parse(request.query);
    const given = Object.fromEntries(Object.entries(chosen).filter(([, value]) => value !== undefined));
    const filter: OutboxFilter = chosen.status === undefined ? { ...given, open: true } : given;
    const rows = await listOutbox(db, filter, rowsShown);
    const body = renderOutboxPage(rows, chosen, clients, rowsShown, new Date());
    return sendPage(request, reply, { title: 'Outbox', body, data: { rows, hasMore: rows.length === rowsShown } });
  });
  app.get('/outbox/:id', async (request, reply) => {
    const { id } = idSchema.parse(request.params);
    const row = await readOutbox(db, id);
    if (row === null) throw new AdminError(404, `There is no row ${id} in the outbox`);
    return sendRowPage(request, reply, row, false);
  });
  registerListRoutes(app, deps);
}

/** Registers the pages of runs, schedules, quarantine and audit. */
function registerListRoutes(app: FastifyInstance, { db, config }: AdminDeps): void {
  const clients = config.clients.map(({ key }) => key);
  app.get('/runs', async (request, reply) => {
    const filter = z
      .object({
        client: optionalText,
        job: optionalParam(z.enum(runJobs)),
        status: optionalParam(z.enum(runStatuses)),
        before: optionalParam(z.coerce.number().int().positive()),
      })
      .parse(request.query) as RunFilter;
    const runs = await listRuns(db, filter, rowsShown);
    const body = renderRunsPage(runs, filter, clients, rowsShown);
    return sendPage(request, reply, { title: 'Runs', body, data: { runs, hasMore: runs.length === rowsShown } });
  });
  app.get('/schedules', async (request, reply) => {
    const { client } = z.object({ client: optionalText }).parse(request.query);
    // Not from the cache: after an action, the page has to show its effect.
    const snapshot = await readSnapshot(db);
    return sendPage(request, reply, {
      title: 'Schedules',
      body: (csrf) => renderSchedulesPage(snapshot, config, csrf, client),
      data: toSchedulesJson(snapshot, config, client),
    });
  });
  app.get('/quarantine', async (request, reply) => {
    const chosen = z.object({ client: optionalText, stream: optionalText }).parse(request.query);
    const rows = await listQuarantined(db, { client: chosen.client ?? null, stream: chosen.stream ?? null }, rowsShown);
    const names = streams.map(({ name }) => name);
    const body = renderQuarantinePage(rows, chosen, clients, names, rowsShown);
    return sendPage(request, reply, { title: 'Quarantine', body, data: { rows, hasMore: rows.length === rowsShown } });
  });
  app.get('/audit', async (request, reply) => {
    const entries = await readAudit(db, rowsShown);
    return sendPage(request, reply, { title: 'Audit', body: renderAuditPage(entries), data: { entries } });
  });
}
