/**
 * Finds the current problems. Each says what is wrong and, if possible, what to do.
 */

import type { Config } from '../../../config/env.ts';
import type { Schedule } from '../../../config/schedules.ts';
import { changeInWords } from '../../core/database-mark.ts';
import { dayMs, formatSpan } from '../../core/time.ts';
import { parcelReadsPerSecond, readsWithoutPause } from '../../pull/parcels.ts';
import type { ParcelBacklog } from '../../pull/sql/parcel-reads.ts';
import { longestListLagMs } from '../../push/judge-absence.ts';
import type { ListLag } from '../../push/sql/look-ups.ts';
import type { PushDatabase } from '../../push/sql/push-database.ts';
import { resumeHint } from '../../schedule/decide-start.ts';
import type { Pause } from '../../schedule/sql/pauses.ts';
import type { WatchedArticles } from '../sql/database-facts.ts';
import type { JobStatus } from '../sql/job-status.ts';
import type { OutboxStatus } from '../sql/outbox-status.ts';
import type { StreamStatus } from '../sql/stream-status.ts';
import type { DeliveryBacklog } from '../sql/undelivered.ts';
import { findCauses, isExplained } from './causes.ts';
import {
  createProblem,
  formatClock,
  formatCount,
  formatSince,
  formatTimes,
  isLasting,
  type Problem,
  sortBySeverity,
} from './problem.ts';
import type { CurrentState, LateJob } from './state.ts';

type ProblemConfig = Pick<Config, 'LOOKBACK_DAYS' | 'REQUESTS_PER_SECOND' | 'schedules'>;

/**
 * Finds all problems of a state, the worst first. What follows from a cause is listed under it.
 * `status`, the pages, metrics and alerts all show this list.
 */
export function findProblems(state: CurrentState, config: ProblemConfig): Problem[] {
  const { snapshot, stale, isScheduled } = state;
  const { pauses, watchedArticles, parcelBacklog, deliveries, drift, now } = snapshot;
  const jobs = snapshot.jobs.filter(({ client, job }) => isScheduled(client, job));
  const streams = snapshot.streams.filter(({ client, job }) => isScheduled(client, job));
  const causes = findCauses(state);
  const others = [
    ...stale
      .filter(({ because }) => because === 'not run')
      .map((job) => toLateJobProblem(job, now)),
    ...jobs.flatMap((row) => findJobProblems(row, now)),
    ...streams.flatMap((row) => findStreamProblems(row, config.LOOKBACK_DAYS, now)),
    ...pauses.map((pause) => toPauseProblem(pause, now)),
    ...findDatabaseProblems(snapshot.database, now),
    ...snapshot.outbox.flatMap(findStuckRowProblems),
    ...findListLagProblems(snapshot.listLags, now),
    ...findStockProblems(watchedArticles, config.schedules['pull-stock']),
    ...findParcelProblems(parcelBacklog, config),
    ...deliveries.flatMap((backlog) =>
      backlog.kind === 'alert' ? findAlertProblems(backlog, now) : findEventProblems(backlog, now),
    ),
    ...findNotifyProblems(snapshot.notifyQueue),
    ...findDriftProblems(drift),
  ];
  const byCause = Map.groupBy(others, (problem) =>
    causes.find((cause) => isExplained(problem, cause)),
  );
  return sortBySeverity([
    ...causes.map((cause) => ({ ...cause.problem, follows: byCause.get(cause) ?? [] })),
    ...(byCause.get(undefined) ?? []),
  ]);
}

/**
 * Makes a problem of a job that is late because it did not run. Failing and paused jobs have
 * problems already.
 */
function toLateJobProblem({ client, job, lastSuccessAt, since }: LateJob, now: Date): Problem {
  const last =
    lastSuccessAt === null
      ? 'it was never done'
      : `last done at ${formatClock(lastSuccessAt, now)}`;
  const remedy = `run it now: fulfilment-sync run ${job} --client ${client}`;
  const text = `late ${formatSince(since, now)}; ${last}`;
  return createProblem('job_late', { client, part: job }, text, remedy, { page: '/schedules' });
}

/** Usual number of changed rows per day from which a day without changes is a problem. */
const minUsualChanges = 5;

function findJobProblems(row: JobStatus, now: Date): Problem[] {
  const {
    client,
    job,
    lastError,
    failingSince,
    consecutiveFailures,
    lastSkipAt,
    lastSkipReason,
    skips,
  } = row;
  const place = { client, part: job };
  // The warnings of a failed run say why it failed.
  const warnings = lastError === null ? row.warnings : [];
  const found = warnings.map((warning) => createProblem('job_warning', place, warning));
  if (lastError !== null) {
    const severity = failingSince !== null && isLasting(failingSince, now) ? 'bad' : 'warn';
    const text = `failed ${formatTimes(consecutiveFailures)}: ${lastError}`;
    const remedy =
      severity === 'bad'
        ? 'see: fulfilment-sync doctor'
        : 'nothing to do unless it lasts: it runs again by itself';
    const page = `/runs?client=${encodeURIComponent(client)}&job=${job}`;
    found.push(createProblem('job_failing', place, text, remedy, { severity, page }));
  }
  // The next run that is done makes up for those that were not made.
  if (lastSkipAt !== null && (row.lastSuccessAt === null || row.lastSuccessAt < lastSkipAt)) {
    const many = skips === 1 ? '1 run was' : `${skips} runs were`;
    const text = `${many} skipped or missed so far; the last at ${formatClock(lastSkipAt, now)}: ${lastSkipReason}`;
    found.push(createProblem('job_skipped', place, text));
  }
  return found;
}

