import { type RawBuilder, sql } from 'kysely';
import { LeaseLostError } from '../../core/errors.ts';
import type { DB } from '../../db/generated/tables.ts';
import type { Database } from '../../db/pool.ts';
import { repeatAfterConflict } from '../../db/transaction.ts';
import {
  type CompletedPoll,
  decideEnd,
  type EndDecision,
  type RunEnd,
  type Totals,
} from '../decide-end.ts';
import type { Lease } from './leases.ts';
import { otherReadersExist, type Run, type StoredJob, toLedgerRow } from './ledger.ts';

/** The share of one poll in the moving average of fetched resources. */
const averageShare = 0.1;

/** SQL: what the end of a run has to know of the row `j` of sync.jobs. */
export const endFacts = sql`
  j.xmin::text as version, case when isfinite(j.next_at) then j.next_at end as "nextAt",
  j.consecutive_failures as failures, j.last_change_at as "lastChangeAt",
  j.last_push_at as "lastPushAt"`;

/**
 * Ends a run, whatever its end: ledger, state of the job, freshness of the stream and lease in one
 * statement.
 * @throws LeaseLostError if the run no longer holds its lease
 */
export async function endRun(db: Database, run: Run, totals: Totals, end: RunEnd): Promise<void> {
  const { client, name: job } = run.lease;
  const key = { client, job, trigger: run.trigger, schedule: run.schedule };
  // Others may write the row of the job while the run is under way, to make it due. Then the end is
  // decided again, with what they wrote.
  for (let facts: EndingJob | null = { ...run.job, now: run.now() }; facts !== null; ) {
    const decision = decideEnd(key, { totals, end }, facts, facts.now);
    const write = toEndStatement(run, { totals, end }, decision, facts.version);
    const { rows } = await repeatAfterConflict(() => write.execute(db));
    if (rows[0]?.ended === true) return;
    facts = await readEndFacts(db, run.lease);
  }
  throw new LeaseLostError(client, job);
}

/** What is stored of a job, and the time of the database's clock at which it was read. */
interface EndingJob extends StoredJob {
  readonly now: Date;
}

/** Reads what the end of a run has to know; null if the run no longer holds its lease. */
async function readEndFacts(db: Database, { client, name, key }: Lease): Promise<EndingJob | null> {
  // The run's own count of the time may lag behind a request that was made just before.
  const { rows } = await sql<EndingJob>`
    select ${endFacts}, sync.clock() as now
    from sync.leases l
    join sync.jobs j on j.client = l.client and j.job = l.name
    where l.client = ${client} and l.name = ${name} and l.key = ${key}
      and l.expires_at is not null`.execute(db);
  return rows[0] ?? null;
}

/**
 * Returns the statement that ends a run. It changes nothing if the run no longer holds its lease,
 * or if the row of its job has another version.
 */
function toEndStatement(
  run: Run,
  { totals, end }: { readonly totals: Totals; readonly end: RunEnd },
  decision: EndDecision,
  version: string,
) {
  const { client, name: job, key } = run.lease;
  const failure = end.status === 'failed' ? end.failure : null;
  const from = sql`locked`;
  const parts = [
    sql`released as (
      update sync.leases l
      set holder = null, expires_at = null
      from locked
      where l.client = locked.client and l.name = locked.job)`,
    sql`state as (
      update sync.jobs j
      set ${toAssignments(toJobChanges(run, totals, end, decision))}
      from locked
      where j.client = locked.client and j.job = locked.job)`,
    deleteConfirmations(client, job),
    ...(end.status === 'skipped' || !decision.isEventful
      ? []
      : [sql`entered as (${toLedgerRow(run, totals, end.status, { failure, from })})`]),
    ...(end.status === 'done' && end.poll != null
      ? notePoll(client, end.poll, totals.fetched)
      : []),
  ];

  return sql<{ readonly ended: boolean }>`
    with locked as materialized (
      select l.client, l.name as job
      from sync.leases l
      join sync.jobs j on j.client = l.client and j.job = l.name
      where l.client = ${client} and l.name = ${job} and l.key = ${key}
        and l.expires_at is not null and j.xmin = ${version}::xid
      for update of l, j
    ), ${sql.join(parts)}
    select count(*) > 0 as ended
    from locked`;
}

