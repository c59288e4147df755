/**
 * Finds what keeps jobs and rows from being done. Everything else that is wrong at the same time
 * and follows from such a cause is shown under it, so that one cause is one problem.
 */

import { hostname } from 'node:os';
import { formatSpan, minuteMs } from '../../core/time.ts';
import type { KnownClient } from '../../service/sql/clients.ts';
import { isHeld, type StoredHealth } from '../../service/sql/holds.ts';
import type { JobStatus } from '../sql/job-status.ts';
import {
  createProblem,
  formatClock,
  formatCount,
  isLasting,
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
  readonly failing: readonly JobStatus[];
  /** Clients that wait because of it; by default the one of the problem. */
  readonly clients?: readonly string[];
  readonly codes: readonly ProblemCode[];
}

/** Returns true if a problem follows from a cause. */
export function isExplained(other: Problem, { problem, failing, clients, codes }: Cause): boolean {
  const isConcerned =
    clients === undefined
      ? other.client === problem.client
      : clients.some((client) => client === other.client);
  if (isConcerned && codes.includes(other.code)) return true;
  const places = failing.flatMap(({ client, job, stream }) => [
    `${client} ${job}`,
    `${client} ${stream}`,
  ]);
  return (
    (other.code === 'job_failing' || waitingCodes.includes(other.code)) &&
    places.includes(other.subject)
  );
}

/** What is known of one client. */
interface ClientState {
  readonly client: string;
  readonly known: KnownClient;
  /** Failing jobs. */
  readonly failing: readonly FailingJob[];
  /** Jobs that are late because they did not run. */
  readonly late: readonly LateJob[];
  /** Push hold of the whole client, and those of its kinds. */
  readonly hold: StoredHealth | undefined;
  readonly kinds: readonly StoredHealth[];
  readonly waitingRows: number;
  /** When the service last answered a whole poll. */
  readonly answeredAtMs: number;
  readonly now: Date;
}

interface FailingJob extends JobStatus {
  readonly lastError: string;
  readonly failingSince: Date;
}

/**
 * What a failed run says about its cause, by the words of src/service/transport and of Postgres.
 */
const failures = {
  database: /No space left on device|could not extend file/,
  credentials: /refused the user name and password/,
  limit: /: answered 429\b/,
  away: /: (answered 5\d\d|no connection to the service|the service did not answer in time|the connection broke|the proxy did not)/,
  /** An operation of the service, such as `v3.orders.list`. */
  operation: /^((?:v2|v3|oldest|common)\.[\w.]+): (.+)$/s,
} as const;

/** Finds the causes of a state. A cause that comes first explains more than a later one. */
export function findCauses({
  snapshot,
  stale,
  clockSkewMs,
  diskFullSince,
  isScheduled,
}: CurrentState): Cause[] {
  const { jobs, clients, outbox, holds, now } = snapshot;
  const failing = jobs.flatMap((job) => {
    const { lastError, failingSince } = job;
    return lastError === null
      ? []
      : [{ ...job, lastError, failingSince: failingSince ?? job.lastStartedAt ?? now }];
  });
  const ofClient = (known: KnownClient): ClientState => {
    const isOurs = ({ client }: { readonly client: string | null }) => client === known.client;
    const polls = jobs.filter((job) => isOurs(job) && job.stream !== null);
    const rows = outbox.find(isOurs);
    const waitingRows =
      rows === undefined ? 0 : rows.pending + rows.sending + rows.unknown - rows.toDecide;
    // A hold that is over slows nothing down if no row waits.
    const ours = holds.filter((hold) => isOurs(hold) && (isHeld(hold) || waitingRows > 0));
    return {
      ...{ client: known.client, known, now },
      failing: failing.filter((job) => isOurs(job) && isScheduled(job.client, job.job)),
      late: stale.filter((job) => isOurs(job) && job.because === 'not run'),
      hold: ours.find(({ kind }) => kind === ''),
      kinds: ours.filter(({ kind }) => kind !== ''),
      waitingRows,
      answeredAtMs: polls.reduce(
        (last, { lastSuccessAt }) => Math.max(last, lastSuccessAt?.getTime() ?? 0),
        0,
      ),
    };
  };
  const states = clients.map(ofClient);
  const full = findFullDatabase(clients, failing, diskFullSince, now);
  return [
    ...findWrongClock(clockSkewMs).map((problem) => ({ problem, failing: [], codes: [] })),
    ...full,
    // A queue in a database that is full fails, too.
    ...(full.length > 0 ? [] : findAwayQueue(clients, now)),
    ...findLostWorker(states.filter(isUnserved), now),
    ...states.flatMap(findClientCauses),
  ];
}

