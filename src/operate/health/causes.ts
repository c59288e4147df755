/**
 * Finds what keeps jobs and rows from being done. Everything else that is wrong at the same time
 * and follows from such a cause is shown under it, so that one cause is one problem.
 */

import { hostname } from 'node:os';
import { pauses } from '../../core/backoff.ts';
import { type Failure, isOutage } from '../../core/errors.ts';
import { readOnlyRemedy } from '../../core/library-messages.ts';
import { formatSpan, minuteMs } from '../../core/time.ts';
import type { KnownClient } from '../../service/sql/clients.ts';
import {
  clientScope,
  everyWorker,
  isHeld,
  type StoredHealth,
} from '../../service/sql/service-health.ts';
import { lacksTokenPath } from '../../service/transport/auth.ts';
import type { JobStatus } from '../sql/job-status.ts';
import {
  createProblem,
  formatClock,
  formatCount,
  formatMinutes,
  isLasting,
  judgeUrgency,
  limits,
  listSome,
  type Problem,
  type ProblemCode,
} from './problem.ts';
import type { CurrentState, LateJob } from './state.ts';

/**
 * A problem that causes others: the failures of some jobs, and problems of its clients by their
 * codes.
 */
interface Cause {
  readonly problem: Problem;
  readonly failing?: readonly JobStatus[];
  /** Clients that wait because of it; by default the one of the problem. */
  readonly clients?: readonly (string | null)[];
  readonly codes?: readonly ProblemCode[];
}

/** Returns true if a problem follows from a cause. */
export function isExplained(
  other: Problem,
  { problem, failing = [], clients = [problem.client], codes = [] }: Cause,
): boolean {
  if (clients.includes(other.client) && codes.includes(other.code)) return true;

  const isOfJob = other.code === 'job_failing' || waitingCodes.includes(other.code);
  const isSubject = ({ client, job, stream }: JobStatus) =>
    [`${client} ${job}`, `${client} ${stream}`].includes(other.subject);
  return isOfJob && failing.some(isSubject);
}

/** What is known of one client. */
interface ClientState {
  readonly client: string;
  readonly known: KnownClient;
  /** Failing jobs. */
  readonly failing: readonly FailingJob[];
  /** Jobs that are late because they did not run. */
  readonly late: readonly LateJob[];
  /** Health of the whole client, and of its kinds and jobs. */
  readonly whole: readonly StoredHealth[];
  readonly parts: readonly StoredHealth[];
  readonly waitingRows: number;
  /** True if a run is under way, or began less than a minute ago. */
  readonly isRun: boolean;
  /** When the service last answered a whole poll. */
  readonly answeredAtMs: number;
  readonly now: Date;
}

interface FailingJob extends JobStatus {
  /** How its last run failed. */
  readonly failure: Failure;
  readonly failingSince: Date;
}

/** Finds the causes of a state. A cause that comes first explains more than a later one. */
export function findCauses(state: CurrentState): Cause[] {
  const { snapshot, clockSkewMs, diskFullSince } = state;
  const { clients, now, readOnly } = snapshot;
  const failing = findFailingJobs(snapshot);
  const states = clients.map((known) => toClientState(known, failing, state));
  // While nothing can be written, workers cannot record that they serve a client.
  const lost = readOnly ? [] : findLostWorker(states.filter(isUnserved), now);
  const stuck = [
    ...findReadOnlyDatabase(clients, readOnly),
    ...findFullDatabase(clients, failing, diskFullSince, now),
  ];

  return [
    ...findWrongClock(clockSkewMs).map((problem) => ({ problem })),
    ...stuck,
    // A queue in a database that cannot write fails, too.
    ...(stuck.length > 0 ? [] : findAwayQueue(clients, now)),
    ...lost,
    ...states.flatMap((one) => findClientCauses(one, lost)),
  ];
}

/** Returns the jobs whose last run failed. */
function findFailingJobs({ jobs, now }: CurrentState['snapshot']): FailingJob[] {
  return jobs.flatMap((job) => {
    const { lastError: words, lastCode: code, failingSince, lastStartedAt } = job;
    if (words === null || code === null) return [];
    const failure = { code, httpStatus: job.lastHttpStatus, operation: job.lastOperation, words };
    return [{ ...job, failure, failingSince: failingSince ?? lastStartedAt ?? now }];
  });
}

