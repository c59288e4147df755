import { setTimeout as wait } from 'node:timers/promises';
import { type Kysely, type RawBuilder, sql } from 'kysely';
import type { DB } from '../../db/generated/tables.ts';
import { readKnownMigrations } from '../../db/migration-files.ts';
import type { Database } from '../../db/pool.ts';
import { assertSchemaFits } from '../../db/schema-fit.ts';
import { repeatAfterConflict } from '../../db/transaction.ts';
import type { HealthCode } from '../../service/health/judge-health.ts';
import {
  type ClientAccount,
  type OfferedAccount,
  registerClients,
} from '../../service/sql/clients.ts';
import { selectRunHold } from '../../service/sql/service-health.ts';
import {
  decideStart,
  judgeRefusal,
  type Refusal,
  type RefusalFacts,
  type StartDecision,
  type StartFacts,
  type StartRequest,
} from '../decide-start.ts';
import { type DueRun, turnMs } from '../places.ts';
import type { JobKey } from '../plan-next.ts';
import { ensureJobs, reviveAbandoned } from './due-jobs.ts';
import { endFacts } from './end-run.ts';
import { leaseSpan } from './leases.ts';
import {
  type Cursor,
  type CursorPass,
  type Run,
  type StoredJob,
  type StoredStream,
  waitingReadsExist,
} from './ledger.ts';

/** What a run is started for. */
export interface RunRequest extends OfferedAccount, StartRequest {
  /** The stream that the job polls; null if it polls none. */
  readonly stream: string | null;
  readonly worker: string;
}

/** Why a run did not begin. */
export interface SkippedStart {
  readonly kind: 'skipped';
  readonly reason: Extract<StartDecision, { kind: 'skipped' }>['reason'] | 'not_yet';
  /** The reason in words, for operators. */
  readonly because: string;
  readonly nextAt: Date | null;
}

export type StartResult = { readonly kind: 'started'; readonly run: Run } | SkippedStart;

/** The facts about a job, as one statement reads them. */
export interface StartRow extends StartFacts, StoredJob, DueRun {
  /** The time of due times. */
  readonly now: Date;
  readonly holdCode: HealthCode | null;
  readonly newestMigration: string;
}

/** A run that a decision lets begin, with the facts that the decision was made from. */
export interface Start extends StartRow {
  readonly request: RunRequest;
  readonly decision: Extract<StartDecision, { kind: 'start' }>;
}

/** Maximum number of attempts to start a run, and the pause between them, in milliseconds. */
const maxAttempts = 100;
const retryMs = 100;

/**
 * Starts a run: acquires the lease and moves the due time. A scheduled run starts only if it is
 * due, so that a job that is started twice runs once. If the worker of the last run was lost, that
 * run is recorded as abandoned. Nothing is locked while the decision is made: the run begins only
 * if what the decision was made from has not changed, else it is decided again.
 * @throws SchemaError if the schema does not fit this program
 */
export async function startRun(db: Database, request: RunRequest): Promise<StartResult> {
  await reviveAbandoned(db, request);
  for (let attempt = 1; ; attempt++) {
    const row = await readRegistered(db, request);
    const decision = decideStart(request, row, row.now);
    if (decision.kind === 'skipped') {
      if (decision.reason === 'identity') await registerClients(db, [request]);
      return decision;
    }

    const [begun] = await beginRuns(db, [{ ...row, request, decision }]);
    if (begun !== undefined) return { kind: 'started', run: begun.run };
    if (attempt === maxAttempts) {
      const because = 'another process starts or ends a run of it';
      return { kind: 'skipped', reason: 'overlap', because, nextAt: row.nextAt };
    }
    await wait(retryMs);
  }
}

/**
 * Reads the facts about one job. Inserts the rows without which no run can start.
 * @throws SchemaError if the schema does not fit this program
 */
async function readRegistered(db: Database, request: RunRequest): Promise<StartRow> {
  const { client, job, stream, schedule, worker } = request;
  const wanted = sql`select ${client}::text as client, ${job}::text as job`;
  const [found] = await readStartFacts(db, selectStartFacts(worker, wanted));
  if (found !== undefined) return found;

  await registerClients(db, [request]);
  // The first worker with a schedule makes the job due.
  const due = schedule?.kind === 'every' || schedule?.kind === 'cron' ? null : 'never';
  await ensureJobs(db, [{ client, job, stream, due }]);
  return readRegistered(db, request);
}

/** Which due runs to read. */
export interface DueFilter {
  readonly jobs: readonly string[];
  readonly clients: readonly ClientAccount[];
  readonly worker: string;
  /** Jobs that a client hold does not keep from beginning. */
  readonly local: readonly string[];
  /** Also reads runs that become due within this time. */
  readonly aheadMs: number;
}

/**
 * Maximum number of due runs of a job that are read at once: more than a worker has places. Long
 * runs, and held ones of which the service is to be asked, are counted apart.
 */
const maxDue = 20;

/** SQL: true if the next run of the job `j` of sync.jobs may take long. */
const isLong = sql<boolean>`(
  j.last_outcome is not distinct from 'stopped' or j.last_success_at is null
  or coalesce(j.last_finished_at - j.last_started_at, '0')
    > make_interval(secs => ${turnMs / 1_000}))`;

