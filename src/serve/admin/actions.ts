/**
 * The actions of the pages. Each is a POST with the token of its form, and writes an entry of the
 * audit.
 */

import type { FastifyInstance, FastifyRequest } from 'fastify';
import { z } from 'zod';
import { describeIssue } from '../../../config/config-error.ts';
import { pushJob, runnableNames } from '../../../config/jobs.ts';
import { isAutomatic } from '../../../config/schedules.ts';
import { parseObject } from '../../core/json.ts';
import { recordAudit } from '../../db/audit.ts';
import { connectDatabase, toDirectUrl } from '../../db/connect.ts';
import { replayQuarantined } from '../../pull/refetch.ts';
import { readQuarantined } from '../../pull/sql/quarantine.ts';
import { toRescanContext } from '../../pull/stream.ts';
import { streams } from '../../pull/streams/all-streams.ts';
import { maxPayloadValues } from '../../push/payload.ts';
import { revealOutbox } from '../../push/sql/operator-actions.ts';
import { acceptDatabase, isChangeFound, readPushDatabase } from '../../push/sql/push-database.ts';
import type { OutboxDetail } from '../../push/sql/read-outbox.ts';
import type { RunContext } from '../../schedule/run.ts';
import { requestRun } from '../../schedule/sql/due-jobs.ts';
import { pauseJob, resumeJob } from '../../schedule/sql/pauses.ts';
import type { PayloadDraft } from '../pages/outbox-page.ts';
import { catchRefusal, RequestError } from '../request-error.ts';
import { changeRow, findReplacementProblems, replacePayload, requireRow } from '../row-actions.ts';
import { maxPayloadBytes, nameSenders, requestTimeoutMs } from './access.ts';
import type { AdminDeps } from './admin-deps.ts';
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
      if (result === null) throw new RequestError(400, 'The result must be a JSON object');

      const isSure = form.sure !== undefined;
      const row = await requireRow(db, id);
      await changeRow(db, row, action, { isSure, result, by: nameSender(request) });
      logOutboxAction(request, action, id);
      return reply.redirect(`/outbox/${id}`, 303);
    });

  app.post('/outbox/:id/replace', { bodyLimit: maxPayloadBytes }, async (request, reply) => {
    const { id } = idSchema.parse(request.params);
    const { payload, sure } = readForm(payloadForm, request.body);
    const row = await requireRow(db, id);
    const draft = await findRefusal(deps, row, payload, sure !== undefined);
    if (draft !== null) {
      reply.code(400);
      return sendPage(request, reply, makeRowPage(row, false, draft));
    }

    await replacePayload(db, id, payload, nameSender(request));
    logOutboxAction(request, 'replace', id);
    return reply.redirect(`/outbox/${id}`, 303);
  });

  app.post('/outbox/selected', async (request, reply) => {
    const { ids, action, sure } = readForm(selectionForm, request.body);
    const terms = { isSure: sure !== undefined, by: nameSender(request) };
    let said = 'all';
    for (const id of ids) {
      const change = async () => changeRow(db, await requireRow(db, id), action, terms);
      if ((await change().catch(catchRefusal)) === undefined) logOutboxAction(request, action, id);
      else said = 'some';
    }

    return reply.redirect(sayOnce('/outbox', said), 303);
  });

  app.post('/outbox/:id/reveal', async (request, reply) => {
    const { id } = idSchema.parse(request.params);
    const row = (await revealOutbox(db, id, nameSender(request))) ?? (await requireRow(db, id));

    logOutboxAction(request, 'reveal', id);
    return sendPage(request, reply, makeRowPage(row, true));
  });
}

/** Reads a form. What is wrong with it is said in plain words. */
const readForm = <T>(form: z.ZodType<T>, body: unknown): T =>
  form.parse(body, { error: describeIssue });

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

/**
 * Finds why a payload is not stored: it is no JSON object, or a worker would refuse it and nobody
 * confirmed it.
 */
async function findRefusal(
  { db, config }: AdminDeps,
  row: OutboxDetail,
  text: string,
  isSure: boolean,
): Promise<PayloadDraft | null> {
  const isObject = parseObject(text, maxPayloadValues) !== null;
  if (isObject && isSure) return null;

  const { operations } = config;
  const signal = AbortSignal.timeout(requestTimeoutMs);
  const context = { owner: 'pages', operations, signal };
  const problems = [...(await findReplacementProblems(db, row, text, context))];
  if (!isObject) problems.unshift({ path: [], text: 'The payload must be a JSON object' });

  return problems.length === 0 ? null : { text, problems, mayStore: isObject };
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
      throw new RequestError(409, `No worker here can decode ${name} of ${client} again`);
    if (worker === null) throw new RequestError(503, 'The worker has not started yet; try again');

    const detail = `row ${id} of ${name}`;
    const action = 'quarantine_replayed';
    await recordAudit(db, { by: nameSender(request), action, client, detail });
    logAction(request, action, { client });
    const run = async (context: RunContext) => {
      await replayQuarantined(toRescanContext(context, stream), id);
    };
    const work = { name: 'replay', schedule: { kind: 'on-request' }, run } as const;
    const report = await worker.runFor(client, work);
    if (report.status !== 'done')
      throw new RequestError(409, `The run was ${report.status}; see its reason at Runs`);

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
        throw new RequestError(409, 'No change is found: there is nothing to accept');
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
      throw new RequestError(409, `${job} has no schedule at this worker; run it with: ${command}`);
    }

    if (!(await requestRun(db, { client, job }, nameSender(request))))
      throw new RequestError(404, `There is no job ${job} of ${client}`);

    logJobAction(request, 'run_requested', job, client);
    daemon()?.startDue(job);
    return reply.redirect(sayOnce('/schedules', 'run'), 303);
  });
}