function toClientState(
  known: KnownClient,
  failing: readonly FailingJob[],
  { snapshot, stale, isScheduled }: CurrentState,
): ClientState {
  const { jobs, outbox, holds, now } = snapshot;
  const { client } = known;
  const isOurs = (of: { readonly client: string | null }) => of.client === client;

  const rows = outbox.find(isOurs);
  const waitingRows =
    rows === undefined ? 0 : rows.pending + rows.sending + rows.unknown - rows.toDecide;
  // A hold that is over slows nothing down if no row waits.
  const ours = holds.filter(
    (hold) => isOurs(hold) && !isOfEndedWorker(hold) && (isHeld(hold) || waitingRows > 0),
  );
  const polls = jobs.filter((job) => isOurs(job) && job.stream !== null);
  const answeredAtMs = polls.reduce(
    (last, { lastSuccessAt }) => Math.max(last, lastSuccessAt?.getTime() ?? 0),
    0,
  );

  return {
    ...{ client, known, waitingRows, answeredAtMs, now },
    isRun: jobs.some(
      (job) =>
        isOurs(job) &&
        (job.running || now.getTime() - Number(job.lastStartedAt) < limits.unservedMs),
    ),
    failing: failing.filter((job) => isOurs(job) && isScheduled(client, job.job)),
    late: stale.filter((job) => isOurs(job) && job.because === 'not run'),
    whole: ours.filter(({ scope }) => scope === clientScope),
    parts: ours.filter(({ scope }) => scope !== clientScope),
  };
}

/**
 * Returns true if a hold concerns one worker that has ended: a worker that runs asks the service
 * within a few seconds after its hold is over.
 */
const isOfEndedWorker = ({ worker, untilInMs }: StoredHealth): boolean =>
  worker !== everyWorker && untilInMs < -limits.unaskedMs;

/** Finds the causes of one client. What an earlier cause explains is no sign of a later one. */
function findClientCauses(state: ClientState, earlier: readonly Cause[]): Cause[] {
  const finders = [
    ...[findParkedClient, findRefusedCredentials, findAwayService],
    ...[findLimit, findFailingOperations, findTakenSlots],
  ];
  const causes: Cause[] = [];

  for (const find of finders) {
    const failing = state.failing.filter(
      (job) => ![...earlier, ...causes].some((cause) => cause.failing?.includes(job)),
    );
    for (const cause of find({ ...state, failing })) causes.push(cause);
  }
  return causes;
}

function findWrongClock(skewMs: number): Problem[] {
  if (Math.abs(skewMs) <= limits.clockSkewMs) return [];
  const span = `${formatSpan(Math.abs(skewMs) / 1_000)} ${skewMs > 0 ? 'ahead of' : 'behind'}`;
  const text = `the clock of ${hostname()} is ${span} the database's`;
  const remedy = 'synchronise both with NTP';
  return [createProblem('clock_wrong', { client: null }, text, { remedy })];
}

/** What a process knows by itself. */
interface OwnState {
  readonly skewMs: number;
  readonly diskFullSince: Date | null;
  readonly readOnly: boolean;
}

/**
 * Finds what only this process can see, or what no table can hold while it lasts. Needs no table.
 */
export const findOwnProblems = (
  { skewMs, diskFullSince, readOnly }: OwnState,
  now: Date,
): Problem[] => [
  ...findWrongClock(skewMs),
  ...(readOnly ? [makeReadOnlyProblem()] : []),
  ...(diskFullSince === null ? [] : [makeFullDatabaseProblem(diskFullSince, now)]),
];

/** Finds a database that takes no writes: nothing is pulled, pushed, numbered or delivered. */
function findReadOnlyDatabase(clients: readonly KnownClient[], readOnly: boolean): Cause[] {
  if (!readOnly) return [];
  const everything = [null, ...clients.map(({ client }) => client)];
  return [{ problem: makeReadOnlyProblem(), clients: everything, codes: unwrittenCodes }];
}

const makeReadOnlyProblem = (): Problem =>
  createProblem(
    'database_read_only',
    { client: null },
    'the database takes no writes at present; nothing is lost',
    { remedy: readOnlyRemedy },
  );

/**
 * Finds a full disk: by the failures of jobs, or, as those can often not be recorded, by what this
 * worker has met.
 */
