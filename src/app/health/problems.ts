/**
 * Finds the current problems, for `status`, the pages and alerts. Each says what is wrong and, if possible, what to do.
 */

import { styleText } from 'node:util';
import type { Config } from '../../../config/env.ts';
import type { Schedule } from '../../../config/schedules.ts';
import { changeInWords } from '../../core/database-mark.ts';
import { toVisible } from '../../core/quote.ts';
import { dayMs, formatSpan } from '../../core/time.ts';
import type { AlertBacklog } from '../../erp/alerts/posts.ts';
import { isHeld, type StoredHealth } from '../../erp/outbox/holds.ts';
import type { PushDatabase } from '../../erp/outbox/push-database.ts';
import type { WatchedArticles } from '../../erp/reports/database-facts.ts';
import type { JobStatus } from '../../erp/reports/job-status.ts';
import type { OutboxStatus } from '../../erp/reports/outbox-status.ts';
import type { StreamStatus } from '../../erp/reports/stream-status.ts';
import type { ParcelBacklog } from '../../erp/resources/parcel-reads.ts';
import type { KnownClient } from '../../erp/runs/clients.ts';
import { type Pause, resumeHint } from '../../erp/runs/pauses.ts';
import { parcelReadsPerSecond, readsWithoutPause } from '../../sync/pulls/parcels.ts';
import type { Snapshot } from './snapshot.ts';

type Severity = 'bad' | 'warn' | 'note';

/** Stable names of all problems, their severity, and whether everybody sees them, or only who has its clients and jobs. */
const problemCodes = {
  alerts_undelivered: ['warn', 'everybody'],
  client_held: ['bad', 'everybody'],
  client_parked: ['bad', 'everybody'],
  database_changed: ['bad', 'everybody'],
  database_is_copy: ['note', 'everybody'],
  job_failing: ['bad', 'configured'],
  job_late: ['bad', 'configured'],
  job_paused: ['note', 'everybody'],
  job_skipped: ['note', 'configured'],
  job_warning: ['warn', 'configured'],
  notify_queue: ['bad', 'everybody'],
  outbox_dead: ['bad', 'everybody'],
  outbox_undecided: ['bad', 'everybody'],
  outbox_unknown_clients: ['bad', 'everybody'],
  outbox_unserved: ['bad', 'everybody'],
  parcels_waiting: ['note', 'configured'],
  push_held: ['bad', 'everybody'],
  push_limited: ['note', 'everybody'],
  schema_drift: ['bad', 'everybody'],
  stock_off: ['warn', 'configured'],
  stream_first_load: ['note', 'configured'],
  stream_gap: ['warn', 'configured'],
  stream_late_changes: ['warn', 'configured'],
  stream_rescan: ['note', 'configured'],
  stream_silent: ['warn', 'configured'],
  stream_stale: ['bad', 'configured'],
} as const satisfies Record<string, readonly [Severity, 'everybody' | 'configured']>;

type ProblemCode = keyof typeof problemCodes;

/** Something that an operator should know, and what to do about it. */
export interface Problem {
  /** What kind of problem it is. With client, subject and detail it identifies the problem while its text changes. */
  readonly code: ProblemCode;
  /** `bad`: an operator must act, or work is stuck. `warn`: look at it. `note`: intended, or being worked on. */
  readonly severity: Severity;
  /** Null: every client. */
  readonly client: string | null;
  /** The client, and the job, stream or part of the outbox that is concerned. */
  readonly subject: string;
  /** Tells problems of one code and subject apart. */
  readonly detail?: string;
  readonly text: string;
  /** What to do; null if there is nothing to do. */
  readonly remedy: string | null;
  /** Path of the admin page that shows more. */
  readonly page?: string;
}

/** What a problem is about: a client (null: every client), and its job, stream or part of the outbox. */
interface ProblemPlace {
  readonly client: string | null;
  readonly part?: string;
}

/** Creates a problem with the severity of its code, unless `more` has another one. */
export function createProblem(
  code: ProblemCode,
  { client, part }: ProblemPlace,
  text: string,
  remedy: string | null = null,
  more: Partial<Pick<Problem, 'severity' | 'detail' | 'page'>> = {},
): Problem {
  const name = client ?? 'every client';
  const subject = part === undefined ? name : `${name} ${part}`;
  return { code, severity: problemCodes[code][0], client, subject, text, remedy, ...more };
}

