/**
 * The actions of the pages. Each is a POST with the token of its form, and writes an entry of the
 * audit.
 */

import type { FastifyInstance, FastifyRequest } from 'fastify';
import { z } from 'zod';
import { describeIssue } from '../../../config/config-error.ts';
import { pushJob, runnableNames } from '../../../config/jobs.ts';
import { isAutomatic } from '../../../config/schedules.ts';
import { type Json, parseObject } from '../../core/json.ts';
import { recordAudit } from '../../db/audit.ts';
import { connectDatabase, toDirectUrl } from '../../db/connect.ts';
import type { Database } from '../../db/pool.ts';
import { readSqlState } from '../../db/transaction.ts';
import { replayQuarantined } from '../../pull/rescan.ts';
import { readQuarantined } from '../../pull/sql/quarantine.ts';
import { toRescanContext } from '../../pull/stream.ts';
import { streams } from '../../pull/streams/all-streams.ts';
import { findPayloadProblems } from '../../push/check-payload.ts';
import type { PayloadProblem } from '../../push/kind.ts';
import { nameKinds } from '../../push/kinds/registry.ts';
import { maxPayloadValues } from '../../push/payload.ts';
import { readStoredCodes } from '../../push/setting-codes.ts';
import { acceptDatabase } from '../../push/sql/accept-database.ts';
import {
  actOnOutbox,
  allowedFrom,
  findCancelProblem,
  type OutboxAction,
  replaceOutbox,
  revealOutbox,
} from '../../push/sql/operator-actions.ts';
import { isChangeFound, readPushDatabase } from '../../push/sql/push-database.ts';
import { readOutbox } from '../../push/sql/read-outbox.ts';
import type { RunContext } from '../../schedule/run.ts';
import { requestRun } from '../../schedule/sql/due-jobs.ts';
import { pauseJob, resumeJob } from '../../schedule/sql/pauses.ts';
import { maxPayloadBytes, nameSenders, requestTimeoutMs } from './access.ts';
import { type AdminDeps, AdminError } from './admin-deps.ts';
import { idSchema, readQuarantineRow } from './routes.ts';
import { makeRowPage, sendPage } from './send-page.ts';

/** What the actions use. */
interface ActionDeps extends AdminDeps {
  /** Returns the sender of a request, for the audit. */
  readonly nameSender: (request: FastifyRequest) => string;
  /** Logs an action, with the address that it came from. */
  readonly logAction: (request: FastifyRequest, action: string, fields?: object) => void;
}

/** Registers the routes of all actions. */
export function registerActionRoutes(app: FastifyInstance, adminDeps: AdminDeps): void {
  const deps: ActionDeps = {
    ...adminDeps,
    nameSender: nameSenders(adminDeps.config),
    logAction: ({ ip: from }, action, fields) =>
      adminDeps.log.info({ event: 'admin_action', action, ...fields, from }),
  };
  registerOutboxRoutes(app, deps);
  registerScheduleRoutes(app, deps);
  registerQuarantineRoute(app, deps);
  registerDatabaseRoute(app, deps);
}

/** Registers the routes that change rows of the outbox. */
function registerOutboxRoutes(app: FastifyInstance, deps: ActionDeps): void {
  const { db, nameSender } = deps;
  const logOutboxAction = (request: FastifyRequest, action: string, outbox: number) =>
    deps.logAction(request, `outbox_${action}`, { outbox });

  for (const action of ['retry', 'done', 'cancel'] as const)
    app.post(`/outbox/:id/${action}`, async (request, reply) => {
      const { id } = idSchema.parse(request.params);
      const form = readForm(actionForm, request.body ?? {});
      const result = parseObject(form.result);
      if (result === null) throw new AdminError(400, 'The result must be a JSON object');

      const isSure = form.sure !== undefined;
      await changeRow(db, id, action, { isSure, result, by: nameSender(request) });
      logOutboxAction(request, action, id);
      return reply.redirect(`/outbox/${id}`, 303);
    });

  app.post('/outbox/:id/replace', { bodyLimit: maxPayloadBytes }, async (request, reply) => {
    const { id } = idSchema.parse(request.params);
    const { payload, sure } = readForm(payloadForm, request.body);
    const refusal = await findRefusal(deps, id, payload, sure !== undefined);
    if (refusal !== null) {
      reply.code(400);
      return sendPage(request, reply, makeRowPage(refusal.row, false, refusal.draft));
    }

    await replacePayload(deps, id, payload, nameSender(request));
    logOutboxAction(request, 'replace', id);
    return reply.redirect(`/outbox/${id}`, 303);
  });

  app.post('/outbox/:id/check', { bodyLimit: maxPayloadBytes }, async (request, reply) => {
    const { id } = idSchema.parse(request.params);
    const { payload } = readForm(payloadForm, request.body);
    const refusal = await findRefusal(deps, id, payload, false);
    const row = refusal?.row ?? (await readOutbox(db, id));
    if (row === null) throw noSuchRow(id);

    const isKnown = nameKinds(deps.config.operations).has(row.kind);
    const problems = isKnown ? [] : [{ path: [], text: `There is no kind ${row.kind}` }];
    const draft = refusal?.draft ?? { text: payload, problems, mayStore: false };
    return sendPage(request, reply, makeRowPage(row, false, draft));
  });

  app.post('/outbox/selected', async (request, reply) => {
    const { ids, action, sure } = readForm(selectionForm, request.body);
    const refused = [];
    for (const id of ids)
      try {
        await changeRow(db, id, action, { isSure: sure !== undefined, by: nameSender(request) });
        logOutboxAction(request, action, id);
      } catch (error) {
        if (!(error instanceof AdminError)) throw error;
        refused.push(id);
      }

    return reply.redirect(sayOnce('/outbox', refused.length === 0 ? 'all' : 'some'), 303);
  });

  app.post('/outbox/:id/reveal', async (request, reply) => {
    const { id } = idSchema.parse(request.params);
    const row = await revealOutbox(db, id, nameSender(request));
    if (row === null) throw noSuchRow(id);

    logOutboxAction(request, 'reveal', id);
    return sendPage(request, reply, makeRowPage(row, true));
  });
}