function findFullDatabase(
  clients: readonly KnownClient[],
  failing: readonly FailingJob[],
  metSince: Date | null,
  now: Date,
): Cause[] {
  const hit = failing.filter(({ failure }) => failure.code === 'disk_full');
  if (hit.length === 0 && metSince === null) return [];

  const since = findEarliest([metSince, ...hit.map(({ failingSince }) => failingSince)], now);
  const problem = makeFullDatabaseProblem(since, now);
  return [
    { problem, failing: hit, clients: clients.map(({ client }) => client), codes: waitingCodes },
  ];
}

function makeFullDatabaseProblem(since: Date, now: Date): Problem {
  // Who has just met it does not know how long it lasts.
  const begin =
    now.getTime() - since.getTime() < minuteMs ? '' : ` since ${formatClock(since, now)}`;
  const text = `the disk of Postgres is full${begin}; nothing is lost`;
  const remedy = 'free space, or enlarge the disk; the workers then continue by themselves';
  return createProblem('database_full', { client: null }, text, { remedy, since });
}

/** Finds that the queue does not answer a worker. The sweep then starts what is due. */
function findAwayQueue(clients: readonly KnownClient[], now: Date): Cause[] {
  const away = clients.filter((known) => known.queueAwaySince !== null && isServed({ known, now }));
  const [first] = away.toSorted((a, b) => Number(a.queueAwaySince) - Number(b.queueAwaySince));
  if (first === undefined) return [];

  const since = formatClock(first.queueAwaySince ?? now, now);
  const text =
    `the queue has failed since ${since}: ${first.queueError};` +
    ' runs begin a few seconds late, and nothing is lost';
  const remedy = 'check Redis, if REDIS_URL is set; the workers fill the queue again by themselves';
  const more = { remedy, since: first.queueAwaySince };
  return [{ problem: createProblem('queue_away', { client: null }, text, more) }];
}

/** Finds another account than the accepted one: the client is neither pulled nor pushed. */
function findParkedClient({ client, known: { baseUrl, offeredBaseUrl } }: ClientState): Cause[] {
  if (offeredBaseUrl === null) return [];

  const text =
    `parked: a worker or command is set up with ${offeredBaseUrl},` +
    ` but the rows of the client come from ${baseUrl}`;
  const remedy = 'correct the setting, or accept the account; see: fulfilment-sync client list';
  const problem = createProblem('client_parked', { client }, text, { remedy });
  return [{ problem, codes: waitingCodes }];
}

const isServed = ({ known: { servedAt }, now }: Pick<ClientState, 'known' | 'now'>) =>
  servedAt !== null && now.getTime() - servedAt.getTime() < limits.unservedMs;

/** Returns the failing jobs that nobody tries again. */
const listOverdue = ({ failing, now }: ClientState) =>
  failing.filter(
    ({ dueAt, pausedSince }) =>
      pausedSince === null && dueAt !== null && now.getTime() - dueAt.getTime() > limits.unservedMs,
  );

/**
 * Returns true if no worker serves a client that has something to do. A worker that only pulls is
 * seen by its runs.
 */
function isUnserved(state: ClientState): boolean {
  const { known, late, waitingRows, isRun, now } = state;
  const isNew =
    known.servedAt === null && now.getTime() - known.acceptedAt.getTime() < limits.unservedMs;
  const waitingJobs = isRun ? 0 : listOverdue(state).length + late.length;
  const isIdle = waitingJobs + waitingRows === 0;
  return !isServed(state) && !isNew && known.offeredBaseUrl === null && !isIdle;
}

/**
 * Finds that no worker serves some clients. A lost worker is one problem, however many clients it
 * had.
 */
function findLostWorker(unserved: readonly ClientState[], now: Date): Cause[] {
  if (unserved.length === 0) return [];

  const clients = unserved.map(({ client }) => client);
  const [only = null] = clients.length === 1 ? clients : [];
  const [whom, these] =
    only === null
      ? [`${clients.length} clients (${listSome(clients)})`, 'these clients']
      : ['this client', 'this client'];

  const servedAt = unserved.flatMap(({ known }) => known.servedAt ?? []);
  const since = servedAt.length === 0 ? null : findEarliest(servedAt, now);
  const service =
    since === null
      ? `has ever served ${whom}`
      : `has served ${whom} since ${formatClock(since, now)}`;
  const failing = unserved.flatMap(listOverdue);
  const waiting = describeWaiting({
    failing,
    late: unserved.flatMap(({ late }) => late),
    waitingRows: unserved.reduce((sum, { waitingRows }) => sum + waitingRows, 0),
  });

  const text = `no worker ${service}${waiting} and nothing is lost`;
  const remedy = `start a worker that has ${these} in its configuration`;
  const problem = createProblem('worker_lost', { client: only }, text, { remedy, since });
  const subject = only === null ? 'several clients' : problem.subject;
  const codes: ProblemCode[] = [...waitingCodes, 'stream_rescan'];
  return [{ problem: { ...problem, subject }, failing, clients, codes }];
}