/** Returns true if every process that reads the database finds the problem, whatever its clients and schedules are. */
export const isSeenByEverybody = ({ code }: Problem) => problemCodes[code][1] === 'everybody';

const severityColors = { bad: 'red', warn: 'yellow', note: 'cyan' } as const;

/** Formats a problem as one line for a terminal. */
export const describeProblem = ({ severity, subject, text, remedy }: Problem): string =>
  `${styleText(severityColors[severity], toVisible(subject))}: ${toVisible(remedy === null ? text : `${text}; ${remedy}`)}`;

/** Finds all problems of a snapshot. The worst come first. */
export function findProblems(
  snapshot: Snapshot,
  config: Pick<Config, 'LOOKBACK_DAYS' | 'REQUESTS_PER_SECOND' | 'schedules'>,
): Problem[] {
  const { jobs, streams, clients, pauses, watchedArticles, parcelBacklog, alerts, now } = snapshot;
  const problems = [
    ...jobs.flatMap((row) => findJobProblems(row, now)),
    ...streams.flatMap((row) => findStreamProblems(row, config.LOOKBACK_DAYS, now)),
    ...clients.flatMap((row) => findClientProblems(row, now)),
    ...pauses.map(toPauseProblem),
    ...findOutboxProblems(snapshot, now),
    ...findStockProblems(watchedArticles, config.schedules['pull-stock']),
    ...findParcelProblems(parcelBacklog, config),
    ...findAlertProblems(alerts, now),
    ...findNotifyProblems(snapshot.notifyQueue),
  ];
  return sortBySeverity(problems);
}

const severities: readonly Severity[] = ['bad', 'warn', 'note'];

/** Sorts problems, the worst first. */
export const sortBySeverity = (problems: readonly Problem[]): Problem[] =>
  problems.toSorted((one, other) => severities.indexOf(one.severity) - severities.indexOf(other.severity));

/** Usual number of changed rows per day from which a day without changes is a problem. */
const minUsualChanges = 5;

function findJobProblems(row: JobStatus, now: Date): Problem[] {
  const { client, job, lastError, consecutiveFailures, warnings, lastSkipAt, lastSkipReason, skips } = row;
  const place = { client, part: job };
  const found = warnings.map((warning) => createProblem('job_warning', place, warning));
  if (lastError !== null) {
    const text = `failed ${formatTimes(consecutiveFailures)}: ${lastError}`;
    const remedy = 'the next run tries again; if it keeps failing, see: fulfilment-sync doctor';
    const page = `/runs?client=${encodeURIComponent(client)}&job=${job}`;
    found.unshift(createProblem('job_failing', place, text, remedy, { page }));
  }
  if (lastSkipAt !== null && now.getTime() - lastSkipAt.getTime() < dayMs) {
    const text = `${skips} runs skipped or missed so far; the last at ${lastSkipAt.toISOString()}: ${lastSkipReason}`;
    found.push(createProblem('job_skipped', place, text));
  }
  return found;
}

