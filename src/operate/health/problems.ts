/**
 * Finds the current problems. Each says what is wrong and, if possible, what to do.
 */

import type { Config } from '../../../config/env.ts';
import type { Schedule } from '../../../config/schedules.ts';
import { changeInWords, describeChoice, placeInWords } from '../../core/database-mark.ts';
import { dayMs, formatSpan } from '../../core/time.ts';
import { parcelReadsPerSecond, readsWithoutPause } from '../../pull/parcels.ts';
import type { FeedBacklog } from '../../pull/sql/feed.ts';
import type { ParcelBacklog } from '../../pull/sql/parcel-rows.ts';
import { longestListLagMs } from '../../push/judge-outcome.ts';
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
  judgeUrgency,
  limits,
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
    ...findSlowRowProblems(snapshot),
    ...snapshot.outbox.flatMap(findUnreadSettings),
    ...findListLagProblems(snapshot.listLags, now),
    ...findStockProblems(watchedArticles, config.schedules['pull-stock']),
    ...findParcelProblems(parcelBacklog, config),
    ...deliveries.flatMap((backlog) =>
      backlog.kind === 'alert' ? findAlertProblems(backlog, now) : findEventProblems(backlog, now),
    ),
    ...findFeedProblems(snapshot.feed, now),
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
  const text = `late ${formatSince(since, now)}; ${last}`;
  const remedy = `run it now: fulfilment-sync run ${job} --client ${client}`;
  const place = { client, part: job };
  return createProblem('job_late', place, text, { remedy, page: '/schedules', since });
}

function findJobProblems(row: JobStatus, now: Date): Problem[] {
  const place = { client: row.client, part: row.job };
  const { lastError, lastSuccessAt, lastSkipAt, lastSkipReason, skips } = row;
  // The warnings of a failed run say why it failed.
  const found =
    lastError === null
      ? row.warnings.map((warning) => createProblem('job_warning', place, warning))
      : [toFailingJobProblem(row, lastError, now)];

  // The next run that is done makes up for those that were not made.
  const isMadeUpFor =
    lastSkipAt === null || (lastSuccessAt !== null && lastSuccessAt >= lastSkipAt);
  if (!isMadeUpFor) {
    const last = `the last at ${formatClock(lastSkipAt, now)}: ${lastSkipReason}`;
    const text = `${formatCount(skips, 'run', 'was', 'were')} skipped or missed so far; ${last}`;
    found.push(createProblem('job_skipped', place, text));
  }
  return found;
}

function toFailingJobProblem(row: JobStatus, lastError: string, now: Date): Problem {
  const { client, job, failingSince, consecutiveFailures } = row;
  const text = `failed ${formatTimes(consecutiveFailures)}: ${lastError}`;
  const urgency = judgeUrgency(failingSince !== null && isLasting(failingSince, now), 'warn', {
    soon: 'nothing to do unless it lasts: it runs again by itself',
    bad: 'see: fulfilment-sync doctor',
  });
  const page = `/runs?client=${encodeURIComponent(client)}&job=${job}`;
  const more = { ...urgency, page, since: failingSince };
  return createProblem('job_failing', { client, part: job }, text, more);
}

function findStreamProblems(row: StreamStatus, lookbackDays: number, now: Date): Problem[] {
  return [
    ...findLoadProblems(row),
    ...findSilenceProblems(row, now),
    ...findQuarantineProblems(row),
    ...findGapProblems(row),
    ...findReconciliationProblems(row),
    ...findRescanProblems(row),
    ...findLateChangeProblems(row, lookbackDays),
  ];
}

const toStreamPlace = ({ client, stream }: StreamStatus) => ({ client, part: stream });

function findLoadProblems(row: StreamStatus): Problem[] {
  if (!row.firstLoad) return [];
  const soFar =
    row.fetchedSoFar === null
      ? 'no run is under way'
      : `the current run has read ${row.fetchedSoFar}`;
  const text = `the first load is not done; ${soFar}`;
  return [createProblem('stream_first_load', toStreamPlace(row), text)];
}

