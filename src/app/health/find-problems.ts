/**
 * Finds the current problems, for `status` and the pages. Each problem says what is wrong and, if possible, what to do.
 */

import { styleText } from 'node:util';
import type { Config } from '../../../config/env.ts';
import type { Schedule } from '../../../config/schedules.ts';
import { dayMs, formatSpan } from '../../core/time.ts';
import type { AlertBacklog } from '../../erp/alerts/posts.ts';
import type { WatchedArticles } from '../../erp/reports/database-facts.ts';
import type { JobStatus } from '../../erp/reports/job-status.ts';
import type { StreamStatus } from '../../erp/reports/stream-status.ts';
import type { ParcelBacklog } from '../../erp/resources/parcel-reads.ts';
import type { KnownClient } from '../../erp/runs/clients.ts';
import { type Pause, resumeHint } from '../../erp/runs/pauses.ts';
import { parcelReadsPerSecond, readsWithoutPause } from '../../sync/pulls/parcels.ts';
import { findOutboxProblems } from './outbox-problems.ts';
import { createProblem, type Problem } from './problem.ts';
import type { Snapshot } from './snapshot.ts';

/** Usual number of changed rows per day from which a day without changes is a problem. */
const minUsualChanges = 5;

/** Finds all problems of a snapshot, in the order of its parts. */
export function findProblems(snapshot: Snapshot, lookbackDays: number): Problem[] {
  const { jobs, streams, clients, pauses, now } = snapshot;
  return [
    ...jobs.flatMap((row) => findJobProblems(row, now)),
    ...streams.flatMap((row) => findStreamProblems(row, lookbackDays, now)),
    ...clients.flatMap((row) => findClientProblems(row, now)),
    ...pauses.map(toPauseProblem),
    ...findOutboxProblems(snapshot, now),
    ...findNotifyProblems(snapshot.notifyQueue),
  ];
}

const severityColors = { bad: 'red', warn: 'yellow', note: 'cyan' } as const;

/** Formats a problem as one line for a terminal. */
export const describeProblem = ({ severity, subject, text, remedy }: Problem): string =>
  `${styleText(severityColors[severity], subject)}: ${text}${remedy === null ? '' : `; ${remedy}`}`;

export function findJobProblems(row: JobStatus, now: Date): Problem[] {
  const { client, job, lastError, consecutiveFailures, warnings, lastSkipAt, lastSkipReason, skips } = row;
  const place = { client, part: job };
  const remedy = 'the next run tries again; if it keeps failing, see: fulfilment-sync doctor';
  const runs = `/runs?client=${encodeURIComponent(client)}&job=${job}`;
  const failing =
    lastError === null
      ? []
      : [
          {
            ...createProblem(
              'job_failing',
              'bad',
              place,
              `failed ${formatTimes(consecutiveFailures)}: ${lastError}`,
              remedy,
            ),
            page: runs,
          },
        ];
  const skipped =
    lastSkipAt === null || now.getTime() - lastSkipAt.getTime() >= dayMs
      ? []
      : [
          createProblem(
            'job_skipped',
            'note',
            place,
            `${skips} runs skipped or missed so far; the last at ${lastSkipAt.toISOString()}: ${lastSkipReason}`,
          ),
        ];
  return [...failing, ...warnings.map((warning) => createProblem('job_warning', 'warn', place, warning)), ...skipped];
}

export function findStreamProblems(row: StreamStatus, lookbackDays: number, now: Date): Problem[] {
  const place = { client: row.client, part: row.stream };
  const found: Problem[] = [];
  if (row.firstLoad) {
    const soFar = row.fetchedSoFar === null ? 'no run is under way' : `the current run has read ${row.fetchedSoFar}`;
    found.push(createProblem('stream_first_load', 'note', place, `the first load is not done; ${soFar}`));
  }
  const sinceSuccessMs = row.lastSuccessAt === null ? null : now.getTime() - row.lastSuccessAt.getTime();
  if (sinceSuccessMs !== null && sinceSuccessMs > dayMs)
    found.push(
      createProblem(
        'stream_stale',
        'bad',
        place,
        `no poll completed for ${formatSpan(sinceSuccessMs / 1_000)}`,
        'check that a worker is running',
      ),
    );
  else if (row.changedLastDay === 0 && (row.usualPerDay ?? 0) >= minUsualChanges)
    found.push(
      createProblem(
        'stream_silent',
        'warn',
        place,
        `polls changed no row in 24 hours; usual: ${Math.round(row.usualPerDay ?? 0)} a day`,
        `compare with the service: fulfilment-sync reconcile ${row.stream} --client ${row.client}`,
      ),
    );
  for (const { from, to } of row.gaps)
    found.push({
      ...createProblem(
        'stream_gap',
        'warn',
        place,
        `nothing was read from ${from} to ${to}, and the service no longer lists these days`,
        'read missing resources by id: fulfilment-sync refetch',
      ),
      detail: `${from}..${to}`,
    });
  found.push(...toRescanProblems(row));
  const lateDays = (row.lateSecondsP99 ?? 0) / 86_400;
  if (row.readByDay && lateDays > lookbackDays)
    found.push(
      createProblem(
        'stream_late_changes',
        'warn',
        place,
        `reconciliations found changes up to ${formatSpan(row.lateSecondsP99)} late, beyond LOOKBACK_DAYS (${lookbackDays})`,
        'raise LOOKBACK_DAYS, or leave such changes to the daily reconciliation',
      ),
    );
  return found;
}