/**
 * Reads the facts about due runs. The run that is overdue longest comes first. Leaves out those
 * that would not begin, because they are under way, paused or held, or because their client is
 * parked: there may be many. Of each job the first ones are read: runs that wait for a place hide
 * no run of another job.
 */
export function readDueRuns(
  db: Database,
  { jobs, clients, worker, local, aheadMs }: DueFilter,
): Promise<StartRow[]> {
  const identities = Object.fromEntries(clients.map(({ client, identity }) => [client, identity]));
  const facts = selectStartFacts(
    worker,
    sql`
      select client, job
      from sync.jobs
      where job = any(${jobs}::text[])
        and next_at <= sync.clock() + make_interval(secs => ${aheadMs / 1_000})`,
  );

  return readStartFacts(
    db,
    sql<StartRow>`
      select *
      from (
        select f.*, row_number() over (
          partition by f.job, f."isLong", f."heldUntil" is null
          order by f."nextAt", f.client) as rank
        from (${facts}) f
        where ${JSON.stringify(identities)}::jsonb ->> f.client = f.identity
          and not f."isLeased" and f."pausedSince" is null
          and (f.job = any(${local}::text[]) or coalesce(f."heldUntil" <= f.now, true))
      ) ranked
      where rank <= ${maxDue}
      order by "nextAt", client`,
  );
}

/**
 * Returns SQL: all that decides whether runs begin.
 * @param worker the worker that is to make the runs
 * @param wanted SQL: selects the client and job of each of them
 */
const selectStartFacts = (worker: string, wanted: RawBuilder<unknown>) => sql<StartRow>`
  select j.client, j.job, sync.clock() as now, ${endFacts},
    l.expires_at is not null as "isLeased", ${isLong} as "isLong", ${refusalFacts},
    h.code as "holdCode", h.reason as "holdReason", h.next_at as "heldUntil",
    (select max(m.name) from sync.migrations m) as "newestMigration"
  from (${wanted}) w
  join sync.jobs j on j.client = w.client and j.job = w.job
  join sync.clients c on c.client = j.client
  join sync.leases l on l.client = j.client and l.name = j.job
  cross join lateral (${selectPause(sql`j.job`)}) p
  left join lateral (${selectRunHold(sql`j.client`, sql`j.job`, worker)}) h on true`;

/**
 * Reads the facts about runs, in one statement.
 * @throws SchemaError if the schema does not fit this program
 */
async function readStartFacts(db: Database, facts: RawBuilder<StartRow>): Promise<StartRow[]> {
  const { rows } = await facts.execute(db);

  const newest = (await readKnownMigrations()).at(-1)?.name;
  if (rows[0] !== undefined && rows[0].newestMigration !== newest) await assertSchemaFits(db);
  return rows;
}

/** Why turns were missed, after their number. */
const missedWords = ' missed: a longer run, a pause, a hold, or no worker was there';

/** What the statement that begins runs returns for each of them. */
interface BegunRow extends StoredJob, JobKey {
  readonly key: number;
  readonly startedAt: Date;
  readonly completeAt: Date | null;
  readonly usualFetched: number | null;
  readonly cursors: readonly (Cursor & { readonly pass: CursorPass })[] | null;
  readonly readNos: number[];
  readonly hasWaitingReads: boolean;
}

/** A run that has begun, with the place that it takes. */
interface BegunRun {
  readonly run: Run;
  readonly due: DueRun;
}

/**
 * Begins runs, in one statement. Leaves out those whose facts have changed since they were read, or
 * whose rows are locked.
 */
export async function beginRuns(db: Database, starts: readonly Start[]): Promise<BegunRun[]> {
  if (starts.length === 0) return [];
  const begunAtMs = performance.now();
  const rows = await repeatAfterConflict(() => writeStarts(db, starts));

  return rows.flatMap((row) => {
    const start = starts.find(({ client, job }) => client === row.client && job === row.job);
    return start === undefined ? [] : [{ run: toRun(start, row, begunAtMs), due: start }];
  });
}