function findStreamProblems(row: StreamStatus, lookbackDays: number, now: Date): Problem[] {
  const { client, stream } = row;
  const place = { client, part: stream };
  const found: Problem[] = [];
  if (row.firstLoad) {
    const soFar = row.fetchedSoFar === null ? 'no run is under way' : `the current run has read ${row.fetchedSoFar}`;
    found.push(createProblem('stream_first_load', place, `the first load is not done; ${soFar}`));
  }
  if (row.lastSuccessAt !== null && now.getTime() - row.lastSuccessAt.getTime() > dayMs) {
    const text = `no poll completed ${formatSince(row.lastSuccessAt, now)}`;
    found.push(createProblem('stream_stale', place, text, 'check that a worker is running'));
  } else if (row.changedLastDay === 0 && (row.usualPerDay ?? 0) >= minUsualChanges) {
    const text = `polls changed no row in 24 hours; usual: ${Math.round(row.usualPerDay ?? 0)} a day`;
    const remedy = `compare with the service: fulfilment-sync reconcile ${stream} --client ${client}`;
    found.push(createProblem('stream_silent', place, text, remedy));
  }
  for (const { from, to } of row.gaps) {
    const text = `nothing was read from ${from} to ${to}, and the service no longer lists these days`;
    const remedy = 'read missing resources by id: fulfilment-sync refetch';
    found.push(createProblem('stream_gap', place, text, remedy, { detail: `${from}..${to}` }));
  }
  for (const { id, kind, background, fetched, expected, from, to } of row.openRescans) {
    const span = [from === null ? '' : ` --from ${from}`, to === null ? '' : ` --to ${to}`].join('');
    const text = `${kind} ${id} is not done: ${fetched}${expected === null ? '' : ` of about ${expected}`} read`;
    const next = background ? 'workers continue it' : `continue with: ${kind} ${stream}${span}`;
    found.push(createProblem('stream_rescan', place, text, next));
  }
  if (row.readByDay && (row.lateSecondsP99 ?? 0) / 86_400 > lookbackDays) {
    const late = formatSpan(row.lateSecondsP99);
    const text = `reconciliations found changes up to ${late} late, beyond LOOKBACK_DAYS (${lookbackDays})`;
    const remedy = 'raise LOOKBACK_DAYS, or leave such changes to the daily reconciliation';
    found.push(createProblem('stream_late_changes', place, text, remedy));
  }
  return found;
}

/** Finds what keeps a whole client from being pulled: another account, or a hold. */
function findClientProblems(row: KnownClient, now: Date): Problem[] {
  const { client, baseUrl, offeredBaseUrl, holdCode, holdReason, holdSince, holdUntil } = row;
  const found: Problem[] = [];
  if (offeredBaseUrl !== null) {
    const text = `parked: a worker or command is set up with ${offeredBaseUrl}, but the rows of the client come from ${baseUrl}`;
    const remedy = 'correct the setting, or accept the account; see: fulfilment-sync client list';
    found.push(createProblem('client_parked', { client }, text, remedy));
  }
  if (holdCode !== null) {
    const text = `no scheduled run since ${holdSince?.toISOString()}: ${holdReason}`;
    const remedy = `next try: ${formatWait(holdUntil, now)}; try at once with: fulfilment-sync run <job> --client ${client}`;
    found.push(createProblem('client_held', { client }, text, remedy));
  }
  return found;
}

const toPauseProblem = (pause: Pause): Problem =>
  createProblem(
    'job_paused',
    { client: pause.client, part: pause.job },
    `paused since ${pause.since.toISOString()} by ${pause.by}`,
    `resume with: ${resumeHint(pause)}`,
  );

/** Finds clients with watched articles whose stock is never read, because the job pull-stock is off. */
export function findStockProblems(watched: readonly WatchedArticles[], schedule: Schedule): Problem[] {
  if (schedule.kind !== 'off') return [];
  return watched.map(({ client, articles }) => {
    const many = articles === 1 ? '1 article is' : `${articles} articles are`;
    const text = `pull-stock is off in this configuration, but ${many} watched (fulfilment.stock_watch)`;
    return createProblem('stock_off', { client }, text, 'set SCHEDULE_PULL_STOCK, such as 1h, or delete these rows');
  });
}

/** Tells of clients with many packages to look up, and how long that takes. */
function findParcelProblems(
  backlog: readonly ParcelBacklog[],
  { schedules, REQUESTS_PER_SECOND: perSecond = parcelReadsPerSecond }: Parameters<typeof findProblems>[1],
): Problem[] {
  const isOff = schedules['pull-parcels'].kind === 'off';
  return backlog
    .filter(({ shipments }) => shipments > readsWithoutPause)
    .map(({ client, shipments, oldestShippedOn }) => {
      const day = oldestShippedOn?.toISOString().slice(0, 10);
      const oldest = day === undefined ? '' : `; the oldest was shipped on ${day}`;
      const span = isOff
        ? 'the job is off in this configuration'
        : `at ${perSecond} requests a second this takes ${formatSpan(shipments / perSecond)}`;
      const text = `the packages of ${shipments} shipped shipments are to be looked up${oldest}; ${span}`;
      return createProblem('parcels_waiting', { client, part: 'pull-parcels' }, text);
    });
}

