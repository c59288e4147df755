import { changeInWords } from '../../core/database-mark.ts';
import { formatSpan } from '../../core/time.ts';
import { isHeld, type StoredHealth } from '../../erp/outbox/holds.ts';
import type { PushDatabase } from '../../erp/outbox/push-database.ts';
import type { StoredRate } from '../../erp/outbox/rates.ts';
import type { OutboxStatus } from '../../erp/reports/outbox-status.ts';
import { type Problem, problem } from './problem.ts';
import type { Snapshot } from './snapshot.ts';

/** A client is named when its rows wait and no worker has served it for this long. */
const unservedMs = 120_000;

/** Every reason why rows of the outbox are not sent or not done, each with what still works. */
export function problemsOfOutbox(
  { outbox, holds, rates, clients, database }: Pick<Snapshot, 'outbox' | 'holds' | 'rates' | 'clients' | 'database'>,
  now: Date,
): Problem[] {
  const served = new Map(clients.map(({ client, servedAt }) => [client, servedAt]));
  return [
    ...problemsOfDatabase(database, now),
    ...holds.map((health) => problemOfHealth(health, now)),
    ...rates.map((rate) => problemOfRate(rate, now)),
    ...outbox.flatMap((row) => [
      ...problemOfUnserved(row, served.get(row.client), now),
      ...problemOfDead(row),
      ...problemOfUndecided(row),
    ]),
  ];
}

const since = (at: Date, now: Date) => `for ${formatSpan((now.getTime() - at.getTime()) / 1_000)}`;

function problemsOfDatabase(database: PushDatabase | null, now: Date): Problem[] {
  if (database === null) return [];
  const { change, changedAt, acceptedAs, acceptedAt } = database;
  if (change === 'none') {
    if (acceptedAs !== 'copy') return [];
    const text = `nothing is sent: this database was accepted as a copy at ${acceptedAt.toISOString()}`;
    return [problem('note', 'every client', text, 'pulls go on')];
  }
  const text = `nothing is sent${changedAt === null ? '' : ` ${since(changedAt, now)}`}: the database has changed (database_changed): ${changeInWords[change]}`;
  const remedy =
    'pulls go on; say what it is: fulfilment-sync database accept --as moved, restored or copy (docs/backup.md)';
  return [problem('bad', 'every client', text, remedy)];
}

function problemOfHealth(health: StoredHealth, now: Date): Problem {
  const { client, kind, reason, sendWindow, untilInMs } = health;
  const others = kind === '' ? 'pulls and other clients go on' : 'other kinds go on';
  if (!isHeld(health)) {
    const what = kind === '' ? 'rows are' : `${kind} is`;
    const many = sendWindow === 1 ? 'one row' : `${sendWindow} rows`;
    const text = `${what} sent ${many} at a time, after a hold that began ${agoOf(health, now)}: ${reason}`;
    return problem(
      kind !== '' && sendWindow === 1 ? 'bad' : 'note',
      client,
      text,
      `${others}; more with each row that gets through`,
    );
  }
  const what = kind === '' ? 'nothing is sent' : `no ${kind} is sent`;
  const next = untilInMs > 0 ? `tried again in ${formatSpan(untilInMs / 1_000)}` : 'being tried again';
  return problem('bad', client, `${what} ${since(health.since, now)}: ${reason}`, `${next}; ${others}`);
}

const agoOf = ({ since: at }: StoredHealth, now: Date) => `${formatSpan((now.getTime() - at.getTime()) / 1_000)} ago`;

function problemOfRate({ client, perSecond, since: at, refused }: StoredRate, now: Date): Problem {
  const text = `the service refuses rows that come too fast (429, ${refused} times ${since(at, now)}): ${perSecond.toFixed(1)} a second are sent`;
  return problem('note', client, text, 'it grows by itself; no attempt is burnt');
}

/** `undefined`: a client that nobody knows; its rows are ended by a worker, with that reason. */
function problemOfUnserved(row: OutboxStatus, servedAt: Date | null | undefined, now: Date): Problem[] {
  const waiting = row.pending + row.sending + row.unknown - row.toDecide;
  if (servedAt === undefined || waiting === 0) return [];
  if (servedAt !== null && now.getTime() - servedAt.getTime() < unservedMs) return [];
  const last =
    servedAt === null
      ? 'none ever did'
      : `the last one was there ${formatSpan((now.getTime() - servedAt.getTime()) / 1_000)} ago`;
  const text = `${waiting === 1 ? '1 row waits' : `${waiting} rows wait`}, and no worker pushes for this client: ${last}`;
  return [problem('bad', row.client, text, 'start a worker that is set up with it')];
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
