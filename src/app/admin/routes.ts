/**
 * The pages that only show something. A viewer gets them without forms and without words of the service.
 */

import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import { z } from 'zod';
import { streams } from '../../../jobs/registry.ts';
import type { Html } from '../../core/html.ts';
import {
  listOutbox,
  type OutboxDetail,
  type OutboxFilter,
  outboxStatuses,
  readOutbox,
} from '../../erp/outbox/read-outbox.ts';
import { listQuarantined } from '../../erp/pull/quarantine.ts';
import { listRuns, type RunFilter } from '../../erp/reports/run-list.ts';
import { readAudit } from '../../erp/runs/audit.ts';
import { shortenResult } from '../../sync/push/payload/mask.ts';
import type { openStateReaders } from '../health/overview.ts';
import { readSnapshot } from '../health/snapshot.ts';
import { toShownPayload } from '../terminal/shown-payload.ts';
import { hasSession, readFormOwner } from './access/access.ts';
import type { AdminDeps } from './admin-deps.ts';
import { AdminError } from './admin-error.ts';
import { formMessages } from './pages/form-messages.ts';
import { renderAuditPage, renderQuarantinePage } from './pages/lists.ts';
import { maskQuotes } from './pages/mask-quotes.ts';
import { renderOutboxPage, renderOutboxRowPage } from './pages/outbox.ts';
import { renderOverviewPage } from './pages/overview.ts';
import { renderRunsPage, runJobs, runStatuses } from './pages/runs.ts';
import { renderSchedulesPage } from './pages/schedules.ts';
import { renderPage } from './pages/view.ts';

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
  app.get('/', async (request, reply) =>
    sendPage(request, reply, 'Overview', renderOverviewPage(await readers.readOverview()), { live: true }),
  );
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
    return sendPage(request, reply, 'Outbox', renderOutboxPage(rows, chosen, clients, rowsShown, new Date()));
  });
  app.get('/outbox/:id', async (request, reply) => {
    const { id } = idSchema.parse(request.params);
    const row = await readOutbox(db, id);
    if (row === null) throw new AdminError(404, `There is no row ${id} in the outbox`);
    return sendRowPage(request, reply, row, false);
  });
  app.get('/runs', async (request, reply) => {
    const filter = z
      .object({
        client: optionalText,
        job: optionalParam(z.enum(runJobs)),
        status: optionalParam(z.enum(runStatuses)),
        before: optionalParam(z.coerce.number().int().positive()),
      })
      .parse(request.query) as RunFilter;
    return sendPage(
      request,
      reply,
      'Runs',
      renderRunsPage(await listRuns(db, filter, rowsShown), filter, clients, rowsShown),
    );
  });
  app.get('/schedules', async (request, reply) => {
    const { client } = z.object({ client: optionalText }).parse(request.query);
    // Not from the cache: after an action, the page has to show its effect.
    const snapshot = await readSnapshot(db);
    return sendPage(request, reply, 'Schedules', (csrf) => renderSchedulesPage(snapshot, config, csrf, client));
  });
  app.get('/quarantine', async (request, reply) => {
    const chosen = z.object({ client: optionalText, stream: optionalText }).parse(request.query);
    const rows = await listQuarantined(db, { client: chosen.client ?? null, stream: chosen.stream ?? null }, rowsShown);
    const names = streams.map(({ name }) => name);
    return sendPage(request, reply, 'Quarantine', renderQuarantinePage(rows, chosen, clients, names, rowsShown));
  });
  app.get('/audit', async (request, reply) =>
    sendPage(request, reply, 'Audit', renderAuditPage(await readAudit(db, rowsShown))),
  );
}

/** Sends a page. The token of its forms is bound to the session. A viewer gets no forms that change something. */
function sendPage(
  request: FastifyRequest,
  reply: FastifyReply,
  title: string,
  body: Html | ((csrf: string | null) => Html),
  { live = false }: { readonly live?: boolean } = {},
): FastifyReply {
  const csrf = reply.generateCsrf({ userInfo: readFormOwner(request) });
  const { said } = z.object({ said: optionalText.catch(undefined) }).parse(request.query);
  const frame = {
    title,
    path: request.url.split('?', 1)[0] ?? '/',
    loggedIn: hasSession(request),
    message: said !== undefined && Object.hasOwn(formMessages, said) ? formMessages[said] : undefined,
    live,
    csrf,
  };
  const isViewer = request.role === 'viewer';
  const markup = renderPage(frame, typeof body === 'function' ? body(isViewer ? null : csrf) : body);
  return reply.type('text/html').send(isViewer ? maskQuotes(markup) : markup);
}

/**
 * Sends the page of an outbox row.
 * @param isRevealed true to show the payload without masks
 */
export function sendRowPage(
  request: FastifyRequest,
  reply: FastifyReply,
  row: OutboxDetail,
  isRevealed: boolean,
): FastifyReply {
  const shown = toShownPayload(row, isRevealed);
  const result = row.result === null || isRevealed ? row.result : shortenResult(row.result);
  return sendPage(request, reply, `Row ${row.id}`, (csrf) =>
    renderOutboxRowPage({ ...row, result }, shown, isRevealed, csrf, new Date()),
  );
}