/** Finds posts to ALERT_WEBHOOK_URL that the receiver does not take. This problem is shown, but never posted. */
function findAlertProblems({ failing, abandoned, oldestAt, lastError }: AlertBacklog, now: Date): Problem[] {
  if (failing + abandoned === 0) return [];
  const age = oldestAt === null ? '' : ` (the oldest ${formatSince(oldestAt, now)})`;
  const parts = [
    ...(failing === 0 ? [] : [`${failing === 1 ? '1 alert waits' : `${failing} alerts wait`}${age}`]),
    ...(abandoned === 0 ? [] : [`${abandoned === 1 ? '1 alert was' : `${abandoned} alerts were`} given up today`]),
  ];
  const text = `${parts.join('; ')}: the receiver does not take it: ${lastError ?? 'no answer'}`;
  const place = { client: null, part: 'alerts' };
  return [createProblem('alerts_undelivered', place, text, 'check ALERT_WEBHOOK_URL and its receiver')];
}

/** Used part of the NOTIFY queue from which on it is a problem. It is nearly empty unless a session holds it up. */
const muchNotified = 0.1;

/** Describes the NOTIFY queue of the server if much of it is used; null if not. */
export function describeNotifyQueue(used: number): { readonly text: string; readonly remedy: string } | null {
  if (used < muchNotified) return null;
  return {
    text: `${Math.round(used * 100)} % of the NOTIFY queue is used: a session that listens keeps a transaction open`,
    remedy:
      'end the oldest transaction (docs/operations.md); from 50 % on nobody is notified, and the ERP waits longer',
  };
}

function findNotifyProblems(used: number): Problem[] {
  const found = describeNotifyQueue(used);
  return found === null ? [] : [createProblem('notify_queue', { client: null }, found.text, found.remedy)];
}

/** Finds every reason why rows of the outbox are not sent or not done. Each problem also says what still works. */
export function findOutboxProblems(
  { outbox, holds, clients, database }: Pick<Snapshot, 'outbox' | 'holds' | 'clients' | 'database'>,
  now: Date,
): Problem[] {
  const served = new Map(clients.map(({ client, servedAt }) => [client, servedAt]));
  return [
    ...findDatabaseProblems(database, now),
    ...holds.map((health) => toHoldProblem(health, now)),
    ...outbox
      .filter(({ client }) => served.has(client))
      .flatMap((row) => [
        ...findUnservedProblems(row, served.get(row.client) ?? null, now),
        ...findStuckRowProblems(row),
      ]),
    ...findUnknownClientProblems(outbox.filter(({ client }) => !served.has(client))),
  ];
}

function findDatabaseProblems(database: PushDatabase | null, now: Date): Problem[] {
  if (database === null) return [];
  const { change, changedAt, acceptedAs, acceptedAt } = database;
  if (change === 'none') {
    if (acceptedAs !== 'copy') return [];
    const text = `no row is sent: this database was accepted as a copy at ${acceptedAt.toISOString()}`;
    return [createProblem('database_is_copy', { client: null }, text, 'pulls continue')];
  }
  const since = changedAt === null ? '' : ` ${formatSince(changedAt, now)}`;
  const text = `no row is sent${since}: the database has changed (database_changed): ${changeInWords[change]}`;
  const remedy =
    'pulls continue; say what this database is: fulfilment-sync database accept --as moved, restored or copy (docs/operations.md)';
  return [createProblem('database_changed', { client: null }, text, remedy)];
}

function toHoldProblem(health: StoredHealth, now: Date): Problem {
  const { client, kind, code, reason, sendWindow, since, untilInMs } = health;
  if (code === 'too_fast') {
    const text = `the service refuses rows that come too fast (429) ${formatSince(since, now)}`;
    const remedy =
      'rows are sent as fast as it takes them, and no attempt counts; REQUESTS_PER_SECOND avoids the refusals';
    return createProblem('push_limited', { client }, text, remedy);
  }
  const others = kind === '' ? 'pulls and other clients continue' : 'other kinds continue';
  if (isHeld(health)) {
    const text = `no ${kind || 'row'} is sent ${formatSince(since, now)}: ${reason}`;
    const next = untilInMs > 0 ? `next try in ${formatSpan(untilInMs / 1_000)}` : 'a try is under way';
    return createProblem('push_held', { client }, text, `${next}; ${others}`, { detail: kind });
  }
  const what = kind === '' ? 'rows are' : `${kind} is`;
  const many = sendWindow === 1 ? 'one row' : `${sendWindow} rows`;
  const text = `${what} sent ${many} at a time since a hold that began ${formatAge(since, now)} ago: ${reason}`;
  const severity = kind !== '' && sendWindow === 1 ? 'bad' : 'note';
  const next = `${others}; the number grows with each row that is done`;
  return createProblem('push_held', { client }, text, next, { severity, detail: kind });
}