function findRefusedCredentials(state: ClientState): Cause[] {
  const { client, whole, now } = state;
  const isRefused = ({ code }: { readonly code: string }) => code === 'credentials_refused';
  const holds = whole.filter((hold) => isRefused(hold) && isHeld(hold));
  const [first] = holds;
  if (first === undefined) return [];

  const status = first.cause.httpStatus;
  const [what, remedy] = lacksTokenPath(status)
    ? [`answered POST /token with ${status}`, 'correct the base URL']
    : ['refused the user name and password', 'correct them'];
  const failing = state.failing.filter(({ failure }) => isRefused(failure));
  const since = findSince(holds, now);
  const text =
    `the service has ${what} since ${formatClock(since, now)}` +
    `${describeWaiting({ ...state, failing })} nothing is lost, and it is tried again every` +
    ` ${formatMinutes(pauses.refusedCredentials.longestMs)}`;
  const more = {
    remedy: `${remedy} in the configuration, and restart the workers (SIGHUP)`,
    since,
  };
  const problem = createProblem('credentials_refused', { client }, text, more);
  return [{ problem, failing, codes: listHeldUp(failing) }];
}

/**
 * Finds that the service does not answer. Until a second job or a hold confirms it, it is a note.
 * It remains one when the service answers again, until everything that failed has run again.
 */
function findAwayService(state: ClientState): Cause[] {
  const holds = state.whole.filter(isOutageHold);
  if (areOfCutWorkers(holds, state)) return [toCutWorkers(state, holds)];

  const isConfirmed = holds.length > 0;
  const failing = state.failing.filter(
    ({ failure, failedAlone }) => isOutage(failure) && (isConfirmed || !failedAlone),
  );
  const recovering = state.whole.find((hold) => hold.code === 'no_answer' && !isHeld(hold));
  if (!isConfirmed && !isAwayForSeveral(failing) && recovering === undefined) return [];

  const isOver =
    !isConfirmed &&
    failing.every(({ lastStartedAt }) => (lastStartedAt?.getTime() ?? 0) < state.answeredAtMs);
  return [
    isOver ? toReturnedService(state, failing, recovering) : toAwayService(state, failing, holds),
  ];
}

/** Returns true if a poll was done after the workers of these holds met silence: by others. */
const areOfCutWorkers = (holds: readonly StoredHealth[], { answeredAtMs }: ClientState): boolean =>
  holds.length > 0 &&
  holds.every(({ worker, since }) => worker !== everyWorker && since.getTime() < answeredAtMs);

/** Makes the problem of workers that do not reach a service that others reach. */
function toCutWorkers({ client, now }: ClientState, holds: readonly StoredHealth[]): Cause {
  const [what, machines] =
    holds.length === 1 ? ['worker', 'its machine'] : ['workers', 'their machines'];
  const workers = holds.map(({ worker }) => worker).join(', ');
  const text =
    `${what} ${workers} cannot reach the service since ` +
    `${formatClock(findSince(holds, now), now)}, but others do; ` +
    'they push the rows and make the runs';

  const remedy = `check the network of ${machines}: name server, proxy, firewall`;
  return {
    problem: createProblem('service_away', { client }, text, { remedy, severity: 'warn' }),
  };
}

/** Returns true if a hold shows that the service does not answer. */
const isOutageHold = (hold: StoredHealth): boolean =>
  isHeld(hold) && (hold.code === 'no_answer' || (isSlowedDown(hold) && isOutage(hold.cause)));

/** Statuses that are more likely the fault of one operation than of the whole service. */
const operationStatuses: readonly (number | null)[] = [500, 501];

const isAwayForSeveral = (failing: readonly FailingJob[]) =>
  failing.length > 1 ||
  failing.some(({ failure }) => !operationStatuses.includes(failure.httpStatus));

