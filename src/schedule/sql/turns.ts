/**
 * Turns: what one worker at a time does for all of them, and not again before a given time. A turn
 * is taken before the work begins, so a worker that is lost meanwhile has used it.
 */

import { type Kysely, sql, type Transaction } from 'kysely';
import type { DB } from '../../db/generated/tables.ts';

/** What is done in turns. */
export type TurnName =
  /** The call for the track-trace list of an account. */
  | 'track-trace'
  /** Reading the lists of a client's service, because a code was not found. */
  | 'service-lists'
  /** Looking for problems of a client, or of all. */
  | 'alerts';

/** What a turn is for. Turns of one name and different scopes do not wait for each other. */
export interface TurnKey {
  readonly name: TurnName;
  /** A client key or the fingerprint of an account; empty if there is one for all. */
  readonly scope: string;
  /** Client that takes it; the scope if undefined. */
  readonly client?: string;
}

/** A turn that this process has. Later turns have larger numbers. */
export interface Turn {
  readonly scope: string;
  readonly number: number;
}

/**
 * SQL: the time `ms` milliseconds after another, in whole milliseconds, so that a reader cannot
 * come a fraction too early.
 */
const after = (ms: number, time = sql`sync.clock()`) =>
  sql<Date>`date_trunc('milliseconds', ${time} + make_interval(secs => ${ms / 1_000}))`;

/** Takes a turn, if it is time. Nobody else gets it within `everyMs`. Returns null if it is not. */
export async function takeTurn(
  db: Kysely<DB>,
  { name, scope, client = scope }: TurnKey,
  everyMs: number,
): Promise<Turn | null> {
  const [turn] = await takeTurns(db, { name, scopes: [scope], client }, everyMs);
  return turn ?? null;
}

/** Turns of one name to take. `client`: the scope of each if undefined. */
interface WantedTurns extends Omit<TurnKey, 'scope'> {
  readonly scopes: readonly string[];
}

/**
 * Takes those turns of one name for which it is time. Leaves out those that others just take. A
 * turn that was taken in the future, because the clock has gone back since, counts as taken now.
 */
export async function takeTurns(
  db: Kysely<DB>,
  { name, scopes, client }: WantedTurns,
  everyMs: number,
): Promise<Turn[]> {
  const by = client ?? null;
  const { rows } = await sql<Turn>`
    with free as materialized (
      select t.scope
      from sync.turns t
      where t.name = ${name} and t.scope = any(${scopes}::text[]) and t.next_at <= sync.clock()
      for update skip locked
    ), rewound as (
      update sync.turns t
      set taken_at = sync.clock(), next_at = least(t.next_at, ${after(everyMs)})
      where t.name = ${name} and t.scope = any(${scopes}::text[]) and t.next_at > sync.clock()
        and t.taken_at > sync.clock()
    ), again as (
      update sync.turns t
      set client = coalesce(${by}, t.scope), next_at = ${after(everyMs)}, taken_at = sync.clock(),
        finished_at = null, taken = t.taken + 1,
        spent = t.spent + case when t.finished_at is null then 1 else 0 end
      from free f
      where t.name = ${name} and t.scope = f.scope
      returning t.scope, t.taken
    ), first as (
      insert into sync.turns (name, scope, client, next_at, taken_at)
      select ${name}, w.scope, coalesce(${by}, w.scope), ${after(everyMs)}, sync.clock()
      from unnest(${scopes}::text[]) as w (scope)
      where not exists (select from sync.turns t where t.name = ${name} and t.scope = w.scope)
      order by w.scope
      on conflict do nothing
      returning scope, taken
    )
    select scope, taken as number
    from again
    union all
    select scope, taken
    from first`.execute(db);

  return rows;
}

/**
 * Records that the work of turns is done. Leaves out turns that were taken again meanwhile.
 * @param pauseMs milliseconds until the next turn; null: as it was when the turns were taken
 * @returns the turns that were left, with the time of the next one
 */
export async function finishTurns(
  trx: Kysely<DB>,
  name: TurnName,
  turns: readonly Turn[],
  pauseMs: number | null,
): Promise<{ readonly scope: string; readonly nextAt: Date }[]> {
  const { rows } = await sql<{ scope: string; nextAt: Date }>`
    update sync.turns t
    set finished_at = sync.clock(),
      next_at = ${pauseMs === null ? sql`t.next_at` : after(pauseMs)}
    from unnest(${turns.map(({ scope }) => scope)}::text[],
      ${turns.map(({ number }) => number)}::bigint[]) as d (scope, number)
    where t.name = ${name} and t.scope = d.scope and t.taken = d.number
    returning t.scope, t.next_at as "nextAt"`.execute(trx);
  return rows;
}

/**
 * Records that the work of a turn was done. The caller may have taken no turn. The next turn is
 * `everyMs` after the last one.
 */
export async function recordTurnDone(
  trx: Kysely<DB>,
  { name, scope, client = scope }: TurnKey,
  everyMs: number,
): Promise<void> {
  const now = sql<Date>`sync.clock()`;
  await trx
    .insertInto('sync.turns')
    .values({ name, scope, client, next_at: after(everyMs), taken_at: now, finished_at: now })
    .onConflict((conflict) =>
      conflict.columns(['name', 'scope']).doUpdateSet({
        finished_at: now,
        next_at: after(everyMs, sql`sync.turns.taken_at`),
      }),
    )
    .execute();
}

/** Reads the clock of turns. */
export async function readClock(db: Kysely<DB>): Promise<Date> {
  const { now } = await db
    .selectNoFrom(sql<Date>`sync.clock()`.as('now'))
    .executeTakeFirstOrThrow();
  return now;
}

/**
 * Reads the turns of a name that were ever taken; with a scope, only that one. `finishedAt` is null
 * while the work of a turn is under way, or if its worker was lost.
 */
export async function readTurns(db: Kysely<DB>, name: TurnName, scope: string | null = null) {
  return db
    .selectFrom('sync.turns')
    .select(['name as gate', 'client', 'taken', 'spent'])
    .select(['next_at as nextAt', 'taken_at as takenAt', 'finished_at as finishedAt'])
    .where('name', '=', name)
    .$if(scope !== null, (query) => query.where('scope', '=', scope))
    .orderBy('client')
    .orderBy('scope')
    .execute();
}

/** Puts off all turns of a name: none is taken within `ms`. */
export async function postponeTurns(trx: Kysely<DB>, name: TurnName, ms: number): Promise<void> {
  await trx
    .updateTable('sync.turns')
    .set({ next_at: sql<Date>`greatest(next_at, ${after(ms)})` })
    .where('name', '=', name)
    .execute();
}

/** Copies a turn to another scope. The other one is then not taken sooner. */
export async function copyTurn(
  trx: Transaction<DB>,
  { name, scope }: TurnKey,
  to: string,
): Promise<void> {
  await sql`
    insert into sync.turns as t (name, scope, client, next_at, taken_at, finished_at)
    select name, ${to}, client, next_at, taken_at, finished_at
    from sync.turns
    where name = ${name} and scope = ${scope}
    on conflict (name, scope) do update set next_at = greatest(t.next_at,
      excluded.next_at)`.execute(trx);
}

/** Forgets a turn: the next one may be taken at once. */
export async function deleteTurn(trx: Transaction<DB>, { name, scope }: TurnKey): Promise<void> {
  await trx.deleteFrom('sync.turns').where('name', '=', name).where('scope', '=', scope).execute();
}
