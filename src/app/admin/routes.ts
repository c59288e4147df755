import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import { z } from 'zod';
import { streams } from '../../../jobs/registry.ts';
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
import type { openStandings } from '../health/overview.ts';
import { readSnapshot } from '../health/snapshot.ts';
import { shownPayload } from '../terminal/shown-payload.ts';
import { formOwner, hasSession } from './access/access.ts';
import type { AdminDeps } from './admin-deps.ts';
import { AdminError } from './admin-error.ts';
import { type Html, maskQuotes } from './pages/html.ts';
import { auditPage, quarantinePage } from './pages/lists.ts';
import { outboxPage, outboxRowPage } from './pages/outbox.ts';
import { overviewPage } from './pages/overview.ts';
import { runJobs, runStatuses, runsPage } from './pages/runs.ts';
import { sayings } from './pages/sayings.ts';
import { schedulesPage } from './pages/schedules.ts';
import { page } from './pages/view.ts';

const rowsShown = 100;

/** A choice that was left open is as good as none. */
const optional = <T extends z.ZodType>(schema: T) =>
  z.preprocess((value) => (value === '' ? undefined : value), schema.optional());
const text = optional(z.string());
export const idSchema = z.object({
  id: z
    .string()
    .regex(/^[1-9]\d{0,14}$/, 'is no number of a row')
    .transform(Number),
});

/** The pages that show something; they change nothing. */
export function pageRoutes(app: FastifyInstance, deps: AdminDeps, standings: ReturnType<typeof openStandings>): void {
  const { db, config } = deps;
  const clients = config.clients.map(({ key }) => key);
  app.get('/', async (request, reply) =>
    show(request, reply, 'Overview', overviewPage(await standings.overview()), { live: true }),
  );
  app.get('/outbox', async (request, reply) => {
    const chosen = z
      .object({ client: text, status: optional(z.enum(outboxStatuses)), kind: text, reference: text })
      .parse(request.query);
    const given = Object.fromEntries(Object.entries(chosen).filter(([, value]) => value !== undefined));
    const filter: OutboxFilter = chosen.status === undefined ? { ...given, open: true } : given;
    const rows = await listOutbox(db, filter, rowsShown);
    return show(request, reply, 'Outbox', outboxPage(rows, chosen, clients, rowsShown, new Date()));
  });
  app.get('/outbox/:id', async (request, reply) => {
    const { id } = idSchema.parse(request.params);
    const row = await readOutbox(db, id);
    if (row === null) throw new AdminError(404, `There is no row ${id} in the outbox`);
    return showRow(request, reply, row, false);
  });
  app.get('/runs', async (request, reply) => {
    const filter = z
      .object({
        client: text,
        job: optional(z.enum(runJobs)),
        status: optional(z.enum(runStatuses)),
        before: optional(z.coerce.number().int().positive()),
      })
      .parse(request.query) as RunFilter;
    return show(request, reply, 'Runs', runsPage(await listRuns(db, filter, rowsShown), filter, clients, rowsShown));
  });
  app.get('/schedules', async (request, reply) => {
    const { client } = z.object({ client: text }).parse(request.query);
    // Read anew: who comes from a form wants to see what came of it.
    const snapshot = await readSnapshot(db);
    return show(request, reply, 'Schedules', (csrf) => schedulesPage(snapshot, config, csrf, client));
  });
  app.get('/quarantine', async (request, reply) => {
    const chosen = z.object({ client: text, stream: text }).parse(request.query);
    const rows = await listQuarantined(db, { client: chosen.client ?? null, stream: chosen.stream ?? null }, rowsShown);
    const names = streams.map(({ name }) => name);
    return show(request, reply, 'Quarantine', quarantinePage(rows, chosen, clients, names, rowsShown));
  });
  app.get('/audit', async (request, reply) => show(request, reply, 'Audit', auditPage(await readAudit(db, rowsShown))));
}

/** Sends a page. The token of its forms is bound to the browser that asked; a viewer gets no forms that change something. */
function show(
  request: FastifyRequest,
  reply: FastifyReply,
  title: string,
  body: Html | ((csrf: string | null) => Html),
  { live = false }: { readonly live?: boolean } = {},
): FastifyReply {
  const csrf = reply.generateCsrf({ userInfo: formOwner(request) });
  const { said } = z.object({ said: text.catch(undefined) }).parse(request.query);
  const frame = {
    title,
    path: request.url.split('?', 1)[0] ?? '/',
    loggedIn: hasSession(request),
    said: said !== undefined && Object.hasOwn(sayings, said) ? sayings[said] : undefined,
    live,
    csrf,
  };
  const isViewer = request.role === 'viewer';
  const markup = page(frame, typeof body === 'function' ? body(isViewer ? null : csrf) : body);
  return reply.type('text/html').send(isViewer ? maskQuotes(markup) : markup);
}

/** Sends the page of one row, its payload masked unless it was asked for. */
export function showRow(
  request: FastifyRequest,
  reply: FastifyReply,
  row: OutboxDetail,
  revealed: boolean,
): FastifyReply {
  const shown = shownPayload(row, revealed);
  const result = row.result === null || revealed ? row.result : shortenResult(row.result);
  return show(request, reply, `Row ${row.id}`, (csrf) =>
    outboxRowPage({ ...row, result }, shown, revealed, csrf, new Date()),
  );
}