/** Makes the note that the service answers again. */
function toReturnedService(
  { client }: ClientState,
  failing: readonly FailingJob[],
  hold: StoredHealth | undefined,
): Cause {
  const jobs = formatCount(
    failing.length,
    'job',
    'runs again by itself',
    'run again by themselves',
  );
  const rows = formatCount(hold?.sendWindow ?? 1, 'row', 'is', 'are');
  const parts = [
    'the service answers again',
    ...(failing.length === 0 ? [] : [jobs]),
    ...(hold === undefined ? [] : [`${rows} sent at a time, and more with each that is done`]),
  ];
  const problem = createProblem('service_away', { client }, parts.join('; '), { severity: 'note' });
  // A job that is late although none has failed has another cause.
  return { problem, failing, codes: failing.length === 0 ? ['outbox_slow'] : listHeldUp(failing) };
}

/** Makes the problem of a service that does not answer. */
function toAwayService(
  state: ClientState,
  failing: readonly FailingJob[],
  holds: readonly StoredHealth[],
): Cause {
  const { client, now } = state;
  const failingSince = failing.map((job) => job.failingSince);
  const since = findEarliest([...holds.map((held) => held.since), ...failingSince], now);
  const cause = holds[0]?.cause ?? failing[0]?.failure;
  const text =
    `the service ${describeOutage(cause)} since ${formatClock(since, now)}` +
    `${describeWaiting({ ...state, failing })} nothing is lost, and it is tried again` +
    ` every ${pauses.silentService.longestMs / 1_000} seconds`;

  const isUrgent = holds.length > 0 || failing.length > 1;
  const urgency = judgeUrgency(isLasting(since, now), isUrgent ? 'warn' : 'note', {
    soon: 'nothing to do unless it lasts',
    bad: 'ask the operator of the service when it will be back; nothing needs to be done here',
  });
  const problem = createProblem('service_away', { client }, text, { ...urgency, since });
  return { problem, failing, codes: listHeldUp(failing) };
}

function describeOutage(cause: Failure | undefined): string {
  if (cause?.httpStatus != null) return `has answered ${cause.httpStatus}`;
  return cause?.code === 'connect_failed' ? 'cannot be reached' : 'has not answered';
}

/**
 * Returns true if a client is held, or was, because the service asked to wait or refuses what comes
 * too fast.
 */
const isSlowedDown = ({ code }: StoredHealth) => code === 'too_fast' || code === 'asked_to_wait';

/** Finds that the service lets us send or ask only slowly. The rate adapts by itself. */
function findLimit(state: ClientState): Cause[] {
  const { client, whole, now } = state;
  const failing = state.failing.filter(({ failure }) => failure.httpStatus === 429);
  const limits = whole.filter((hold) => isSlowedDown(hold) && !isOutage(hold.cause));
  if (limits.length === 0 && failing.length === 0) return [];

  const wait = limits.find((hold) => hold.code === 'asked_to_wait' && isHeld(hold));
  const until =
    wait === undefined ? '' : `; it asked to wait until ${formatClock(wait.nextAt, now)}`;
  const failingSince = failing.map((job) => job.failingSince);
  const polledSince = findEarliest([...failingSince, wait?.since ?? null], now);
  const since = findEarliest([polledSince, ...limits.map((hold) => hold.since)], now);
  const text =
    `the service limits the rate (429) since ${formatClock(since, now)}${until}` +
    `${describeWaiting({ ...state, failing })} nothing is lost, and no attempt counts`;

  // Pushes adapt their rate. Polls do not: jobs that are late because of the limit must not be
  // hidden under a note.
  const delaysJobs = failing.length > 0 || (wait !== undefined && state.late.length > 0);
  const urgency = judgeUrgency(isLasting(polledSince, now), delaysJobs ? 'warn' : 'note', {
    soon: 'nothing to do unless it lasts; REQUESTS_PER_SECOND avoids the refusals',
    bad: 'set REQUESTS_PER_SECOND below the limit, or ask the operator of the service to raise it',
  });
  const problem = createProblem('rate_limited', { client }, text, { ...urgency, since });
  return [{ problem, failing, codes: delaysJobs ? waitingCodes : ['outbox_slow'] }];
}

/** A sign that one operation fails: a held kind or job, or a failing job. */
interface OperationSign {
  readonly failure: Failure;
  readonly since: Date;
  readonly held?: StoredHealth;
  readonly job?: FailingJob;
}

/**
 * Finds single operations that fail while the service answers others: in jobs, and in kinds of the
 * outbox.
 */
