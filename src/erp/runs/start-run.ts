import { type Kysely, sql } from 'kysely';
import { createLock } from '../connection/locks.ts';
import type { Database } from '../connection/pool.ts';
import { repeatAfterConflict } from '../connection/transaction.ts';
import type { DB } from '../generated/tables.ts';
import { readKnownMigrations } from '../schema/migration-files.ts';
import { assertSchemaFits } from '../schema/schema-fit.ts';
import { type ClientAccount, identityLock, type OfferedAccount, registerClients } from './clients.ts';
import { leaseSpan } from './leases.ts';
import type { Run, Trigger } from './ledger.ts';
import { resumeHint } from './pauses.ts';
import type { Cursor, CursorPass, StoredStream } from './stored-stream.ts';

/** How a run that starts moves the due time of its job. */
export type NextDue =
  /** Not at all: another process may have a schedule for the job. */
  | { readonly kind: 'stays' }
  /** The job runs only if somebody asks for it. */
  | { readonly kind: 'never' }
  /**
   * To the next of the times that lie every `everyMs` milliseconds since 1970, plus `phaseMs`, but at least `gapMs` from
   * now. With `slowMs`, the end of the run moves it further if nothing has moved for long.
   */
  | {
      readonly kind: 'interval';
      readonly everyMs: number;
      readonly slowMs: number | null;
      readonly phaseMs: number;
      readonly gapMs: number;
    }
  /** To a time that is computed here. `countMissed` counts the due times after `due` until now. */
  | {
      readonly kind: 'computed';
      readonly findNext: (now: Date) => Date | null;
      readonly countMissed: (due: Date, now: Date) => number;
    };

export interface RunRequest extends OfferedAccount {
  readonly job: string;
  /** The stream that the job polls; null if it polls none. */
  readonly stream: string | null;
  readonly worker: string;
  readonly trigger: Trigger;
  readonly nextDue: NextDue;
  /** True if a failed run is repeated with growing pauses, before its next due time. */
  readonly retries?: boolean;
  /** True if the job sends nothing to the service: a client hold does not keep it from beginning. */
  readonly isLocal?: boolean;
}

/** Why a run of a job may not begin, in a word. */
type RefusalCode = 'identity' | 'paused';

export interface SkippedStart {
  readonly kind: 'skipped';
  readonly reason: RefusalCode | 'overlap' | 'not_due' | 'held' | 'not_yet';
  /** The reason in words, for operators. */
  readonly because: string;
  readonly dueAt: Date | null;
}

export type StartResult =
  | { readonly kind: 'started'; readonly run: Run; readonly afterAbandoned: boolean; readonly missed: number }
  | SkippedStart;

/**
 * Starts a run: acquires the lease and moves the due time. A scheduled run starts only if it is due, so that a job that
 * the queue delivers twice runs once. If the worker of the last run was lost, the job is due at once.
 * @throws SchemaError if the schema does not fit this program
 */
export async function startRun(db: Database, request: RunRequest): Promise<StartResult> {
  let answer = await callStartRun(db, request);
  if (answer.refusal === 'schema') await assertSchemaFits(db);
  if (answer.refusal === 'unregistered') await register(db, request);
  if (answer.refusal === 'schema' || answer.refusal === 'unregistered') answer = await callStartRun(db, request);
  const { client, job, worker, trigger, retries = false, isLocal = false } = request;
  const { refusal, leaseKey, startedAt, afterAbandoned, missed, wasHeld, isProbe, stored } = answer;
  if (refusal !== null) return skip(db, request, answer, refusal);
  const lease = { client, name: job, key: leaseKey };
  const run = { lease, worker, trigger, startedAt, retries, isLocal, wasHeld, probing: isProbe, stored };
  return { kind: 'started', run, afterAbandoned, missed };
}

