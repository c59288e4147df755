import { type RawBuilder, sql, type Transaction } from 'kysely';
import type { Schedule } from '../../../config/schedules.ts';
import type { Failure } from '../../core/errors.ts';
import type { DB } from '../../db/generated/tables.ts';
import { type EndFacts, isEventful, type Totals } from '../decide-end.ts';
import type { Trigger } from '../decide-start.ts';
import type { Lease } from './leases.ts';

/** A pass of a stream by date, with a separate cursor. */
export type DatePass = 'placed' | 'processed' | 'completed';

/**
 * A walk with a separate cursor: a pass of a stream (docs/architecture.md lists them), or one part
 * of a first load that is read in parts, with its days: `placed 2026-01-01 2026-02-01`.
 */
export type CursorPass = 'new' | DatePass | `${DatePass} ${string}`;

/**
 * The meaning of `page[cursor]`, as observed at this service (docs/interface.md, 2.6 Not shown).
 */
export type CursorMeaning = 'unknown' | 'id' | 'offset' | 'opaque';

/** The stored place of one walk over a list. */
export interface Cursor {
  /** Query of the last page that held rows. */
  readonly query: string | null;
  readonly meaning: CursorMeaning;
  readonly lastId: number | null;
  /** Largest date seen in the walk that is under way, YYYY-MM-DD. */
  readonly largestSeen: string | null;
  /** Largest date seen in a completed walk, YYYY-MM-DD. */
  readonly watermark: string | null;
  readonly completed: boolean;
  /** True if the cursor last moved more than a day ago. */
  readonly stale: boolean;
}

/** What was stored of a stream when a poll of it began. */
export interface StoredStream {
  /** Start of the last complete poll, by the service's clock; null before the first. */
  readonly completeAt: Date | null;
  /**
   * Number of resources that a poll usually reads; null until a poll after the first one has read
   * some.
   */
  readonly usualFetched: number | null;
  /** The stored cursors. A pass that never ran has none. */
  readonly cursors: ReadonlyMap<CursorPass, Cursor>;
  /** True if a resource waits to be reread, or is in quarantine. */
  readonly hasWaitingReads: boolean;
}

/** A run that is under way. The ledger identifies it by the key of its lease. */
export interface Run {
  readonly lease: Lease;
  readonly worker: string;
  readonly trigger: Trigger;
  readonly schedule: Schedule | undefined;
  readonly startedAt: Date;
  /** Returns the time of due times: the database's clock, counted on since the start. */
  readonly now: () => Date;
  /** What was stored of its job when it began, and the version of that row. */
  readonly job: StoredJob;
  /** True if its client or its job was held when the run began, and it asks the service. */
  readonly wasHeld: boolean;
  /** Number of due times that were missed before this run began. */
  readonly missed: number;
  /** What was stored of its stream when it began; null if its job polls none. */
  readonly stored: StoredStream | null;
  /**
   * Takes a number for a reading that begins now, if one is left that was drawn just before: it
   * saves a statement. A reading may look older than it is, never newer.
   */
  readonly takeReadNo: () => number | null;
}

/** A row of sync.jobs. Its version changes whenever the row is written. */
export interface StoredJob extends EndFacts {
  readonly version: string;
}

/** Jobs other than polls that read streams. */
export const rescanJobs = ['reconcile', 'backfill', 'refetch', 'replay'];

/** SQL: true if another reader of a stream than this job holds a lease. */
export const otherReadersExist = (
  client: RawBuilder<unknown>,
  job: string,
  stream: string | RawBuilder<unknown>,
) => sql<boolean>`exists (
  select from sync.leases l
  left join sync.jobs j on j.client = l.client and j.job = l.name
  where l.client = ${client} and l.expires_at is not null and l.name <> ${job}
    and (j.stream = ${stream} or l.name = any(${rescanJobs}::text[])))`;

/** SQL: true if a resource of a stream waits to be read, or is in quarantine. */
export const waitingReadsExist = (
  client: RawBuilder<unknown>,
  stream: string | RawBuilder<unknown>,
) => sql<boolean>`(
  -- The order makes Postgres use the key: it could read what waits of all clients.
  (select w.id from sync.waiting_reads w
    where w.client = ${client} and w.resource = ${stream}
    order by w.id limit 1) is not null
  or exists (select from sync.quarantine q where q.client = ${client} and q.stream = ${stream}))`;

/**
 * Writes the ledger row of a run under way, if the run has done something. Call it in the
 * transaction of a page.
 */
export async function recordProgress(
  { trx, run }: { readonly trx: Transaction<DB>; readonly run: Run },
  totals: Totals,
): Promise<void> {
  if (!isEventful(totals)) return;
  await toLedgerRow(run, totals, 'running').execute(trx);
}

/**
 * Returns the statement that writes the row of a run in the ledger, or replaces what it says.
 * @param from SQL: a list of one row, or of none if nothing is to be written
 */
export function toLedgerRow(
  { lease, trigger, worker, startedAt }: Run,
  totals: Totals,
  status: 'running' | 'done' | 'failed' | 'stopped',
  { failure = null, from = sql`(select) as one` }: LedgerOptions = {},
): RawBuilder<unknown> {
  const { client, name: job, key } = lease;
  const run = { client, job, lease_key: key, trigger, worker, started_at: startedAt };
  const changing = {
    ...totals,
    ...{ status, finished_at: status === 'running' ? null : sql`now()` },
    ...{ error_code: failure?.code ?? null, http_status: failure?.httpStatus ?? null },
    ...{ operation: failure?.operation ?? null, error: failure?.words ?? null },
  };
  const row = { ...run, ...changing };

  const replaced = Object.keys(changing).map(
    (column) => sql`${sql.ref(column)} = excluded.${sql.ref(column)}`,
  );

  return sql`
    insert into sync.runs (${sql.join(Object.keys(row).map((column) => sql.ref(column)))})
    select ${sql.join(Object.values(row))}
    from ${from}
    on conflict (client, job, lease_key) do update
    set ${sql.join(replaced)}`;
}

interface LedgerOptions {
  /** How the run failed; null if it did not. */
  readonly failure?: Failure | null;
  readonly from?: RawBuilder<unknown>;
}