/** Finds that polls find nothing any more. */
function findSilenceProblems(row: StreamStatus, now: Date): Problem[] {
  const { client, stream, lastSuccessAt, changedLastDay, usualPerDay } = row;
  // Without polls, their job has a problem.
  if (now.getTime() - Number(lastSuccessAt) > limits.longMs) return [];
  if (changedLastDay !== 0 || (usualPerDay ?? 0) < limits.usualChanges) return [];

  const usual = Math.round(usualPerDay ?? 0);
  const text = `polls changed no row in 24 hours; usual: ${usual} a day`;
  const compare = `fulfilment-sync reconcile ${stream} --client ${client}`;
  const remedy = `compare with the service: ${compare}`;
  return [createProblem('stream_silent', toStreamPlace(row), text, { remedy })];
}

function findQuarantineProblems(row: StreamStatus): Problem[] {
  const { client, stream, quarantined } = row;
  if (quarantined === 0) return [];
  const they = quarantined === 1 ? 'it' : 'they';
  const many = formatCount(quarantined, 'resource', 'is', 'are');
  const text = `${many} in quarantine: ${they} could not be decoded or stored`;
  const remedy =
    'read the reasons, and tell the operator of the service;' +
    ' a resource leaves when the service lists a correct version';
  const page = `/quarantine?client=${encodeURIComponent(client)}&stream=${stream}`;
  return [createProblem('quarantine', toStreamPlace(row), text, { remedy, page })];
}

function findGapProblems(row: StreamStatus): Problem[] {
  const { gaps, gapCount } = row;
  const place = toStreamPlace(row);
  const found = gaps.map(({ from, to }) => {
    const days = `from ${from} to ${to}`;
    const text = `nothing was read ${days}, and the service no longer lists these days`;
    const remedy = 'read missing resources by id: fulfilment-sync refetch';
    return createProblem('stream_gap', place, text, { remedy, detail: `${from}..${to}` });
  });

  const more = gapCount - gaps.length;
  if (more > 0) {
    const text = `${more} more spans were not read, and the service no longer lists them`;
    const remedy = 'see the table sync.gaps';
    found.push(createProblem('stream_gap', place, text, { remedy, detail: 'more' }));
  }
  return found;
}

/** Finds that a reconciliation healed many rows, which polls should have found. */
function findReconciliationProblems(row: StreamStatus): Problem[] {
  const found = ['missing', 'stale', 'extra'] as const;
  const many = found.filter((finding) => (row[finding] ?? 0) > limits.reconciledRows);
  if (many.length === 0) return [];

  const counts = many.map((finding) => `${row[finding]} ${finding}`).join(', ');
  const text = `the last reconciliation found rows that polls had missed: ${counts}`;
  const remedy =
    'if it lasts for days, polls cannot see some changes, or somebody else writes into fulfilment';
  const more = { remedy, since: row.reconciledAt };
  return [createProblem('reconcile_found', toStreamPlace(row), text, more)];
}

/** Finds rescans that only their command continues. Workers continue the others by themselves. */
function findRescanProblems(row: StreamStatus): Problem[] {
  const left = row.openRescans.filter(({ background }) => !background);
  return left.map(({ id, kind, fetched, expected, from, to }) => {
    const begin = from === null ? '' : ` --from ${from}`;
    const end = to === null ? '' : ` --to ${to}`;
    const of = expected === null ? '' : ` of about ${expected}`;
    const text = `${kind} ${id} is not done: ${fetched}${of} read`;
    const command = `fulfilment-sync ${kind} ${row.stream}${begin}${end}`;
    const remedy = `continue with: ${command}`;
    return createProblem('stream_rescan', toStreamPlace(row), text, { remedy });
  });
}