/** Inserts the rows without which no run can start. */
async function register(db: Database, request: RunRequest): Promise<void> {
  const { client, job, stream, nextDue } = request;
  await registerClients(db, [request]);
  await createLock(db, identityLock(client));
  // If an operator runs the job before any worker has, its schedule begins a day later, not at once beside the first
  // load.
  const tomorrow = nextDue.kind === 'stays' ? await readTomorrow(db) : null;
  await ensureJobs(db, [{ client, job, stream, due: tomorrow }]);
}

/** Returns why a run did not begin. Counts it, if somebody asked for it or if the run before was still under way. */
async function skip(db: Database, request: RunRequest, answer: StartAnswer, code: string): Promise<SkippedStart> {
  const { client, job, trigger } = request;
  const reason = code as SkippedStart['reason'];
  if (reason === 'identity') await registerClients(db, [request]);
  const because = describeRefusal(request, reason, answer);
  // The sweep does not start refused jobs, and a second delivery of a run that is under way is not counted.
  if (trigger === 'manual' || (reason === 'overlap' && answer.isDue))
    await db
      .updateTable('sync.jobs')
      .set((eb) => ({ skips: eb('skips', '+', 1), last_skip_at: sql<Date>`now()`, last_skip_reason: because }))
      .where('client', '=', client)
      .where('job', '=', job)
      .execute();
  return { kind: 'skipped', reason, because, dueAt: reason === 'held' ? answer.holdUntil : answer.due };
}

/** The facts from which a refusal is put into words. */
interface RefusalFacts {
  readonly baseUrl: string | null;
  readonly pausedSince: Date | null;
  readonly isPausedForAll: boolean | null;
}

function describeRefusal(
  { client, job }: { readonly client: string; readonly job: string },
  reason: SkippedStart['reason'],
  { baseUrl, pausedSince, isPausedForAll, holdReason = null }: RefusalFacts & { readonly holdReason?: string | null },
): string {
  switch (reason) {
    case 'identity':
      return (
        `the client is parked: its rows come from another account, at ${baseUrl}; ` +
        `if the new account is right, accept it: fulfilment-sync client accept-identity ${client}`
      );
    case 'paused': {
      const hint = resumeHint({ job, client: isPausedForAll ? null : client });
      return `paused since ${pausedSince?.toISOString()}; resume with: ${hint}`;
    }
    case 'overlap':
      return 'a run is under way';
    case 'held':
      return holdReason ?? 'the client is on hold';
    default:
      return 'it is not due';
  }
}

/** Why a job of a client may not begin at all. */
export interface Refusal {
  readonly reason: RefusalCode;
  /** The reason in words, with what to do. */
  readonly because: string;
}

/** Returns why a job of a client may not begin; null if it may. */
export async function findRefusal(
  db: Kysely<DB>,
  { client, job, identity }: ClientAccount & { readonly job: string },
): Promise<Refusal | null> {
  const { rows } = await sql<RefusalFacts & { readonly refusal: RefusalCode | null }>`
    select refusal, base_url as "baseUrl", paused_since as "pausedSince", is_paused_for_all as "isPausedForAll"
    from sync.find_refusal(${client}, ${job}, ${identity})`.execute(db);
  const [facts] = rows;
  if (facts?.refusal == null) return null;
  return { reason: facts.refusal, because: describeRefusal({ client, job }, facts.refusal, facts) };
}

/** The row that sync.start_run returns. */
interface StartRow extends RefusalFacts {
  readonly refusal: string | null;
  readonly due: Date | null;
  readonly isDue: boolean;
  readonly holdReason: string | null;
  readonly holdUntil: Date | null;
  readonly leaseKey: number;
  readonly startedAt: Date;
  readonly afterAbandoned: boolean;
  readonly missed: number;
  readonly wasHeld: boolean;
  readonly isProbe: boolean;
  readonly completeAt: Date | null;
  readonly usualFetched: number | null;
  readonly cursors: readonly (Cursor & { readonly pass: CursorPass })[] | null;
  readonly isWaiting: boolean;
}

type StartAnswer = StartRow & { readonly stored: StoredStream | null };

