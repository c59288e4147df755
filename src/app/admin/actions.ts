import type { FastifyInstance, FastifyRequest } from 'fastify';
import { z } from 'zod';
import { jobNames, pushJob } from '../../../config/jobs.ts';
import { comesByItself } from '../../../config/schedules.ts';
import { type Json, parseObject } from '../../core/json.ts';
import { sqlState } from '../../erp/connection/transaction.ts';
import {
  actOnOutbox,
  allowedFrom,
  type OutboxAction,
  replaceOutbox,
  revealOutbox,
} from '../../erp/outbox/operator-actions.ts';
import { readOutbox } from '../../erp/outbox/read-outbox.ts';
import { requestRun } from '../../erp/runs/due-jobs.ts';
import { pauseJob, resumeJob } from '../../erp/runs/pauses.ts';
import { followUpRules } from '../../sync/push/kinds/registry.ts';
import type { Logger } from '../logging/logger.ts';
import { nameSenders } from './access/identity.ts';
import { maxPayloadBytes } from './access/request-limits.ts';
import type { AdminDeps } from './admin-deps.ts';
import { AdminError } from './admin-error.ts';
import { idSchema, showRow } from './routes.ts';

/** What the pages can change: each by a POST with the token of its form, each with a row in sync.audit. */
export function actionRoutes(app: FastifyInstance, deps: AdminDeps): void {
  const byOf = nameSenders(deps.config);
  for (const action of ['retry', 'done', 'cancel'] as const)
    app.post(`/outbox/:id/${action}`, async (request, reply) => {
      const { id } = idSchema.parse(request.params);
      await act(deps, action, id, request, byOf(request));
      return reply.redirect(`/outbox/${id}?said=${action}`, 303);
    });
  app.post('/outbox/:id/replace', { bodyLimit: maxPayloadBytes }, async (request, reply) => {
    const { id } = idSchema.parse(request.params);
    const { payload } = z.object({ payload: z.string() }).parse(request.body);
    objectOf(payload, 'payload');
    await replace(deps, id, payload, byOf(request));
    noted(deps.log, 'replace', id, request);
    return reply.redirect(`/outbox/${id}?said=replace`, 303);
  });
  app.post('/outbox/:id/reveal', async (request, reply) => {
    const { id } = idSchema.parse(request.params);
    const row = await revealOutbox(deps.db, id, byOf(request));
    if (row === null) throw new AdminError(404, `There is no row ${id} in the outbox`);
    noted(deps.log, 'reveal', id, request);
    return showRow(request, reply, row, true);
  });
  scheduleRoutes(app, deps);
}

const noted = (log: Logger, action: OutboxAction | 'replace' | 'reveal', outbox: number, { ip }: FastifyRequest) =>
  log.info({ event: 'admin_action', action: `outbox_${action}`, outbox, from: ip });

const actSchema = z.object({ sure: z.string().optional(), result: z.string().default('{}') });

async function act(
  { db, log }: AdminDeps,
  action: OutboxAction,
  id: number,
  request: FastifyRequest,
  by: string,
): Promise<void> {
  const { sure, result } = actSchema.parse(request.body ?? {});
  const row = await readOutbox(db, id);
  if (row === null) throw new AdminError(404, `There is no row ${id} in the outbox`);
  const undecided = row.status === 'unknown' && row.nextAttemptAt === null;
  if (sure === undefined && (action !== 'retry' || undecided))
    throw new AdminError(400, 'Tick the box beside the button: this cannot be taken back');
  // As it was seen: meanwhile it may have become one of which a person has to say first what became of it.
  const seen = { ids: [id], status: row.status, dated: row.nextAttemptAt !== null };
  const done = await actOnOutbox(db, action, seen, {
    by,
    followUps: followUpRules,
    result: objectOf(result, 'result'),
  });
  if (done.length > 0) return noted(log, action, id, request);
  const allowed: readonly string[] = allowedFrom[action];
  if (allowed.includes(row.status)) throw new AdminError(409, `Row ${id} changed just now; look at it again`);
  throw new AdminError(
    409,
    `Row ${id} is ${row.status} by now; that can be done only from ${allowedFrom[action].join(', ')}`,
  );
}

async function replace({ db }: AdminDeps, id: number, payload: string, by: string): Promise<void> {
  try {
    await replaceOutbox(db, id, payload, by);
  } catch (error) {
    if (sqlState(error) !== '22023' || !(error instanceof Error)) throw error;
    throw new AdminError((await readOutbox(db, id)) === null ? 404 : 409, error.message);
  }
}

/** @throws AdminError where the text is no JSON object */
function objectOf(text: string, name: string): Json {
  const value = parseObject(text);
  if (value === null) throw new AdminError(400, `The ${name} must be a JSON object`);
  return value;
}

function scheduleRoutes(app: FastifyInstance, { db, config, daemon, log }: AdminDeps): void {
  const byOf = nameSenders(config);
  const clients = config.clients.map(({ key }) => key);
  const turnSchema = z.object({
    client: z.enum(['', ...clients]),
    job: z.enum([...jobNames, pushJob.name]),
  });
  const noteTurn = (action: string, request: FastifyRequest, client: string, job: string) =>
    log.info({ event: 'admin_action', action, job, from: request.ip, ...(client === '' ? {} : { client }) });
  app.post('/schedules/pause', async (request, reply) => {
    const { client, job } = turnSchema.parse(request.body);
    await pauseJob(db, job, client === '' ? null : client, byOf(request));
    noteTurn('paused', request, client, job);
    return reply.redirect('/schedules?said=pause', 303);
  });
  app.post('/schedules/resume', async (request, reply) => {
    const { client, job } = turnSchema.parse(request.body);
    await resumeJob(db, job, client === '' ? null : client, byOf(request));
    noteTurn('resumed', request, client, job);
    return reply.redirect('/schedules?said=resume', 303);
  });
  app.post('/schedules/run', async (request, reply) => {
    const { client, job } = turnSchema.parse(request.body);
    if (job === pushJob.name || !comesByItself(config.schedules[job]))
      throw new AdminError(
        409,
        `${job} does not come by itself at this worker; run it with: fulfilment-sync run ${job} --client ${client}`,
      );
    if (!(await requestRun(db, { client, job }, byOf(request))))
      throw new AdminError(404, `There is no job ${job} of ${client}`);
    noteTurn('run_requested', request, client, job);
    daemon()?.wakeClient(client);
    return reply.redirect('/schedules?said=run', 303);
  });
}