function findLateChangeProblems(row: StreamStatus, lookbackDays: number): Problem[] {
  if (!row.readByDay || (row.lateSecondsP99 ?? 0) * 1_000 <= lookbackDays * dayMs) return [];
  const late = formatSpan(row.lateSecondsP99);
  const beyond = `beyond LOOKBACK_DAYS (${lookbackDays})`;
  const text = `reconciliations found changes up to ${late} late, ${beyond}`;
  const remedy = 'raise LOOKBACK_DAYS, or leave such changes to the daily reconciliation';
  return [createProblem('stream_late_changes', toStreamPlace(row), text, { remedy })];
}

const toPauseProblem = (pause: Pause, now: Date): Problem =>
  createProblem(
    'job_paused',
    { client: pause.client, part: pause.job },
    `paused since ${formatClock(pause.since, now)} by ${pause.by}`,
    {
      since: pause.since,
      severity: now.getTime() - pause.since.getTime() < limits.longMs ? 'note' : 'warn',
      remedy: `resume with: ${resumeHint(pause)}`,
      page: '/schedules',
    },
  );

/** Finds clients whose lists have lagged longer than pushes take them to lag. */
function findListLagProblems(lags: readonly ListLag[], now: Date): Problem[] {
  return lags.flatMap(({ client, longestMs, longestAt, exceededAt }) => {
    if (exceededAt === null || now.getTime() - exceededAt.getTime() > limits.pastMs) return [];

    const [lag, limit] = [Math.round(longestMs / 1_000), formatSpan(longestListLagMs / 1_000)];
    const text =
      `a list of the service showed an order only ${lag} s after it was sent` +
      ` (${formatClock(longestAt, now)});` +
      ` an order that no list shows for ${limit} may be sent again`;
    const remedy =
      'ask the provider why; compare the orders at the service; this note ends after 7 days';
    const more = { remedy, since: exceededAt };
    return [createProblem('lists_lag', { client, part: 'lists' }, text, more)];
  });
}

/**
 * Finds clients with watched articles whose stock is never read, because the job pull-stock is off.
 */
function findStockProblems(watched: readonly WatchedArticles[], schedule: Schedule): Problem[] {
  if (schedule.kind !== 'off') return [];
  const remedy = 'set SCHEDULE_PULL_STOCK, such as 1h, or delete these rows';

  return watched.map(({ client, articles }) => {
    const many = formatCount(articles, 'article', 'is', 'are');
    const whose = client === null ? ' for clients that are not known here' : '';
    const text =
      `pull-stock is off in this configuration, but ${many} watched${whose}` +
      ' (fulfilment.stock_watch)';
    return createProblem('stock_off', { client }, text, { remedy });
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
      const many = `the packages of ${shipments} shipped shipments`;
      const text = `${many} are to be looked up${oldest}; ${span}`;
      return createProblem('parcels_waiting', { client, part: 'pull-parcels' }, text);
    });
}

/** Describes deliveries that wait or were given up: `2 events wait (the oldest for 3m)`. */
function describeBacklog({ kind, waiting, dead, oldestAt }: DeliveryBacklog, now: Date): string {
  const age = oldestAt === null ? '' : ` (the oldest ${formatSince(oldestAt, now)})`;
  return [
    ...(waiting === 0 ? [] : [`${formatCount(waiting, kind, 'waits', 'wait')}${age}`]),
    ...(dead === 0 ? [] : [formatCount(dead, kind, 'was given up', 'were given up')]),
  ].join('; ');
}

/**
 * Finds posts to ALERT_WEBHOOK_URL that the receiver does not take. This problem is shown, but
 * never posted.
 */
function findAlertProblems(backlog: DeliveryBacklog, now: Date): Problem[] {
  const what = describeBacklog(backlog, now);
  if (what === '') return [];

  const today = backlog.dead === 0 ? '' : ' today';
  const how = `the receiver does not take it: ${backlog.lastError ?? 'no answer'}`;
  const text = `${what}${today}: ${how}`;
  const place = { client: null, part: 'alerts' };
  const remedy = 'check ALERT_WEBHOOK_URL and its receiver';
  return [createProblem('alerts_undelivered', place, text, { remedy, since: backlog.oldestAt })];
}