/** Finds the causes of one client. What one of them explains is no sign of a later one. */
function findClientCauses(state: ClientState): Cause[] {
  const finders = [
    ...[findParkedClient, findRefusedCredentials, findAwayService],
    ...[findLimit, findFailingOperations, findTakenSlots],
  ];
  const causes: Cause[] = [];
  for (const find of finders) {
    const failing = state.failing.filter(
      (job) => !causes.some((cause) => cause.failing.includes(job)),
    );
    for (const cause of find({ ...state, failing })) causes.push(cause);
  }
  return causes;
}

/**
 * Largest difference to the clock of the database. Smaller ones only show in the times of the log.
 */
const maxSkewMs = minuteMs;

function findWrongClock(skewMs: number): Problem[] {
  if (Math.abs(skewMs) <= maxSkewMs) return [];
  const span = `${formatSpan(Math.abs(skewMs) / 1_000)} ${skewMs > 0 ? 'ahead of' : 'behind'}`;
  const text = `the clock of ${hostname()} is ${span} the database's`;
  return [createProblem('clock_wrong', { client: null }, text, 'synchronise both with NTP')];
}

/**
 * Finds what only this process can see, or what no table can hold while it lasts. Needs no table.
 */
export const findOwnProblems = (
  skewMs: number,
  diskFullSince: Date | null,
  now: Date,
): Problem[] => [
  ...findWrongClock(skewMs),
  ...(diskFullSince === null ? [] : [makeFullDatabaseProblem(diskFullSince, now)]),
];

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
  const hit = failing.filter(({ lastError }) => failures.database.test(lastError));
  if (hit.length === 0 && metSince === null) return [];
  const since = findEarliest([metSince, findFirst(hit)], now);
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
  return createProblem('database_full', { client: null }, text, remedy);
}

/** Finds that the queue does not answer a worker. The sweep then starts what is due. */
function findAwayQueue(clients: readonly KnownClient[], now: Date): Cause[] {
  const away = clients.filter((known) => known.queueAwaySince !== null && isServed({ known, now }));
  const [first] = away.toSorted((a, b) => Number(a.queueAwaySince) - Number(b.queueAwaySince));
  if (first === undefined) return [];
  const since = formatClock(first.queueAwaySince ?? now, now);
  const text = `the queue has failed since ${since}: ${first.queueError}; runs begin a few seconds late, and nothing is lost`;
  const remedy = 'check Redis, if REDIS_URL is set; the workers fill the queue again by themselves';
  return [
    {
      problem: createProblem('queue_away', { client: null }, text, remedy),
      failing: [],
      codes: [],
    },
  ];
}

/** Finds another account than the accepted one: the client is neither pulled nor pushed. */
function findParkedClient({ client, known: { baseUrl, offeredBaseUrl } }: ClientState): Cause[] {
  if (offeredBaseUrl === null) return [];
  const text = `parked: a worker or command is set up with ${offeredBaseUrl}, but the rows of the client come from ${baseUrl}`;
  const remedy = 'correct the setting, or accept the account; see: fulfilment-sync client list';
  const problem = createProblem('client_parked', { client }, text, remedy);
  return [{ problem, failing: [], codes: waitingCodes }];
}

/** Time without a worker after which a client with something to do is a problem. */
const unservedMs = minuteMs;

const isServed = ({ known: { servedAt }, now }: Pick<ClientState, 'known' | 'now'>) =>
  servedAt !== null && now.getTime() - servedAt.getTime() < unservedMs;

/** Returns true if no worker serves a client that has something to do. */
function isUnserved(state: ClientState): boolean {
  const { known, late, waitingRows, now } = state;
  const isNew = known.servedAt === null && now.getTime() - known.acceptedAt.getTime() < unservedMs;
  return (
    !isServed(state) && !isNew && known.offeredBaseUrl === null && late.length + waitingRows > 0
  );
}

