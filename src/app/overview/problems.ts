import { styleText } from 'node:util';
import type { KnownClient } from '../../erp/clients.ts';
import type { OutboxStatus } from '../../erp/outbox-status.ts';
import { type Pause, resumeHint } from '../../erp/pauses.ts';
import type { StoredHold } from '../../erp/push-holds.ts';
import type { JobStatus } from '../../erp/status.ts';
import type { StreamStatus } from '../../erp/stream-status.ts';
import { formatSpan } from '../table.ts';
import type { Snapshot } from './snapshot.ts';

/** Something a person should know of, and what he can do about it. */
export interface Problem {
  /** `bad`: something does not get through. `warn`: it should be looked at. `note`: it is meant, or under way. */
  readonly severity: 'bad' | 'warn' | 'note';
  /** Client, and what of it: a job, a stream, the outbox. */
  readonly subject: string;
  readonly text: string;
  /** What to do; null where nothing is to be done. */
  readonly remedy: string | null;
  /** Page of the admin server that shows more. */
  readonly page?: string;
}

const dayMs = 86_400_000;
/** A stream that usually changes so many rows a day and changed none is worth a word. */
const worthAWord = 5;

const problem = (
  severity: Problem['severity'],
  subject: string,
  text: string,
  remedy: string | null = null,
): Problem => ({ severity, subject, text, remedy });

/** Everything that is worth a word, in the order of its parts. */
export function findProblems(snapshot: Snapshot, lookbackDays: number): Problem[] {
  const { jobs, streams, clients, pauses, outbox, holds, now } = snapshot;
  return [
    ...jobs.flatMap((row) => problemsOfJob(row, now)),
    ...streams.flatMap((row) => problemsOfStream(row, lookbackDays, now)),
    ...clients.flatMap((row) => problemsOfClient(row, now)),
    ...pauses.map(problemOfPause),
    ...problemsOfOutbox(outbox, holds),
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

export function problemsOfOutbox(rows: readonly OutboxStatus[], holds: readonly StoredHold[]): Problem[] {
  return [
    ...holds.map(({ client, kind, reason, untilInMs }) => {
      const what = kind === '' ? 'nothing is pushed' : `no ${kind} is pushed`;
      const next = untilInMs > 0 ? `tried again in ${formatSpan(untilInMs / 1_000)}` : 'being tried again';
      return problem('bad', client, `${what}: ${reason}`, next);
    }),
    ...rows.flatMap((row) => [...problemOfDead(row), ...problemOfUndecided(row)]),
  ];
}

function problemOfDead({ client, dead }: OutboxStatus): Problem[] {
  if (dead === 0) return [];
  const text =
    dead === 1 ? '1 row is dead and blocks what is behind it' : `${dead} rows are dead and block what is behind them`;
  const remedy = 'see: fulfilment-sync outbox list --status dead';
  return [
    { ...problem('bad', client, text, remedy), page: `/outbox?status=dead&client=${encodeURIComponent(client)}` },
  ];
}

function problemOfUndecided({ client, toDecide }: OutboxStatus): Problem[] {
  if (toDecide === 0) return [];
  const text = `${toDecide === 1 ? '1 row waits' : `${toDecide} rows wait`} for a person to say what became of it`;
  const remedy = 'see: fulfilment-sync outbox list --status unknown';
  return [
    { ...problem('bad', client, text, remedy), page: `/outbox?status=unknown&client=${encodeURIComponent(client)}` },
  ];
}

/** `once`, `3 times`. */
export const times = (count: number): string => (count === 1 ? 'once' : `${count} times`);

/** `in 12m`, or `now`. */
export function inWords(at: Date | null, now: Date): string {
  const seconds = ((at ?? now).getTime() - now.getTime()) / 1_000;
  return seconds <= 0 ? 'now' : `in ${formatSpan(seconds)}`;
}