type JobColumn = keyof DB['sync.jobs'];
type JobChanges = Partial<Record<JobColumn, unknown>>;

const toAssignments = (changes: JobChanges) =>
  sql.join(Object.entries(changes).map(([column, value]) => sql`${sql.ref(column)} = ${value}`));

/** Returns what the end of a run changes in the row of its job. */
function toJobChanges(
  run: Run,
  totals: Totals,
  end: RunEnd,
  { nextAt, changed, isEventful }: EndDecision,
): JobChanges {
  const now = sql`now()`;
  const due = nextAt === undefined ? {} : { next_at: nextAt ?? 'infinity' };
  if (end.status === 'skipped')
    return { ...due, skips: sql`j.skips + 1`, last_skip_at: now, last_skip_reason: end.reason };

  const isDone = end.status === 'done';
  const failure = end.status === 'failed' ? end.failure : null;
  return {
    ...due,
    ...{ last_finished_at: now, last_outcome: end.status, warnings: totals.warnings },
    ...{ last_fetched: totals.fetched, last_changed: changed },
    ...{ last_error: failure?.words ?? null, last_code: failure?.code ?? null },
    ...{ last_http_status: failure?.httpStatus ?? null },
    ...{ last_operation: failure?.operation ?? null },
    ...(changed > 0 ? { last_change_at: now } : {}),
    ...(isEventful ? {} : { uneventful_runs: sql`j.uneventful_runs + 1` }),
    ...(isDone ? { last_success_at: now, consecutive_failures: 0, failing_since: null } : {}),
    failed_alone: isDone ? false : sql`j.failed_alone`,
    ...(end.status === 'failed' ? toFailureChanges(run) : {}),
  };
}

const toFailureChanges = ({ lease: { client, name } }: Run): JobChanges => ({
  consecutive_failures: sql`j.consecutive_failures + 1`,
  failing_since: sql`coalesce(j.failing_since, now())`,
  failed_alone: sql`j.failed_alone or exists (
    select from sync.jobs o
    where o.client = ${client} and o.job <> ${name} and o.stream is not null
      and o.last_success_at > j.failing_since)`,
});

/**
 * Returns the parts of the statement that record how complete a stream is, and the gap in it.
 * Neither the first load counts for the usual number, as it reads everything, nor an empty poll:
 * the warning about empty polls would end by itself.
 */
function notePoll(client: string, poll: CompletedPoll, fetched: number): RawBuilder<unknown>[] {
  const { stream, beganAt, newestSource, gap } = poll;
  const usual =
    fetched === 0
      ? sql`f.usual_fetched`
      : sql`coalesce(f.usual_fetched * ${1 - averageShare}::float8
          + ${fetched * averageShare}::float8, ${fetched}::float8)`;
  const freshness = sql`fresh as (
    insert into sync.freshness as f (client, stream, complete_at, newest_source_at)
    select ${client}, ${stream}, ${beganAt}, ${newestSource}
    from locked
    on conflict (client, stream) do update
    -- A time ahead of the database's clock stays only if the service still tells such a time.
    set complete_at = greatest(least(f.complete_at, now()), excluded.complete_at),
      newest_source_at = greatest(f.newest_source_at, excluded.newest_source_at),
      usual_fetched = ${usual})`;
  if (gap === null) return [freshness];

  return [
    freshness,
    sql`gap as (
      insert into sync.gaps as g (client, stream, from_at, to_at)
      select ${client}, ${stream}, ${gap.from}, ${gap.to}
      from locked
      on conflict (client, stream, from_at) do update
      set to_at = greatest(g.to_at, excluded.to_at))`,
  ];
}

/** Returns the part of the statement that deletes confirmations that no reader needs any more. */
const deleteConfirmations = (client: string, job: string) => sql`unneeded as (
  delete from sync.confirmations c
  using locked
  where c.client = ${client}
    and not ${otherReadersExist(sql`c.client`, job, sql`c.stream`)})`;