async function writeStarts(db: Kysely<DB>, starts: readonly Start[]): Promise<BegunRow[]> {
  const given = starts.map(({ request, version, decision: { nextAt, soonAt, missed } }) => ({
    ...{ client: request.client, job: request.job, stream: request.stream },
    ...{ identity: request.identity, worker: request.worker, version },
    ...{ moves: nextAt !== undefined, next_at: nextAt ?? 'infinity', soon_at: soonAt, missed },
  }));

  const { rows } = await sql<BegunRow>`
    with given as (
      select *
      from json_to_recordset(${JSON.stringify(given)}::json) as g (client text, job text,
        stream text, identity text, version text, worker text, moves boolean, next_at timestamptz,
        soon_at timestamptz, missed integer)
    ), free as materialized (
      select g.*
      from given g
      join sync.clients c on c.client = g.client and c.identity = g.identity
      join sync.leases l on l.client = g.client and l.name = g.job and l.expires_at is null
      join sync.jobs j on j.client = g.client and j.job = g.job and j.xmin = g.version::xid
      -- A change of the account waits for this run, or this run for it.
      for key share of c skip locked
      for update of l, j skip locked
    ), leased as (
      update sync.leases l
      set key = l.key + 1, holder = f.worker,
        expires_at = clock_timestamp() + ${leaseSpan}
      from free f
      where l.client = f.client and l.name = f.job
      returning l.client, l.name as job, l.key
    ), begun as (
      update sync.jobs j
      set last_started_at = now(), skips = j.skips + f.missed,
        last_skip_at = case when f.missed > 0 then now() else j.last_skip_at end,
        last_skip_reason = case when f.missed > 0 then f.missed || ${missedWords}
          else j.last_skip_reason end,
        next_at = case when f.moves then f.next_at else j.next_at end,
        soon_at = case when f.moves then f.soon_at else j.soon_at end
      from free f
      where j.client = f.client and j.job = f.job
      returning j.client, j.job, ${endFacts}
    )
    select b.*, l.key, now() as "startedAt", f.complete_at as "completeAt",
      f.usual_fetched as "usualFetched", ${readCursors(sql`g.client`, sql`g.stream`)} as cursors,
      (select coalesce(json_agg(nextval('sync.read_no')), '[]')
        from generate_series(1, case when g.stream is null then 0 else ${drawnAhead} end)
      ) as "readNos",
      ${hasWaiting(sql`g.client`, sql`g.stream`)} as "hasWaitingReads"
    from begun b
    join leased l on l.client = b.client and l.job = b.job
    join given g on g.client = b.client and g.job = b.job
    left join sync.freshness f on f.client = g.client and f.stream = g.stream`.execute(db);
  return rows;
}

/** Number of readings of a poll whose numbers are drawn when it begins: usually all of them. */
const drawnAhead = 2;
/** Milliseconds after the beginning of a run for which these numbers are used. */
const drawnAheadMs = 1_000;

/** SQL: the cursors of a stream, as JSON; null for a job that polls none. */
const readCursors = (client: RawBuilder<unknown>, stream: RawBuilder<unknown>) => sql`
  case when ${stream} is not null then (
    select coalesce(json_agg(json_build_object('pass', k.pass, 'query', k.query,
      'meaning', k.meaning, 'lastId', k.last_id, 'largestSeen', k.largest_seen,
      'watermark', k.watermark, 'completed', k.completed_at is not null,
      'stale', k.updated_at < now() - interval '1 day')), '[]')
    from sync.cursors k
    where k.client = ${client} and k.stream = ${stream}) end`;

/**
 * SQL: true if a resource of a stream waits to be reread, or is in quarantine. The poll of returns
 * also reads the announcements of returns that have arrived.
 */
const hasWaiting = (client: RawBuilder<unknown>, stream: RawBuilder<unknown>) => sql`(
  ${waitingReadsExist(client, stream)} or ${stream} = 'return-items'
    and ${waitingReadsExist(client, 'return-merchandise-authorizations')})`;

function toRun({ request, decision, now }: Start, begun: BegunRow, sinceMs: number): Run {
  const { client, job, worker, trigger, schedule } = request;
  const { wasHeld, missed } = decision;
  return {
    lease: { client, name: job, key: begun.key },
    ...{ worker, trigger, schedule, wasHeld, missed, startedAt: begun.startedAt },
    now: () => new Date(now.getTime() + performance.now() - sinceMs),
    job: begun,
    stored: toStoredStream(begun),
    takeReadNo: () =>
      performance.now() - sinceMs < drawnAheadMs ? (begun.readNos.shift() ?? null) : null,
  };
}

function toStoredStream({
  cursors,
  completeAt,
  usualFetched,
  hasWaitingReads,
}: BegunRow): StoredStream | null {
  if (cursors === null) return null;
  const byPass = new Map(cursors.map(({ pass, ...cursor }) => [pass, cursor]));
  return { completeAt, usualFetched, cursors: byPass, hasWaitingReads };
}

/** SQL: what decides whether a job of the row `c` of sync.clients may begin, with its pause `p`. */
const refusalFacts = sql`
  c.identity, c.base_url as "baseUrl", p.since as "pausedSince", p.is_for_all as "isPausedForAll"`;

/** SQL: the pause of a job of the row `c` of sync.clients; its members are null without one. */
const selectPause = (job: RawBuilder<unknown>) => sql`
  select min(s.since) as since, bool_or(s.client = '') as is_for_all
  from sync.pauses s
  where s.client in ('', c.client) and s.job = ${job}`;

/** Returns why a job of a client may not begin; null if it may. The job need not be registered. */
export async function readRefusal(
  db: Kysely<DB>,
  key: ClientAccount & JobKey,
): Promise<Refusal | null> {
  const { rows } = await sql<RefusalFacts>`
    select ${refusalFacts}
    from sync.clients c
    cross join lateral (${selectPause(sql`${key.job}`)}) p
    where c.client = ${key.client}`.execute(db);
  return rows[0] === undefined ? null : judgeRefusal(key, rows[0]);
}