/** Maximum number of clients that one problem names. The others are counted. */
const namesShown = 3;

/**
 * Finds that no worker serves some clients. A lost worker is one problem, however many clients it
 * had.
 */
function findLostWorker(unserved: readonly ClientState[], now: Date): Cause[] {
  const [first, ...others] = unserved;
  if (first === undefined) return [];
  const clients = unserved.map(({ client }) => client);
  const more = clients.length - namesShown;
  const names = `${clients.slice(0, namesShown).join(', ')}${more > 0 ? ` and ${more} more` : ''}`;
  const whom =
    others.length === 0 ? 'this client' : `${formatCount(clients.length, 'client')} (${names})`;
  const servedAt = unserved.flatMap(({ known }) => known.servedAt ?? []);
  const since = servedAt.length === 0 ? 'has ever served' : 'has served';
  const time =
    servedAt.length === 0 ? '' : ` since ${formatClock(findEarliest(servedAt, now), now)}`;
  const jobs = unserved.reduce((sum, { late }) => sum + late.length, 0);
  const rows = unserved.reduce((sum, { waitingRows }) => sum + waitingRows, 0);
  const text = `no worker ${since} ${whom}${time}; ${describeWaiting(jobs, rows)}, and nothing is lost`;
  const remedy = `start a worker that has ${others.length === 0 ? 'this client' : 'these clients'} in its configuration`;
  const place = { client: others.length === 0 ? first.client : null };
  const problem = createProblem('worker_lost', place, text, remedy);
  const subject = others.length === 0 ? problem.subject : 'several clients';
  return [
    {
      problem: { ...problem, subject },
      failing: [],
      clients,
      codes: [...waitingCodes, 'stream_rescan'],
    },
  ];
}

function findRefusedCredentials(state: ClientState): Cause[] {
  const { client, known, hold, now } = state;
  const isPushHeld = hold?.code === 'credentials_refused' && isHeld(hold);
  const isPullHeld = known.holdCode === 'credentials_refused';
  if (!isPushHeld && !isPullHeld) return [];
  const failing = state.failing.filter(({ lastError }) => failures.credentials.test(lastError));
  const since = findEarliest(
    [isPullHeld ? known.holdSince : null, isPushHeld ? hold.since : null],
    now,
  );
  const waiting = describeWaiting(failing.length + state.late.length, state.waitingRows);
  const text = `the service has refused the user name and password since ${formatClock(since, now)}${waiting && `; ${waiting}`}, nothing is lost, and it is tried again every 15 minutes`;
  const remedy = 'correct them in the configuration, and restart the workers (SIGHUP)';
  const problem = createProblem('credentials_refused', { client }, text, remedy);
  return [{ problem, failing, codes: listHeldUp(failing) }];
}

/**
 * Finds that the service does not answer. Until a second job or a hold confirms it, it is a note.
 * It remains one when the service answers again, until everything that failed has run again.
 */