/** Reads a form. What is wrong with it is said in plain words. */
const readForm = <T>(form: z.ZodType<T>, body: unknown): T =>
  form.parse(body, { error: describeIssue });

const noSuchRow = (id: number) => new AdminError(404, `There is no row ${id} in the outbox`);

const actionForm = z.object({ sure: z.string().optional(), result: z.string().default('{}') });
/** Maximum number of rows that one form changes: those of a list. */
const maxSelected = 100;
const selectedId = z.coerce.number().int().positive();
const selectionForm = z.object({
  ids: z.preprocess(
    (ids) => (Array.isArray(ids) ? ids : [ids]),
    z.array(selectedId, 'must name selected rows').max(maxSelected),
  ),
  action: z.enum(['retry', 'cancel']),
  sure: z.string().optional(),
});
const payloadForm = z.object({ payload: z.string(), sure: z.string().optional() });

/** How an action is carried out. */
interface ActionTerms {
  /** True if a person confirmed it. */
  readonly isSure: boolean;
  /** The result that a row gets that is marked as done. */
  readonly result?: Json;
  /** Name for the audit. */
  readonly by: string;
}

/**
 * Retries, marks as done or cancels an outbox row, with an entry of the audit.
 * @throws AdminError if there is no such row, if its state does not allow this, or if it needs a
 *   confirmation
 */
export async function changeRow(
  db: Database,
  id: number,
  action: OutboxAction,
  { isSure, result, by }: ActionTerms,
): Promise<void> {
  const row = await readOutbox(db, id);
  if (row === null) throw noSuchRow(id);

  const isUndecided = row.status === 'unknown' && row.nextAttemptAt === null;
  if (!isSure && (action !== 'retry' || isUndecided)) {
    const unsure = 'The box beside the button is not ticked (a tool: sure is not true)';
    throw new AdminError(400, `${unsure}. Confirm it first: this cannot be undone`);
  }

  // Acts only on the state that was checked. Meanwhile the row may have become undecided, which
  // needs the ticked box.
  const checked = { ids: [id], status: row.status, dated: row.nextAttemptAt !== null };
  const changedRows = await actOnOutbox(db, action, checked, { by, result });
  if (changedRows.length > 0) return;

  const problem = action === 'cancel' ? await findCancelProblem(db, id) : null;
  if (problem !== null) throw new AdminError(409, `Row ${id} cannot be cancelled: ${problem}`);

  const allowed: readonly string[] = allowedFrom[action];
  if (allowed.includes(row.status))
    throw new AdminError(409, `Row ${id} has changed meanwhile; reload its page and try again`);
  const possible = `this action is possible only from ${allowed.join(', ')}`;
  throw new AdminError(409, `Row ${id} is ${row.status}; ${possible}`);
}

/**
 * Finds why a payload is not stored: it is no JSON object, or a worker would refuse it and nobody
 * confirmed it.
 */