/**
 * Finds business events that a receiver does not take, one problem for each receiver, and changes
 * without events.
 */
function findEventProblems(backlog: DeliveryBacklog, now: Date): Problem[] {
  const { receiver, dead, lastError, missedAt } = backlog;
  const place = { client: null, part: `events of ${receiver}` };
  const found: Problem[] = [];

  const what = describeBacklog(backlog, now);
  if (what !== '') {
    const text = `${what}: the receiver does not take them: ${lastError ?? 'no answer'}`;
    const urgency = judgeUrgency(dead > 0, 'warn', {
      soon: 'check the receiver; they are posted again',
      bad: 'check the receiver, then: fulfilment-sync events retry',
    });
    const more = { ...urgency, since: backlog.oldestAt };
    found.push(createProblem('events_undelivered', place, text, more));
  }

  if (missedAt !== null) {
    const text =
      'the feed no longer had all changes, the receiver was away for 7 days,' +
      ` or this database was a copy, at ${formatClock(missedAt, now)}: some events were not made`;
    const remedy = 'compare the receiver with the tables; this note ends after 7 days';
    found.push(createProblem('events_missed', place, text, { remedy, since: missedAt }));
  }
  return found;
}

function findFeedProblems({ waiting, oldestAt }: FeedBacklog, now: Date): Problem[] {
  if (oldestAt === null || now.getTime() - oldestAt.getTime() < limits.feedLateMs) return [];

  const text = `${formatCount(waiting, 'change')} not in the feed ${formatSince(oldestAt, now)}`;
  const remedy = 'start a worker; if one runs, see feed_failed in its log';
  return [createProblem('feed_late', { client: null }, text, { remedy, since: oldestAt })];
}

function findNotifyProblems(used: number): Problem[] {
  if (used < limits.notifyQueue) return [];

  const text =
    `${Math.round(used * 100)} % of the NOTIFY queue is used:` +
    ' a session that listens keeps a transaction open';
  const remedy =
    'end the oldest of: select pid, xact_start from pg_stat_activity order by xact_start, with' +
    ' pg_terminate_backend(pid); from 50 % on nobody is notified, and the ERP waits longer';
  return [createProblem('notify_queue', { client: null }, text, { remedy })];
}

function findDriftProblems(missing: readonly string[]): Problem[] {
  if (missing.length === 0) return [];
  const text = `missing in the schema: ${missing.join('; ')}`;
  const remedy = 'see: fulfilment-sync doctor';
  return [createProblem('schema_drift', { client: null }, text, { remedy })];
}

function findDatabaseProblems(database: PushDatabase | null, now: Date): Problem[] {
  if (database === null) return [];
  const { change, changedAt, acceptedAs, acceptedAt, askedSince } = database;
  const place = { client: null };

  if (change === 'none' && acceptedAs === 'copy') {
    const at = acceptedAt.toISOString();
    const text = `no row or event is sent: this database was accepted as a copy at ${at}`;
    const more = { remedy: 'pulls and alerts continue', since: acceptedAt };
    return [createProblem('database_is_copy', place, text, more)];
  }
  if (change === 'none' && askedSince === null) return [];

  const heldSince = change === 'none' ? askedSince : changedAt;
  const since = heldSince === null ? '' : ` ${formatSince(heldSince, now)}`;
  const text =
    change === 'none'
      ? `workers send no row${since}: ${placeInWords} (database_changed)`
      : `no row is sent${since}: the database has changed (database_changed): ` +
        changeInWords[change];
  const remedy = `pulls continue; ${describeChoice(change)}`;
  const more = { remedy, since: heldSince, page: '/database' };
  return [createProblem('database_changed', place, text, more)];
}

