import { changeInWords } from '../../core/database-mark.ts';
import { formatSpan } from '../../core/time.ts';
import { isHeld, type StoredHealth } from '../../erp/outbox/holds.ts';
import type { PushDatabase } from '../../erp/outbox/push-database.ts';
import type { StoredRate } from '../../erp/outbox/rates.ts';
import type { OutboxStatus } from '../../erp/reports/outbox-status.ts';
import { createProblem, type Problem } from './problem.ts';
import type { Snapshot } from './snapshot.ts';

/** Milliseconds without a worker after which a client with waiting rows is a problem. */
const unservedMs = 120_000;

/** Finds every reason why rows of the outbox are not sent or not done. Each problem also says what still works. */
export function findOutboxProblems(
  { outbox, holds, rates, clients, database }: Pick<Snapshot, 'outbox' | 'holds' | 'rates' | 'clients' | 'database'>,
  now: Date,
): Problem[] {
  const served = new Map(clients.map(({ client, servedAt }) => [client, servedAt]));
  return [
    ...findDatabaseProblems(database, now),
    ...holds.map((health) => toHoldProblem(health, now)),
    ...rates.map((rate) => toRateProblem(rate, now)),
    ...outbox
      .filter(({ client }) => served.has(client))
      .flatMap((row) => [
        ...findUnservedProblems(row, served.get(row.client) ?? null, now),
        ...findDeadRowProblems(row),
        ...findUndecidedRowProblems(row),
      ]),
    ...findUnknownClientProblems(outbox.filter(({ client }) => !served.has(client))),
  ];
}

const everyClient = { client: null };

const formatSince = (at: Date, now: Date) => `for ${formatSpan((now.getTime() - at.getTime()) / 1_000)}`;

function findDatabaseProblems(database: PushDatabase | null, now: Date): Problem[] {
  if (database === null) return [];
  const { change, changedAt, acceptedAs, acceptedAt } = database;
  if (change === 'none') {
    if (acceptedAs !== 'copy') return [];
    const text = `no row is sent: this database was accepted as a copy at ${acceptedAt.toISOString()}`;
    return [createProblem('database_is_copy', 'note', everyClient, text, 'pulls continue')];
  }
  const text = `no row is sent${changedAt === null ? '' : ` ${formatSince(changedAt, now)}`}: the database has changed (database_changed): ${changeInWords[change]}`;
  const remedy =
    'pulls continue; say what this database is: fulfilment-sync database accept --as moved, restored or copy (docs/operations.md)';
  return [createProblem('database_changed', 'bad', everyClient, text, remedy)];
}

function toHoldProblem(health: StoredHealth, now: Date): Problem {
  const { client, kind, reason, sendWindow, untilInMs } = health;
  const others = kind === '' ? 'pulls and other clients continue' : 'other kinds continue';
  if (!isHeld(health)) {
    const what = kind === '' ? 'rows are' : `${kind} is`;
    const many = sendWindow === 1 ? 'one row' : `${sendWindow} rows`;
    const text = `${what} sent ${many} at a time since a hold that began ${formatHoldAge(health, now)}: ${reason}`;
    const severity = kind !== '' && sendWindow === 1 ? 'bad' : 'note';
    const next = `${others}; the number grows with each row that is done`;
    return { ...createProblem('push_held', severity, { client }, text, next), detail: kind };
  }
  const what = kind === '' ? 'no row is sent' : `no ${kind} is sent`;
  const next = untilInMs > 0 ? `next try in ${formatSpan(untilInMs / 1_000)}` : 'a try is under way';
  const text = `${what} ${formatSince(health.since, now)}: ${reason}`;
  return { ...createProblem('push_held', 'bad', { client }, text, `${next}; ${others}`), detail: kind };
}

const formatHoldAge = ({ since: at }: StoredHealth, now: Date) =>
  `${formatSpan((now.getTime() - at.getTime()) / 1_000)} ago`;

function toRateProblem({ client, perSecond, since: at, refused }: StoredRate, now: Date): Problem {
  const text = `the service limits the rate (429, ${refused} times ${formatSince(at, now)}): ${perSecond.toFixed(1)} rows a second are sent`;
  return createProblem(
    'push_limited',
    'note',
    { client },
    text,
    'the rate grows by itself; a refusal does not count as an attempt',
  );
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
  return [
    { ...createProblem('outbox_unknown_clients', 'bad', everyClient, text, remedy), page: '/outbox?status=dead' },
  ];
}

/** Finds waiting rows of a client that no worker pushes for. */
function findUnservedProblems(row: OutboxStatus, servedAt: Date | null, now: Date): Problem[] {
  const waiting = row.pending + row.sending + row.unknown - row.toDecide;
  if (waiting === 0) return [];
  if (servedAt !== null && now.getTime() - servedAt.getTime() < unservedMs) return [];
  const last =
    servedAt === null
      ? 'no worker ever did'
      : `a worker last did ${formatSpan((now.getTime() - servedAt.getTime()) / 1_000)} ago`;
  const text = `${waiting === 1 ? '1 row waits' : `${waiting} rows wait`}, and no worker pushes for this client: ${last}`;
  return [
    createProblem(
      'outbox_unserved',
      'bad',
      { client: row.client },
      text,
      'start a worker that has this client in its configuration',
    ),
  ];
}

function findDeadRowProblems({ client, dead }: OutboxStatus): Problem[] {
  if (dead === 0) return [];
  const text = dead === 1 ? '1 row is dead and blocks its lane' : `${dead} rows are dead and block their lanes`;
  const remedy = 'retry, mark as done, replace or cancel; list them with: fulfilment-sync outbox list --status dead';
  return [
    {
      ...createProblem('outbox_dead', 'bad', { client }, text, remedy),
      page: `/outbox?status=dead&client=${encodeURIComponent(client)}`,
    },
  ];
}

function findUndecidedRowProblems({ client, toDecide }: OutboxStatus): Problem[] {
  if (toDecide === 0) return [];
  const text =
    toDecide === 1
      ? '1 row is stuck: it is unknown whether the service carried it out'
      : `${toDecide} rows are stuck: it is unknown whether the service carried them out`;
  const remedy =
    'check at the service, then mark as done or retry; list them with: fulfilment-sync outbox list --status unknown';
  return [
    {
      ...createProblem('outbox_undecided', 'bad', { client }, text, remedy),
      page: `/outbox?status=unknown&client=${encodeURIComponent(client)}`,
    },
  ];
}
