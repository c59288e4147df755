/**
 * The actions of the pages. Each is a POST with the token of its form, and writes an entry of the
 * audit.
 */

import type { FastifyInstance, FastifyRequest } from 'fastify';
import { z } from 'zod';
import { pushJob, runnableNames } from '../../../config/jobs.ts';
import { isAutomatic } from '../../../config/schedules.ts';
import { type Json, parseObject } from '../../core/json.ts';
import type { Logger } from '../../core/logger.ts';
import type { Database } from '../../db/pool.ts';
import { readSqlState } from '../../db/transaction.ts';
import { findPayloadProblems, readStoredCodes } from '../../push/check-payload.ts';
import { followUpRules, makeKinds } from '../../push/kinds/registry.ts';
import { maxPayloadValues } from '../../push/payload.ts';
import {
  actOnOutbox,
  allowedFrom,
  type OutboxAction,
  replaceOutbox,
  revealOutbox,
} from '../../push/sql/operator-actions.ts';
import { readOutbox } from '../../push/sql/read-outbox.ts';
import { requestRun } from '../../schedule/sql/due-jobs.ts';
import { pauseJob, resumeJob } from '../../schedule/sql/pauses.ts';
import { maxPayloadBytes, nameSenders, requestTimeoutMs } from './access.ts';
import { type AdminDeps, AdminError } from './admin-deps.ts';
import { idSchema } from './routes.ts';
import { makeRowPage, sendPage } from './send-page.ts';

/** Registers the routes of the actions on outbox rows and schedules. */
export function registerActionRoutes(app: FastifyInstance, deps: AdminDeps): void {
  const nameSender = nameSenders(deps.config);
  for (const action of ['retry', 'done', 'cancel'] as const)
    app.post(`/outbox/:id/${action}`, async (request, reply) => {
      const { id } = idSchema.parse(request.params);
      const { sure, result } = actSchema.parse(request.body ?? {});
      const object = parseObject(result);
      if (object === null) throw new AdminError(400, 'The result must be a JSON object');
      await changeRow(
        deps.db,
        action,
        id,
        { isSure: sure !== undefined, result: object },
        nameSender(request),
      );
      logOutboxAction(deps.log, action, id, request);
      return reply.redirect(`/outbox/${id}`, 303);
    });
  app.post('/outbox/:id/replace', { bodyLimit: maxPayloadBytes }, async (request, reply) => {
    const { id } = idSchema.parse(request.params);
    const { payload, sure } = z
      .object({ payload: z.string(), sure: z.string().optional() })
      .parse(request.body);
    const refusal = await findRefusal(deps, id, payload, sure !== undefined);
    if (refusal !== null) {
      reply.code(400);
      return sendPage(request, reply, makeRowPage(refusal.row, false, refusal.draft));
    }
    await replacePayload(deps, id, payload, nameSender(request));
    logOutboxAction(deps.log, 'replace', id, request);
    return reply.redirect(`/outbox/${id}`, 303);
  });
  app.post('/outbox/:id/reveal', async (request, reply) => {
    const { id } = idSchema.parse(request.params);
    const row = await revealOutbox(deps.db, id, nameSender(request));
    if (row === null) throw new AdminError(404, `There is no row ${id} in the outbox`);
    logOutboxAction(deps.log, 'reveal', id, request);
    return sendPage(request, reply, makeRowPage(row, true));
  });
  registerScheduleRoutes(app, deps);
}

/** Logs an action on an outbox row, with the address that it came from. */
const logOutboxAction = (
  log: Logger,
  action: OutboxAction | 'replace' | 'reveal',
  outbox: number,
  { ip }: FastifyRequest,
) => log.info({ event: 'admin_action', action: `outbox_${action}`, outbox, from: ip });

const actSchema = z.object({ sure: z.string().optional(), result: z.string().default('{}') });

/**
 * Retries, marks as done or cancels an outbox row, with an entry of the audit.
 * @throws AdminError if there is no such row, if its state does not allow this, or if it needs a
 *   confirmation
 */