function findAwayService(state: ClientState): Cause[] {
  const { client, known, hold, now } = state;
  const isPushHeld =
    hold !== undefined &&
    isHeld(hold) &&
    (hold.code === 'breaker_open' || (isSlowedDown(hold) && isAway(hold.reason)));
  const isPullHeld =
    known.holdCode === 'no_answer' ||
    (known.holdCode === 'asked_to_wait' && isAway(known.holdReason));
  const isConfirmed = isPushHeld || isPullHeld;
  const failing = state.failing.filter(
    ({ lastError, failedAlone }) => isAway(lastError) && (isConfirmed || !failedAlone),
  );
  // A single 500 is more likely the fault of one operation.
  const isGone =
    failing.length > 1 || failing.some(({ lastError }) => !/answered 50[01]/.test(lastError));
  const isRecovering =
    hold !== undefined &&
    !isSlowedDown(hold) &&
    hold.code !== 'credentials_refused' &&
    !isHeld(hold);
  if (!isConfirmed && !isGone && !isRecovering) return [];
  const isOver =
    !isConfirmed &&
    failing.every(({ lastStartedAt }) => (lastStartedAt?.getTime() ?? 0) < state.answeredAtMs);
  if (isOver) {
    const jobs =
      failing.length === 0
        ? ''
        : `; ${formatCount(failing.length, 'job')} ${failing.length === 1 ? 'runs' : 'run'} again by ${failing.length === 1 ? 'itself' : 'themselves'}`;
    const rows = isRecovering
      ? `; ${formatCount(hold.sendWindow ?? 1, 'row')} ${hold.sendWindow === 1 ? 'is' : 'are'} sent at a time, and more with each that is done`
      : '';
    const text = `the service answers again${jobs}${rows}`;
    const problem = createProblem('service_away', { client }, text, null, { severity: 'note' });
    // A job that is late although none has failed has another cause.
    return [{ problem, failing, codes: failing.length === 0 ? [] : listHeldUp(failing) }];
  }
  const since = findEarliest(
    [isPullHeld ? known.holdSince : null, isPushHeld ? hold.since : null, findFirst(failing)],
    now,
  );
  const reason =
    (isPushHeld ? hold.reason : isPullHeld ? known.holdReason : failing[0]?.lastError) ?? '';
  const waiting = describeWaiting(failing.length + state.late.length, state.waitingRows);
  const text = `the service ${describeAbsence(reason)} since ${formatClock(since, now)}; ${waiting && `${waiting}, `}nothing is lost, and it is tried again every minute`;
  const mustAct = isConfirmed || failing.length > 1;
  const severity = isLasting(since, now) ? 'bad' : mustAct ? 'warn' : 'note';
  const remedy =
    severity === 'bad'
      ? 'ask the operator of the service when it will be back; nothing needs to be done here'
      : 'nothing to do unless it lasts';
  const problem = createProblem('service_away', { client }, text, remedy, { severity });
  return [{ problem, failing, codes: listHeldUp(failing) }];
}

const isAway = (reason: string | null) => reason !== null && failures.away.test(reason);

function describeAbsence(reason: string): string {
  const status = /answered (\d{3})/.exec(reason)?.[1];
  if (status !== undefined) return `has answered ${status}`;
  return /no connection|the proxy/.test(reason) ? 'cannot be reached' : 'has not answered';
}

/**
 * Returns true if a client is held, or was, because the service asked to wait or refuses what comes
 * too fast.
 */
const isSlowedDown = (hold: StoredHealth | undefined) =>
  hold?.code === 'too_fast' || hold?.code === 'retry_after';

/** Finds that the service lets us send or ask only slowly. The rate adapts by itself. */
function findLimit(state: ClientState): Cause[] {
  const { client, known, hold, now } = state;
  const failing = state.failing.filter(({ lastError }) => failures.limit.test(lastError));
  const isTooFast = isSlowedDown(hold) && !isAway(hold?.reason ?? null);
  const isWaiting = known.holdCode === 'asked_to_wait' && !isAway(known.holdReason);
  if (!isTooFast && !isWaiting && failing.length === 0) return [];
  const until =
    isWaiting && known.holdUntil
      ? `; it asked to wait until ${formatClock(known.holdUntil, now)}`
      : '';
  const polledSince = findEarliest([findFirst(failing), isWaiting ? known.holdSince : null], now);
  const since = findEarliest(
    [polledSince, isTooFast && hold !== undefined ? hold.since : null],
    now,
  );
  const waiting = describeWaiting(failing.length + state.late.length, state.waitingRows);
  const text = `the service limits the rate (429) since ${formatClock(since, now)}${until}; ${waiting && `${waiting}, `}nothing is lost, and no attempt counts`;
  // Pushes adapt their rate. Polls do not: jobs that are late because of the limit must not be
  // hidden under a note.
  const delaysJobs = failing.length > 0 || (isWaiting && state.late.length > 0);
  const severity = isLasting(polledSince, now) ? 'bad' : delaysJobs ? 'warn' : 'note';
  const remedy =
    severity === 'bad'
      ? 'set REQUESTS_PER_SECOND below the limit, or ask the operator of the service to raise it'
      : 'nothing to do unless it lasts; REQUESTS_PER_SECOND avoids the refusals';
  const problem = createProblem('rate_limited', { client }, text, remedy, { severity });
  return [{ problem, failing, codes: delaysJobs ? waitingCodes : [] }];
}