function findStreamProblems(row: StreamStatus, lookbackDays: number, now: Date): Problem[] {
  const { client, stream } = row;
  const place = { client, part: stream };
  const found: Problem[] = [];
  if (row.firstLoad) {
    const soFar =
      row.fetchedSoFar === null
        ? 'no run is under way'
        : `the current run has read ${row.fetchedSoFar}`;
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
  if (row.quarantined > 0) {
    const text = `${row.quarantined === 1 ? '1 resource is' : `${row.quarantined} resources are`} in quarantine: ${row.quarantined === 1 ? 'it' : 'they'} could not be decoded or stored`;
    const remedy =
      'read the reasons, and tell the operator of the service; a correct version releases it by itself';
    const page = `/quarantine?client=${encodeURIComponent(client)}&stream=${stream}`;
    found.push(createProblem('quarantine', place, text, remedy, { page }));
  }
  for (const { from, to } of row.gaps) {
    const text = `nothing was read from ${from} to ${to}, and the service no longer lists these days`;
    const remedy = 'read missing resources by id: fulfilment-sync refetch';
    found.push(createProblem('stream_gap', place, text, remedy, { detail: `${from}..${to}` }));
  }
  if (row.gapCount > row.gaps.length) {
    const text = `${row.gapCount - row.gaps.length} more spans were not read, and the service no longer lists them`;
    found.push(
      createProblem('stream_gap', place, text, 'see the table sync.gaps', { detail: 'more' }),
    );
  }
  for (const { id, kind, background, fetched, expected, from, to } of row.openRescans) {
    const span = [from === null ? '' : ` --from ${from}`, to === null ? '' : ` --to ${to}`].join(
      '',
    );
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

const toPauseProblem = (pause: Pause, now: Date): Problem =>
  createProblem(
    'job_paused',
    { client: pause.client, part: pause.job },
    `paused since ${formatClock(pause.since, now)} by ${pause.by}`,
    `resume with: ${resumeHint(pause)}`,
    { page: '/schedules' },
  );

/** A list that lagged too long is a problem for this time. */
const lagProblemMs = 7 * dayMs;

/** Finds clients whose lists have lagged longer than pushes take them to lag. */
function findListLagProblems(lags: readonly ListLag[], now: Date): Problem[] {
  return lags.flatMap(({ client, longestMs, longestAt, exceededAt }) => {
    if (exceededAt === null || now.getTime() - exceededAt.getTime() > lagProblemMs) return [];
    const limit = formatSpan(longestListLagMs / 1_000);
    const text =
      `a list of the service showed an order only ${Math.round(longestMs / 1_000)} s after it was sent` +
      ` (${formatClock(longestAt, now)}); an order that no list shows for ${limit} may be sent again`;
    const remedy =
      'ask the provider why; compare the orders at the service; this note ends after 7 days';
    return [createProblem('lists_lag', { client, part: 'lists' }, text, remedy)];
  });
}

/**
 * Finds clients with watched articles whose stock is never read, because the job pull-stock is off.
 */
export function findStockProblems(
  watched: readonly WatchedArticles[],
  schedule: Schedule,
): Problem[] {
  if (schedule.kind !== 'off') return [];
  return watched.map(({ client, articles }) => {
    const many = `${formatCount(articles, 'article')} ${articles === 1 ? 'is' : 'are'}`;
    const whose = client === null ? ' for clients that are not known here' : '';
    const text = `pull-stock is off in this configuration, but ${many} watched${whose} (fulfilment.stock_watch)`;
    return createProblem(
      'stock_off',
      { client },
      text,
      'set SCHEDULE_PULL_STOCK, such as 1h, or delete these rows',
    );
  });
}

/** Tells of clients with many packages to look up, and how long that takes. */
function findParcelProblems(
  backlog: readonly ParcelBacklog[],
  { schedules, REQUESTS_PER_SECOND: perSecond = parcelReadsPerSecond }: ProblemConfig,
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

/**
 * Finds posts to ALERT_WEBHOOK_URL that the receiver does not take. This problem is shown, but
 * never posted.
 */
function findAlertProblems(
  { waiting, dead, oldestAt, lastError }: DeliveryBacklog,
  now: Date,
): Problem[] {
  if (waiting + dead === 0) return [];
  const age = oldestAt === null ? '' : ` (the oldest ${formatSince(oldestAt, now)})`;
  const parts = [
    ...(waiting === 0
      ? []
      : [`${waiting === 1 ? '1 alert waits' : `${waiting} alerts wait`}${age}`]),
    ...(dead === 0 ? [] : [`${dead === 1 ? '1 alert was' : `${dead} alerts were`} given up today`]),
  ];
  const text = `${parts.join('; ')}: the receiver does not take it: ${lastError ?? 'no answer'}`;
  const place = { client: null, part: 'alerts' };
  return [
    createProblem('alerts_undelivered', place, text, 'check ALERT_WEBHOOK_URL and its receiver'),
  ];
}

/**
 * Finds business events that a receiver does not take, one problem for each receiver, and changes
 * without events.
 */
function findEventProblems(
  { receiver, waiting, dead, oldestAt, lastError, missedAt }: DeliveryBacklog,
  now: Date,
) {
  const place = { client: null, part: `events of ${receiver}` };
  const found: Problem[] = [];
  if (waiting + dead > 0) {
    const age = oldestAt === null ? '' : ` (the oldest ${formatSince(oldestAt, now)})`;
    const parts = [
      ...(waiting === 0
        ? []
        : [`${waiting === 1 ? '1 event waits' : `${waiting} events wait`}${age}`]),
      ...(dead === 0 ? [] : [`${dead === 1 ? '1 event was' : `${dead} events were`} given up`]),
    ];
    const text = `${parts.join('; ')}: the receiver does not take them: ${lastError ?? 'no answer'}`;
    const remedy =
      dead > 0
        ? 'check the receiver, then: fulfilment-sync events retry'
        : 'check the receiver; they are posted again';
    const severity = dead > 0 ? 'bad' : 'warn';
    found.push(createProblem('events_undelivered', place, text, remedy, { severity }));
  }
  if (missedAt !== null) {
    const text = `the feed no longer had all changes, or the receiver was away for 7 days, at ${formatClock(missedAt, now)}: some events were not made`;
    found.push(
      createProblem(
        'events_missed',
        place,
        text,
        'compare the receiver with the tables; this note ends after 7 days',
      ),
    );
  }
  return found;
}

/**
 * Used part of the NOTIFY queue from which on it is a problem. It is nearly empty unless a session
 * holds it up.
 */
const muchNotified = 0.1;

/** Describes the NOTIFY queue of the server if much of it is used; null if not. */
export function describeNotifyQueue(
  used: number,
): { readonly text: string; readonly remedy: string } | null {
  if (used < muchNotified) return null;
  return {
    text: `${Math.round(used * 100)} % of the NOTIFY queue is used: a session that listens keeps a transaction open`,
    remedy:
      'end the oldest transaction (docs/operations.md); from 50 % on nobody is notified, and the ERP waits longer',
  };
}

function findNotifyProblems(used: number): Problem[] {
  const found = describeNotifyQueue(used);
  return found === null
    ? []
    : [createProblem('notify_queue', { client: null }, found.text, found.remedy)];
}

function findDriftProblems(missing: readonly string[]): Problem[] {
  if (missing.length === 0) return [];
  const text = `missing in the schema: ${missing.join('; ')}`;
  return [createProblem('schema_drift', { client: null }, text, 'see: fulfilment-sync doctor')];
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

/**
 * Describes stuck rows of clients that are not known here. They are one problem, because a role
 * that inserts rows can invent any number of clients. Waiting rows are no problem: a worker marks
 * them as dead.
 */
function describeUnknownClients(rows: number, clients: number): Problem {
  const text =
    `${rows === 1 ? '1 row is' : `${rows} rows are`} dead or stuck and ${rows === 1 ? 'names' : 'name'} ` +
    `${clients === 1 ? 'a client that is' : `${clients} clients that are`} not known here`;
  const remedy =
    'add the clients to a worker, or cancel the rows: fulfilment-sync outbox list --status dead';
  return createProblem('outbox_unknown_clients', { client: null }, text, remedy, {
    page: '/outbox?status=dead',
  });
}

/** Finds the rows that wait for a person. */
function findStuckRowProblems({ client, dead, toDecide, stuckClients }: OutboxStatus): Problem[] {
  if (client === null)
    return dead + toDecide === 0 ? [] : [describeUnknownClients(dead + toDecide, stuckClients)];
  const toPage = (status: string) => ({
    page: `/outbox?status=${status}&client=${encodeURIComponent(client)}`,
  });
  const found: Problem[] = [];
  if (dead > 0) {
    const text =
      dead === 1
        ? '1 row is dead and blocks its lane'
        : `${dead} rows are dead and block their lanes`;
    const remedy =
      'retry, replace, mark as done or cancel: fulfilment-sync outbox list --status dead';
    found.push(createProblem('outbox_dead', { client }, text, remedy, toPage('dead')));
  }
  if (toDecide > 0) {
    const text =
      toDecide === 1
        ? '1 row is stuck: it is unknown whether the service carried it out'
        : `${toDecide} rows are stuck: it is unknown whether the service carried them out`;
    const remedy =
      'check at the service, then mark as done or retry: fulfilment-sync outbox list --status unknown';
    found.push(createProblem('outbox_undecided', { client }, text, remedy, toPage('unknown')));
  }
  return found;
}