function findFailingOperations({ client, parts, failing, now }: ClientState): Cause[] {
  const signs: OperationSign[] = [
    ...parts.map((held) => ({ failure: held.cause, since: held.since, held })),
    ...failing.map((job) => ({ failure: job.failure, since: job.failingSince, job })),
  ];
  const groups = Map.groupBy(signs, ({ failure, held }) => failure.operation ?? held?.scope);

  return [...groups].flatMap(([part, group]) =>
    // A failure that names no operation stays a problem of its job.
    part === undefined ? [] : toFailingOperation({ client, part }, group, now),
  );
}

function toFailingOperation(
  place: { readonly client: string; readonly part: string },
  signs: readonly OperationSign[],
  now: Date,
): Cause {
  const since = findSince(signs, now);
  const held = signs.flatMap((sign) => sign.held ?? []);
  const failing = signs.flatMap(({ job }) => job ?? []);
  const isRecovering =
    failing.length === 0 && held.every((one) => !isHeld(one) && (one.sendWindow ?? 0) > 1);
  const isParked = held.some(({ code }) => code === 'wrong_path');

  const pace = isRecovering ? 'is sent a few rows at a time' : 'waits';
  const waits = held.length === 0 ? '' : `; ${held.map(({ scope }) => scope).join(', ')} ${pace}`;
  // The subject of the problem names the operation.
  const words = signs[0]?.failure.words.replace(`${place.part}: `, '');
  const begin = `fails since ${formatClock(since, now)}: ${words}`;
  const text = `${begin}${waits}; all other requests continue`;

  const isBad = !isRecovering && (isParked || isLasting(since, now));
  const urgency = judgeUrgency(isBad, isRecovering ? 'note' : 'warn', {
    soon: 'nothing to do unless it lasts: it is tried again by itself',
    bad: isParked
      ? 'correct its path in WAREHOUSE_OPERATIONS_FILE, and restart the workers (SIGHUP)'
      : `ask the operator of the service about ${place.part}, or see: fulfilment-sync doctor`,
  });
  const page = `/runs?client=${encodeURIComponent(place.client)}&status=failed`;
  const more = { ...urgency, since, ...(failing.length > 0 && { page }) };
  const problem = createProblem('operation_failing', place, text, more);
  return { problem, failing, codes: held.length === 0 ? [] : ['outbox_slow'] };
}

function findTakenSlots(state: ClientState): Cause[] {
  const { client, whole, late, now } = state;
  const [first] = late;
  const isServing = isServed(state) && !whole.some(isHeld);
  if (first === undefined || late.length < limits.lateJobs || !isServing) return [];

  const text =
    `a worker serves this client, but ${late.length} jobs have not begun since` +
    ` ${formatClock(first.since, now)}: long runs take every slot`;
  const more = { remedy: 'start another worker', page: '/runs', since: first.since };
  return [{ problem: createProblem('slots_taken', { client }, text, more), codes: waitingCodes }];
}

/** What waits for something. */
interface Waiting {
  readonly failing: readonly unknown[];
  readonly late: readonly unknown[];
  readonly waitingRows: number;
}

const findEarliest = (times: readonly (Date | null)[], now: Date) =>
  times.reduce<Date>((first, at) => (at !== null && at < first ? at : first), now);

const findSince = (signs: readonly { readonly since: Date }[], now: Date) =>
  findEarliest(
    signs.map(({ since }) => since),
    now,
  );

/** Describes what waits, between the signs that separate it from the rest of a sentence. */
function describeWaiting({ failing, late, waitingRows }: Waiting): string {
  const jobs = failing.length + late.length;
  if (jobs + waitingRows === 0) return ';';

  const parts = [
    ...(jobs === 0 ? [] : [formatCount(jobs, 'job')]),
    ...(waitingRows === 0 ? [] : [formatCount(waitingRows, 'row')]),
  ];
  return `; ${parts.join(' and ')} ${jobs + waitingRows === 1 ? 'waits' : 'wait'},`;
}

/** Returns the problems of a client that follow if its service does not serve it. */
const listHeldUp = (failing: readonly FailingJob[]): ProblemCode[] =>
  failing.length === 0 ? waitingCodes : [...waitingCodes, 'stream_rescan'];

/** What is told of jobs that wait. */
const waitingCodes: ProblemCode[] = ['job_late', 'job_skipped', 'outbox_slow', 'stream_first_load'];

/** What is told of work that ends with a write. */
const unwrittenCodes: ProblemCode[] = [
  ...waitingCodes,
  'alerts_undelivered',
  'events_undelivered',
  'feed_late',
  'stream_rescan',
];