/**
 * Describes stuck rows of clients that are not known here. They are one problem, because a role
 * that inserts rows can invent any number of clients. Waiting rows are no problem: a worker marks
 * them as dead.
 */
function describeUnknownClients(rows: number, clients: number): Problem {
  const many = formatCount(rows, 'row', 'is', 'are');
  const name = rows === 1 ? 'names' : 'name';
  const whom = clients === 1 ? 'a client that is' : `${clients} clients that are`;
  const text = `${many} dead or stuck and ${name} ${whom} not known here`;
  const remedy =
    'add the clients to a worker, or cancel the rows: fulfilment-sync outbox list --status dead';
  const more = { remedy, page: '/outbox?status=dead' };
  return createProblem('outbox_unknown_clients', { client: null }, text, more);
}

/**
 * Finds clients whose oldest row takes too long for a reason that no other problem names: a stuck
 * row, a paused outbox or a changed database is one.
 */
function findSlowRowProblems({ outbox, pauses, database, now }: CurrentState['snapshot']) {
  const sends = database === null || (database.change === 'none' && database.acceptedAs !== 'copy');
  const isPaused = (client: string) =>
    pauses.some((one) => one.job === 'push-outbox' && (one.client ?? client) === client);

  return outbox.flatMap(({ client, dead, toDecide, oldestMovingSeconds }): Problem[] => {
    const oldestMs = (oldestMovingSeconds ?? 0) * 1_000;
    if (client === null || oldestMs < limits.patienceMs || dead + toDecide > 0) return [];
    if (!sends || isPaused(client)) return [];

    const text = `the oldest row waits for ${formatSpan(oldestMs / 1_000)}`;
    const remedy = 'see what it waits for: fulfilment-sync outbox list';
    const page = `/outbox?client=${encodeURIComponent(client)}`;
    const more = { remedy, page, since: new Date(now.getTime() - oldestMs) };
    return [createProblem('outbox_slow', { client, part: 'outbox' }, text, more)];
  });
}

/** Finds rows that wait until the settings of the service can be read: their codes are unknown. */
function findUnreadSettings({ client, settingsUnread }: OutboxStatus): Problem[] {
  if (client === null || settingsUnread === 0) return [];

  const wait = settingsUnread === 1 ? 'waits' : 'wait';
  const text =
    `${formatCount(settingsUnread, 'row')} ${wait} because the settings of the service ` +
    'could not be read, so that codes could not be checked';
  const remedy = `see why: fulfilment-sync run refresh-settings --client ${client}`;
  const page = `/outbox?client=${encodeURIComponent(client)}`;
  const place = { client, part: 'outbox' };
  return [createProblem('settings_unread', place, text, { remedy, page })];
}

/** Finds the rows that wait for a person. */
function findStuckRowProblems({ client, dead, toDecide, stuckClients }: OutboxStatus): Problem[] {
  if (client === null)
    return dead + toDecide === 0 ? [] : [describeUnknownClients(dead + toDecide, stuckClients)];

  const list = 'fulfilment-sync outbox list --status';
  const page = (status: string) => `/outbox?status=${status}&client=${encodeURIComponent(client)}`;
  const found: Problem[] = [];
  if (dead > 0) {
    const lanes = dead === 1 ? 'blocks its lane' : 'block their lanes';
    const text = `${formatCount(dead, 'row', 'is', 'are')} dead and ${lanes}`;
    const remedy = `retry, replace, mark as done or cancel: ${list} dead`;
    found.push(createProblem('outbox_dead', { client }, text, { remedy, page: page('dead') }));
  }
  if (toDecide > 0) {
    const text =
      `${formatCount(toDecide, 'row', 'is', 'are')} stuck: it is unknown whether the service ` +
      `carried ${toDecide === 1 ? 'it' : 'them'} out`;
    const remedy = `check at the service, then mark as done or retry: ${list} unknown`;
    const more = { remedy, page: page('unknown') };
    found.push(createProblem('outbox_undecided', { client }, text, more));
  }
  return found;
}