export async function changeRow(
  db: Database,
  action: OutboxAction,
  id: number,
  { isSure, result }: { readonly isSure: boolean; readonly result?: Json },
  by: string,
): Promise<void> {
  const row = await readOutbox(db, id);
  if (row === null) throw new AdminError(404, `There is no row ${id} in the outbox`);
  const undecided = row.status === 'unknown' && row.nextAttemptAt === null;
  if (!isSure && (action !== 'retry' || undecided))
    throw new AdminError(
      400,
      'The box beside the button is not ticked (a tool: sure is not true). Confirm it first: this cannot be undone',
    );
  // Acts only on the state that was checked. Meanwhile the row may have become undecided, which
  // needs the ticked box.
  const seen = { ids: [id], status: row.status, dated: row.nextAttemptAt !== null };
  const changedRows = await actOnOutbox(db, action, seen, {
    by,
    followUps: followUpRules,
    ...(result && { result }),
  });
  if (changedRows.length > 0) return;
  const allowed: readonly string[] = allowedFrom[action];
  if (allowed.includes(row.status))
    throw new AdminError(409, `Row ${id} has changed meanwhile; reload its page and try again`);
  throw new AdminError(
    409,
    `Row ${id} is ${row.status}; this action is possible only from ${allowedFrom[action].join(', ')}`,
  );
}

/**
 * Finds why a payload is not stored: it is no JSON object, or a worker would refuse it and nobody
 * confirmed it.
 */
async function findRefusal({ db, config }: AdminDeps, id: number, text: string, isSure: boolean) {
  const row = await readOutbox(db, id);
  if (row === null) throw new AdminError(404, `There is no row ${id} in the outbox`);
  const kind = makeKinds(config.operations).find(({ name }) => name === row.kind);
  const isObject = parseObject(text, maxPayloadValues) !== null;
  const isChangeable = row.status === 'dead' || row.status === 'pending';
  if (isObject && (isSure || kind === undefined || !isChangeable)) return null;
  const { codes } = await readStoredCodes(db, row.client);
  const context = {
    codes,
    operations: config.operations,
    signal: AbortSignal.timeout(requestTimeoutMs),
  };
  const found =
    kind === undefined ? [] : await findPayloadProblems(kind, text, row.reference, context);
  const problems = isObject ? found : ['The payload must be a JSON object', ...found];
  return problems.length === 0 ? null : { row, draft: { text, problems, mayStore: isObject } };
}

/** @throws AdminError if there is no such row, or if its status does not allow another payload */
async function replacePayload(
  { db }: AdminDeps,
  id: number,
  payload: string,
  by: string,
): Promise<void> {
  try {
    await replaceOutbox(db, id, payload, by);
  } catch (error) {
    if (readSqlState(error) !== '22023' || !(error instanceof Error)) throw error;
    throw new AdminError((await readOutbox(db, id)) === null ? 404 : 409, error.message);
  }
}

/** Returns the path of the schedules with a message that is shown for a few seconds. */
const sayOnce = (said: string) =>
  `/schedules?${new URLSearchParams({ said, at: String(Date.now()) })}`;

/** Registers the routes that pause, resume and run jobs. */
function registerScheduleRoutes(
  app: FastifyInstance,
  { db, config, daemon, log }: AdminDeps,
): void {
  const nameSender = nameSenders(config);
  const parseClientJob = (body: unknown) => {
    const client = z.enum(['', ...config.clients.map(({ key }) => key)]);
    return z.object({ client, job: z.enum(runnableNames) }).parse(body);
  };
  const logScheduleAction = (
    action: string,
    request: FastifyRequest,
    client: string,
    job: string,
  ) =>
    log.info({
      event: 'admin_action',
      action,
      job,
      from: request.ip,
      ...(client === '' ? {} : { client }),
    });
  const changes = [
    ['pause', pauseJob, 'paused'],
    ['resume', resumeJob, 'resumed'],
  ] as const;
  for (const [action, change, logged] of changes)
    app.post(`/schedules/${action}`, async (request, reply) => {
      const { client, job } = parseClientJob(request.body);
      await change(db, job, client === '' ? null : client, nameSender(request));
      logScheduleAction(logged, request, client, job);
      return reply.redirect(sayOnce(action), 303);
    });
  app.post('/schedules/run', async (request, reply) => {
    const { client, job } = parseClientJob(request.body);
    if (job === pushJob.name || !isAutomatic(config.schedules[job]))
      throw new AdminError(
        409,
        `${job} has no schedule at this worker; run it with: fulfilment-sync run ${job} --client ${client}`,
      );
    if (!(await requestRun(db, { client, job }, nameSender(request))))
      throw new AdminError(404, `There is no job ${job} of ${client}`);
    logScheduleAction('run_requested', request, client, job);
    daemon()?.start({ client, job });
    return reply.redirect(sayOnce('run'), 303);
  });
}
