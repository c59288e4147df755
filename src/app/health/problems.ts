/**
 * What is wrong at present, in words: for status, pages and metrics. A problem names what to do.
 */

import { styleText } from 'node:util';
import { dayMs, formatSpan } from '../../core/time.ts';
import type { JobStatus } from '../../erp/reports/job-status.ts';
import type { StreamStatus } from '../../erp/reports/stream-status.ts';
import type { KnownClient } from '../../erp/runs/clients.ts';
import { type Pause, resumeHint } from '../../erp/runs/pauses.ts';
import { type Problem, problem } from './problem.ts';
import { problemsOfOutbox } from './problems-of-outbox.ts';
import type { Snapshot } from './snapshot.ts';

/** A stream that usually changes this many rows a day is reported when it changed none. */
const worthAWord = 5;

/** Everything that is worth a word, in the order of its parts. */
export function findProblems(snapshot: Snapshot, lookbackDays: number): Problem[] {
  const { jobs, streams, clients, pauses, now } = snapshot;
  return [
    ...jobs.flatMap((row) => problemsOfJob(row, now)),
    ...streams.flatMap((row) => problemsOfStream(row, lookbackDays, now)),
    ...clients.flatMap((row) => problemsOfClient(row, now)),
    ...pauses.map(problemOfPause),
    ...problemsOfOutbox(snapshot, now),
  ];
}

const looks = { bad: 'red', warn: 'yellow', note: 'cyan' } as const;

/** One line for a terminal. */
export const describeProblem = ({ severity, subject, text, remedy }: Problem): string =>
  `${styleText(looks[severity], subject)}: ${text}${remedy === null ? '' : `; ${remedy}`}`;

export function problemsOfJob(row: JobStatus, now: Date): Problem[] {
  const { client, job, lastError, consecutiveFailures, warnings, lastSkipAt, lastSkipReason, skips } = row;
  const subject = `${client} ${job}`;
  const remedy = 'it is tried again by itself; if it stays: fulfilment-sync doctor';
  const runs = `/runs?client=${encodeURIComponent(client)}&job=${job}`;
  const failing =
    lastError === null
      ? []
      : [
          {
            ...problem('bad', subject, `failed ${times(consecutiveFailures)}: ${lastError}`, remedy),
            page: runs,
          },
        ];
  const skipped =
    lastSkipAt === null || now.getTime() - lastSkipAt.getTime() >= dayMs
      ? []
      : [
          problem(
            'note',
            subject,
            `${skips} runs refused or missed so far, last ${lastSkipAt.toISOString()}: ${lastSkipReason}`,
          ),
        ];
  return [...failing, ...warnings.map((warning) => problem('warn', subject, warning)), ...skipped];
}

export function problemsOfStream(row: StreamStatus, lookbackDays: number, now: Date): Problem[] {
  const subject = `${row.client} ${row.stream}`;
  const found: Problem[] = [];
  if (row.firstLoad) {
    const soFar = row.fetchedSoFar === null ? 'no run is under way' : `${row.fetchedSoFar} read by the run under way`;
    found.push(problem('note', subject, `the first load is not done; ${soFar}`));
  }
  const sinceSuccessMs = row.lastSuccessAt === null ? null : now.getTime() - row.lastSuccessAt.getTime();
  if (sinceSuccessMs !== null && sinceSuccessMs > dayMs)
    found.push(
      problem('bad', subject, `nothing was read for ${formatSpan(sinceSuccessMs / 1_000)}`, 'is a worker running?'),
    );
  else if (row.changedLastDay === 0 && (row.usualPerDay ?? 0) >= worthAWord)
    found.push(
      problem(
        'warn',
        subject,
        `ran, and changed no row in 24 hours; usual are ${Math.round(row.usualPerDay ?? 0)} a day`,
        `prove it with: fulfilment-sync reconcile ${row.stream} --client ${row.client}`,
      ),
    );
  for (const { from, to } of row.gaps)
    found.push(
      problem(
        'warn',
        subject,
        `nobody read from ${from} to ${to}; that can no longer be listed`,
        'refetch single ids you miss',
      ),
    );
  found.push(...problemsOfRescans(row));
  const lateDays = (row.lateSecondsP99 ?? 0) / 86_400;
  if (row.readByDay && lateDays > lookbackDays)
    found.push(
      problem(
        'warn',
        subject,
        `changes were healed up to ${formatSpan(row.lateSecondsP99)} late, beyond LOOKBACK_DAYS ${lookbackDays}`,
        'raise it, or leave them to the daily reconciliation',
      ),
    );
  return found;
}

function problemsOfRescans({ client, stream, openRescans }: StreamStatus): Problem[] {
  return openRescans.map(({ id, kind, background, fetched, expected, from, to }) => {
    const span = [from === null ? '' : ` --from ${from}`, to === null ? '' : ` --to ${to}`].join('');
    const share = expected === null ? '' : ` of about ${expected}`;
    const who = background ? 'workers go on with it' : `go on with: ${kind} ${stream}${span}`;
    return problem('note', `${client} ${stream}`, `${kind} ${id} is not done: ${fetched}${share} read`, who);
  });
}

/** What keeps a whole client from being read. */
export function problemsOfClient(row: KnownClient, now: Date): Problem[] {
  const { client, baseUrl, offeredBaseUrl, holdCode, holdReason, holdSince, holdUntil } = row;
  const parked =
    offeredBaseUrl === null
      ? []
      : [
          problem(
            'bad',
            client,
            `parked: a worker or command came with ${offeredBaseUrl}, its rows come from ${baseUrl}`,
            'see: fulfilment-sync client list',
          ),
        ];
  const held =
    holdCode === null
      ? []
      : [
          problem(
            'bad',
            client,
            `nothing is pulled since ${holdSince?.toISOString()}: ${holdReason}`,
            `tried again ${inWords(holdUntil, now)}, or at once with: fulfilment-sync run <job> --client ${client}`,
          ),
        ];
  return [...parked, ...held];
}

export const problemOfPause = (pause: Pause): Problem =>
  problem(
    'note',
    `${pause.client ?? 'every client'} ${pause.job}`,
    `paused since ${pause.since.toISOString()} by ${pause.by}`,
    `go on with: ${resumeHint(pause)}`,
  );

/** `once`, `3 times`. */
export const times = (count: number): string => (count === 1 ? 'once' : `${count} times`);

/** `in 12m`, or `now`. */
export function inWords(at: Date | null, now: Date): string {
  const seconds = ((at ?? now).getTime() - now.getTime()) / 1_000;
  return seconds <= 0 ? 'now' : `in ${formatSpan(seconds)}`;
}