/**
 * Finds single operations that fail while the service answers others: in jobs, and in kinds of the
 * outbox.
 */
function findFailingOperations({ client, kinds, failing, now }: ClientState): Cause[] {
  const signs = [
    ...kinds.map((hold) => ({ since: hold.since, reason: hold.reason, kind: hold, job: null })),
    ...failing.map((job) => ({ since: job.failingSince, reason: job.lastError, kind: null, job })),
  ].map((sign) => ({ ...sign, words: failures.operation.exec(sign.reason) }));
  const groups = Map.groupBy(signs, ({ words, kind }) => words?.[1] ?? kind?.kind ?? null);
  return [...groups].flatMap(([operation, group]) => {
    const [first] = group;
    // A failure that names no operation stays a problem of its job.
    if (operation === null || first === undefined) return [];
    const since = findEarliest(
      group.map((sign) => sign.since),
      now,
    );
    const held = group.flatMap(({ kind }) => kind ?? []);
    const isRecovering =
      held.length === group.length &&
      held.every((kind) => !isHeld(kind) && (kind.sendWindow ?? 0) > 1);
    const isParked = held.some(({ code }) => code === 'kind_parked');
    const waits =
      held.length === 0
        ? ''
        : `; ${held.map(({ kind }) => kind).join(', ')} ${isRecovering ? 'is sent a few rows at a time' : 'waits'}`;
    const text = `fails since ${formatClock(since, now)}: ${first.words?.[2] ?? first.reason}${waits}; all other requests continue`;
    const severity = isRecovering ? 'note' : isParked || isLasting(since, now) ? 'bad' : 'warn';
    const remedy = isParked
      ? 'correct its path in WAREHOUSE_OPERATIONS_FILE, and restart the workers (SIGHUP)'
      : severity === 'bad'
        ? `ask the operator of the service about ${operation}, or see: fulfilment-sync doctor`
        : 'nothing to do unless it lasts: it is tried again by itself';
    const page = group.some(({ job }) => job !== null)
      ? { page: `/runs?client=${encodeURIComponent(client)}&status=failed` }
      : {};
    const problem = createProblem('operation_failing', { client, part: operation }, text, remedy, {
      severity,
      ...page,
    });
    return [{ problem, failing: group.flatMap(({ job }) => job ?? []), codes: [] }];
  });
}

/** Minimum number of late jobs from which the slots are the cause, and not one long run. */
const minLateJobs = 2;

function findTakenSlots(state: ClientState): Cause[] {
  const { client, known, late, now } = state;
  const [first] = late;
  if (
    first === undefined ||
    late.length < minLateJobs ||
    !isServed(state) ||
    known.holdCode !== null
  )
    return [];
  const text = `a worker serves this client, but ${late.length} jobs have not begun since ${formatClock(first.since, now)}: long runs take every slot`;
  const problem = createProblem('slots_taken', { client }, text, 'start another worker', {
    page: '/runs',
  });
  return [{ problem, failing: [], codes: waitingCodes }];
}

const findEarliest = (times: readonly (Date | null)[], now: Date) =>
  times.reduce<Date>((first, at) => (at !== null && at < first ? at : first), now);

const findFirst = (failing: readonly FailingJob[]) =>
  failing.reduce<Date | null>(
    (first, { failingSince }) => (first === null || failingSince < first ? failingSince : first),
    null,
  );

function describeWaiting(jobs: number, rows: number): string {
  const parts = [
    jobs === 0 ? '' : formatCount(jobs, 'job'),
    rows === 0 ? '' : formatCount(rows, 'row'),
  ].filter(Boolean);
  return parts.length === 0 ? '' : `${parts.join(' and ')} ${jobs + rows === 1 ? 'waits' : 'wait'}`;
}

/** Returns the problems of a client that follow if its service does not serve it. */
const listHeldUp = (failing: readonly FailingJob[]): ProblemCode[] =>
  failing.length === 0 ? waitingCodes : [...waitingCodes, 'stream_rescan'];

/** What is told of jobs that wait. */
const waitingCodes: ProblemCode[] = [
  'job_late',
  'job_skipped',
  'stream_first_load',
  'stream_stale',
];