function toRescanProblems({ client, stream, openRescans }: StreamStatus): Problem[] {
  return openRescans.map(({ id, kind, background, fetched, expected, from, to }) => {
    const span = [from === null ? '' : ` --from ${from}`, to === null ? '' : ` --to ${to}`].join('');
    const share = expected === null ? '' : ` of about ${expected}`;
    const next = background ? 'workers continue it' : `continue with: ${kind} ${stream}${span}`;
    return createProblem(
      'stream_rescan',
      'note',
      { client, part: stream },
      `${kind} ${id} is not done: ${fetched}${share} read`,
      next,
    );
  });
}

/** Finds what keeps a whole client from being pulled: another account, or a hold. */
export function findClientProblems(row: KnownClient, now: Date): Problem[] {
  const { client, baseUrl, offeredBaseUrl, holdCode, holdReason, holdSince, holdUntil } = row;
  const parked =
    offeredBaseUrl === null
      ? []
      : [
          createProblem(
            'client_parked',
            'bad',
            { client },
            `parked: a worker or command is set up with ${offeredBaseUrl}, but the rows of the client come from ${baseUrl}`,
            'correct the setting, or accept the account; see: fulfilment-sync client list',
          ),
        ];
  const held =
    holdCode === null
      ? []
      : [
          createProblem(
            'client_held',
            'bad',
            { client },
            `no scheduled run since ${holdSince?.toISOString()}: ${holdReason}`,
            `next try: ${formatWait(holdUntil, now)}; try at once with: fulfilment-sync run <job> --client ${client}`,
          ),
        ];
  return [...parked, ...held];
}

export const toPauseProblem = (pause: Pause): Problem =>
  createProblem(
    'job_paused',
    'note',
    { client: pause.client, part: pause.job },
    `paused since ${pause.since.toISOString()} by ${pause.by}`,
    `resume with: ${resumeHint(pause)}`,
  );

/** Finds clients with watched articles whose stock is never read, because the job pull-stock is off. */
export function findStockProblems(watched: readonly WatchedArticles[], schedule: Schedule): Problem[] {
  if (schedule.kind !== 'off') return [];
  return watched.map(({ client, articles }) =>
    createProblem(
      'stock_off',
      'warn',
      { client },
      `pull-stock is off in this configuration, but ${articles === 1 ? '1 article is' : `${articles} articles are`} watched (fulfilment.stock_watch)`,
      'set SCHEDULE_PULL_STOCK, such as 1h, or delete these rows',
    ),
  );
}

/** Tells of clients with many packages to look up, and how long that takes. */
export function findParcelProblems(
  backlog: readonly ParcelBacklog[],
  {
    schedules,
    REQUESTS_PER_SECOND: perSecond = parcelReadsPerSecond,
  }: Pick<Config, 'schedules' | 'REQUESTS_PER_SECOND'>,
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
      return createProblem('parcels_waiting', 'note', { client, part: 'pull-parcels' }, text);
    });
}

/** Finds posts to ALERT_WEBHOOK_URL that the receiver does not take. This problem is shown, but never posted. */
export function findAlertProblems({ failing, abandoned, oldestAt, lastError }: AlertBacklog, now: Date): Problem[] {
  if (failing + abandoned === 0) return [];
  const age = oldestAt === null ? '' : ` (the oldest for ${formatSpan((now.getTime() - oldestAt.getTime()) / 1_000)})`;
  const parts = [
    ...(failing === 0 ? [] : [`${failing === 1 ? '1 alert waits' : `${failing} alerts wait`}${age}`]),
    ...(abandoned === 0 ? [] : [`${abandoned === 1 ? '1 alert was' : `${abandoned} alerts were`} given up today`]),
  ];
  const text = `${parts.join('; ')}: the receiver does not take it: ${lastError ?? 'no answer'}`;
  const remedy = 'check ALERT_WEBHOOK_URL and its receiver';
  return [createProblem('alerts_undelivered', 'warn', { client: null, part: 'alerts' }, text, remedy)];
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
  if (found === null) return [];
  return [createProblem('notify_queue', 'bad', { client: null }, found.text, found.remedy)];
}

/** Formats how often something happened: `once`, `3 times`. */
export const formatTimes = (count: number): string => (count === 1 ? 'once' : `${count} times`);

/** Formats how far ahead a time is: `in 12m`, or `now`. */
export function formatWait(at: Date | null, now: Date): string {
  const seconds = ((at ?? now).getTime() - now.getTime()) / 1_000;
  return seconds <= 0 ? 'now' : `in ${formatSpan(seconds)}`;
}