/**
 * Finds stuck rows of clients that are not known here. They are one problem, because a role that inserts rows can invent
 * any number of clients. Waiting rows are no problem: a worker marks them as dead.
 */
function findUnknownClientProblems(outbox: readonly OutboxStatus[]): Problem[] {
  const stuck = outbox.filter(({ dead, toDecide }) => dead + toDecide > 0);
  if (stuck.length === 0) return [];
  const rows = stuck.reduce((sum, { dead, toDecide }) => sum + dead + toDecide, 0);
  const text =
    `${rows === 1 ? '1 row is' : `${rows} rows are`} dead or stuck and ${rows === 1 ? 'names' : 'name'} ` +
    `${stuck.length === 1 ? 'a client that is' : `${stuck.length} clients that are`} not known here`;
  const remedy = 'add the clients to a worker, or cancel the rows: fulfilment-sync outbox list --status dead';
  return [createProblem('outbox_unknown_clients', { client: null }, text, remedy, { page: '/outbox?status=dead' })];
}

/** Finds waiting rows of a client that no worker pushes for. */
function findUnservedProblems(row: OutboxStatus, servedAt: Date | null, now: Date): Problem[] {
  const waiting = row.pending + row.sending + row.unknown - row.toDecide;
  if (waiting === 0) return [];
  if (servedAt !== null && now.getTime() - servedAt.getTime() < unservedMs) return [];
  const last = servedAt === null ? 'no worker ever did' : `a worker last did ${formatAge(servedAt, now)} ago`;
  const text = `${waiting === 1 ? '1 row waits' : `${waiting} rows wait`}, and no worker pushes for this client: ${last}`;
  const remedy = 'start a worker that has this client in its configuration';
  return [createProblem('outbox_unserved', { client: row.client }, text, remedy)];
}

/** Milliseconds without a worker after which a client with waiting rows is a problem. */
const unservedMs = 120_000;

/** Finds the rows that wait for a person. */
function findStuckRowProblems({ client, dead, toDecide }: OutboxStatus): Problem[] {
  const toPage = (status: string) => ({ page: `/outbox?status=${status}&client=${encodeURIComponent(client)}` });
  const found: Problem[] = [];
  if (dead > 0) {
    const text = dead === 1 ? '1 row is dead and blocks its lane' : `${dead} rows are dead and block their lanes`;
    const remedy = 'retry, mark as done, replace or cancel; list them with: fulfilment-sync outbox list --status dead';
    found.push(createProblem('outbox_dead', { client }, text, remedy, toPage('dead')));
  }
  if (toDecide > 0) {
    const text =
      toDecide === 1
        ? '1 row is stuck: it is unknown whether the service carried it out'
        : `${toDecide} rows are stuck: it is unknown whether the service carried them out`;
    const remedy =
      'check at the service, then mark as done or retry; list them with: fulfilment-sync outbox list --status unknown';
    found.push(createProblem('outbox_undecided', { client }, text, remedy, toPage('unknown')));
  }
  return found;
}

const formatAge = (at: Date, now: Date) => formatSpan((now.getTime() - at.getTime()) / 1_000);
const formatSince = (at: Date, now: Date) => `for ${formatAge(at, now)}`;

/** Formats how often something happened: `once`, `3 times`. */
export const formatTimes = (count: number): string => (count === 1 ? 'once' : `${count} times`);

/** Formats how far ahead a time is: `in 12m`, or `now`. */
export function formatWait(at: Date | null, now: Date): string {
  const seconds = ((at ?? now).getTime() - now.getTime()) / 1_000;
  return seconds <= 0 ? 'now' : `in ${formatSpan(seconds)}`;
}