async function findRefusal({ db, config }: AdminDeps, id: number, text: string, isSure: boolean) {
  const row = await readOutbox(db, id);
  if (row === null) throw noSuchRow(id);

  const { operations } = config;
  const kind = nameKinds(operations).get(row.kind);
  const isObject = parseObject(text, maxPayloadValues) !== null;
  const isChangeable = row.status === 'dead' || row.status === 'pending';
  if (isObject && (isSure || kind === undefined || !isChangeable)) return null;

  const problems: PayloadProblem[] = [];
  if (!isObject) problems.push({ path: [], text: 'The payload must be a JSON object' });
  if (kind !== undefined) {
    const { codes } = await readStoredCodes(db, row.client);
    const signal = AbortSignal.timeout(requestTimeoutMs);
    const context = { codes, owner: 'pages', operations, signal };
    const found = await findPayloadProblems(
      kind,
      { payload: text, reference: row.reference },
      context,
    );
    for (const problem of found) problems.push(problem);
  }

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

/** Registers the route that decodes a resource in quarantine again. */
function registerQuarantineRoute(
  app: FastifyInstance,
  { db, config, daemon, nameSender, logAction }: ActionDeps,
): void {
  app.post('/quarantine/:id/replay', async (request, reply) => {
    const { id } = idSchema.parse(request.params);
    const { client, stream: name } = await readQuarantineRow(db, id);
    const stream = streams.find((one) => one.name === name);
    const worker = daemon();
    if (stream === undefined || !config.clients.some(({ key }) => key === client))
      throw new AdminError(409, `No worker here can decode ${name} of ${client} again`);
    if (worker === null) throw new AdminError(503, 'The worker has not started yet; try again');

    const detail = `row ${id} of ${name}`;
    const action = 'quarantine_replayed';
    await recordAudit(db, { by: nameSender(request), action, client, detail });
    logAction(request, action, { client });
    const run = (context: RunContext) => replayQuarantined(toRescanContext(context, stream), id);
    const work = { name: 'replay', schedule: { kind: 'on-request' }, run } as const;
    const report = await worker.runFor(client, work);
    if (report.status !== 'done')
      throw new AdminError(409, `The run was ${report.status}; see its reason at Runs`);

    const isKept = (await readQuarantined(db, id)) !== null;
    const path = isKept ? sayOnce(`/quarantine/${id}`, 'kept') : sayOnce('/quarantine', 'released');
    return reply.redirect(path, 303);
  });
}

/** Registers the route that accepts a changed database, at the address that pushes use. */
function registerDatabaseRoute(
  app: FastifyInstance,
  { config, log, nameSender, logAction }: ActionDeps,
): void {
  app.post('/database/accept', async (request, reply) => {
    const { as } = readForm(acceptForm, request.body);
    const { db, close } = connectDatabase(toDirectUrl(config), log, { name: 'accept', max: 1 });
    try {
      const found = await readPushDatabase(db);
      const isCopy = found?.acceptedAs === 'copy' && found.change === 'none';
      if (found === null || isCopy || !isChangeFound(found))
        throw new AdminError(409, 'No change is found: there is nothing to accept');
      await acceptDatabase(db, as, nameSender(request));
    } finally {
      await close();
    }

    logAction(request, 'database_accepted');
    return reply.redirect(sayOnce('/database', as), 303);
  });
}

const acceptForm = z.object({
  as: z.enum(['moved', 'restored', 'copy']),
  sure: z.string('The box beside the button is not ticked'),
});

/** Returns the path of a page with a message that is shown for a few seconds. */
const sayOnce = (path: string, said: string) =>
  `${path}?${new URLSearchParams({ said, at: String(Date.now()) })}`;

/** Registers the routes that pause, resume and run jobs. */
function registerScheduleRoutes(
  app: FastifyInstance,
  { db, config, daemon, nameSender, logAction }: ActionDeps,
): void {
  // The client is empty if the action is about every client.
  const jobForm = z.object({
    client: z.enum(['', ...config.clients.map(({ key }) => key)]),
    job: z.enum(runnableNames),
  });
  const logJobAction = (request: FastifyRequest, action: string, job: string, client: string) =>
    logAction(request, action, { ...(client !== '' && { client }), job });

  const changes = { pause: [pauseJob, 'paused'], resume: [resumeJob, 'resumed'] } as const;
  for (const [name, [change, action]] of Object.entries(changes))
    app.post(`/schedules/${name}`, async (request, reply) => {
      const { client, job } = readForm(jobForm, request.body);
      await change(db, job, client || null, nameSender(request));
      logJobAction(request, action, job, client);
      return reply.redirect(sayOnce('/schedules', name), 303);
    });

  app.post('/schedules/run', async (request, reply) => {
    const { client, job } = readForm(jobForm, request.body);
    if (job === pushJob.name || !isAutomatic(config.schedules[job])) {
      const command = `fulfilment-sync run ${job} --client ${client}`;
      throw new AdminError(409, `${job} has no schedule at this worker; run it with: ${command}`);
    }

    if (!(await requestRun(db, { client, job }, nameSender(request))))
      throw new AdminError(404, `There is no job ${job} of ${client}`);

    logJobAction(request, 'run_requested', job, client);
    daemon()?.startDue(job);
    return reply.redirect(sayOnce('/schedules', 'run'), 303);
  });
}