async function callStartRun(db: Database, request: RunRequest): Promise<StartAnswer> {
  const { client, job, stream, identity, worker, trigger, isLocal = false, nextDue } = request;
  const newestMigration = (await readKnownMigrations()).at(-1)?.name ?? '';
  const interval = nextDue.kind === 'interval' ? nextDue : { everyMs: null, slowMs: null, phaseMs: null, gapMs: null };
  const planned = nextDue.kind === 'computed' ? await plan(db, request, nextDue) : { due: null, missed: 0 };
  const { rows } = await repeatAfterConflict(() =>
    sql<StartRow>`
      select refusal, base_url as "baseUrl", paused_since as "pausedSince", is_paused_for_all as "isPausedForAll",
        hold_reason as "holdReason", hold_until as "holdUntil", case when isfinite(due) then due end as due,
        is_due as "isDue", lease_key as "leaseKey", started_at as "startedAt",
        after_abandoned as "afterAbandoned", missed,
        was_held as "wasHeld", is_probe as "isProbe", complete_at as "completeAt", usual_fetched as "usualFetched",
        cursors, is_waiting as "isWaiting"
      from sync.start_run(${client}, ${job}, ${stream}, ${identity}, ${worker}, ${newestMigration},
        ${trigger === 'manual'}, ${isLocal}, ${leaseSpan}, ${nextDue.kind !== 'stays'},
        ${interval.everyMs}, ${interval.slowMs}, ${interval.phaseMs}, ${interval.gapMs},
        ${planned.due}, ${planned.missed})`.execute(db),
  );
  const row = rows[0] as StartRow;
  const { completeAt, usualFetched, cursors, isWaiting } = row;
  if (cursors === null) return { ...row, stored: null };
  const byPass = new Map(cursors.map(({ pass, ...cursor }) => [pass, cursor]));
  return { ...row, stored: { completeAt, usualFetched, cursors: byPass, isWaiting } };
}

/** Computes the next due time of a job whose schedule is not an interval, by the clock of the database. */
async function plan(
  db: Database,
  { client, job }: RunRequest,
  { findNext, countMissed }: Extract<NextDue, { kind: 'computed' }>,
): Promise<{ readonly due: Date | null; readonly missed: number }> {
  const { rows } = await sql<{ now: Date; due: Date | null }>`
    select sync.clock() as now, (
      select j.due_at from sync.jobs j
      where j.client = ${client} and j.job = ${job} and isfinite(j.due_at)) as due`.execute(db);
  const { now, due } = rows[0] as { now: Date; due: Date | null };
  return { due: findNext(now), missed: due === null ? 0 : countMissed(due, now) };
}

/** A job that must have a row in sync.jobs. */
export interface WantedJob {
  readonly client: string;
  readonly job: string;
  /** The stream that the job polls; null if it polls none. */
  readonly stream: string | null;
  /** First due time of a new row. Null: at once. `never`: not by schedule. */
  readonly due: Date | 'never' | null;
}

/** Inserts a row for each job that has none. Existing rows keep their due times. */
export async function ensureJobs(db: Kysely<DB>, wanted: readonly WantedJob[]): Promise<void> {
  const dues = wanted.map(({ due }) => (due === 'never' ? 'infinity' : (due?.toISOString() ?? null)));
  await sql`
    insert into sync.jobs as j (client, job, stream, due_at)
    select w.client, w.job, w.stream, coalesce(w.due, sync.clock())
    from unnest(${wanted.map(({ client }) => client)}::text[], ${wanted.map(({ job }) => job)}::text[],
      ${wanted.map(({ stream }) => stream)}::text[], ${dues}::timestamptz[]) as w (client, job, stream, due)
    where not exists (
      select from sync.jobs k
      where k.client = w.client and k.job = w.job and k.stream is not distinct from w.stream)
    order by w.client, w.job
    on conflict (client, job) do update set stream = excluded.stream
      where j.stream is distinct from excluded.stream`.execute(db);
}

async function readTomorrow(db: Kysely<DB>): Promise<Date> {
  const { at } = await db.selectNoFrom(sql<Date>`sync.clock() + interval '1 day'`.as('at')).executeTakeFirstOrThrow();
  return at;
}
