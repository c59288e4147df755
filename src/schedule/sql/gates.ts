import { type Kysely, sql } from 'kysely';
import type { DB } from '../../db/generated/tables.ts';

/** A gate: a call that may be made only once in a given time. */
export interface Gate {
  readonly name: string;
  /** Fingerprint of the account that the gate belongs to. */
  readonly identity: string;
  readonly client: string;
}

/**
 * SQL: the time `ms` milliseconds from now, in whole milliseconds, so that a reader cannot come a
 * fraction too early.
 */
const clockAfter = (ms: number) =>
  sql<Date>`date_trunc('milliseconds', sync.clock() + make_interval(secs => ${ms / 1_000}))`;

/**
 * The result of an attempt to pass a gate. `number` identifies this passage; later passages have
 * larger numbers.
 */
export type Passage =
  | { readonly passed: true; readonly number: number }
  | { readonly passed: false; readonly opensAt: Date };

/**
 * Passes a gate if it is open, and closes it at once for the longest time that the call can need. A
 * process that is lost during the call has used its passage.
 */
export async function passGate(
  db: Kysely<DB>,
  { name, identity, client }: Gate,
  closedMs: number,
): Promise<Passage> {
  const { rows } = await sql<{ number: number }>`
    insert into sync.gates as g (gate, identity, client, next_at, taken_at)
    values (${name}, ${identity}, ${client}, ${clockAfter(closedMs)}, sync.clock())
    on conflict (gate, identity) do update
    set client = excluded.client, next_at = excluded.next_at, taken_at = excluded.taken_at,
      finished_at = null,
      taken = g.taken + 1, spent = g.spent + case when g.finished_at is null then 1 else 0 end
    where g.next_at <= sync.clock()
    returning taken as number`.execute(db);
  const [passed] = rows;
  if (passed !== undefined) return { passed: true, number: passed.number };
  const { next_at: opensAt } = await db
    .selectFrom('sync.gates')
    .select('next_at')
    .where('gate', '=', name)
    .where('identity', '=', identity)
    .executeTakeFirstOrThrow();
  return { passed: false, opensAt };
}

/**
 * Records that the call is over: the gate opens `closedMs` milliseconds from now. Does nothing if
 * the gate was passed again meanwhile.
 * @returns the time at which the gate opens; null if it was passed again
 */
export async function closeGate(
  trx: Kysely<DB>,
  { name, identity }: Gate,
  number: number,
  closedMs: number,
): Promise<Date | null> {
  const closed = await trx
    .updateTable('sync.gates')
    .set({ next_at: clockAfter(closedMs), finished_at: sql<Date>`sync.clock()` })
    .where('gate', '=', name)
    .where('identity', '=', identity)
    .where('taken', '=', number)
    .returning('next_at')
    .executeTakeFirst();
  return closed?.next_at ?? null;
}

/** A gate as it is stored. */
export interface StoredGate {
  readonly gate: string;
  readonly client: string;
  readonly nextAt: Date;
  readonly takenAt: Date;
  readonly finishedAt: Date | null;
  readonly taken: number;
  readonly spent: number;
}

/** Reads all gates that were ever passed. */
export async function readGates(db: Kysely<DB>): Promise<StoredGate[]> {
  return db
    .selectFrom('sync.gates')
    .select(['gate', 'client', 'taken', 'spent'])
    .select(['next_at as nextAt', 'taken_at as takenAt', 'finished_at as finishedAt'])
    .orderBy('client')
    .orderBy('gate')
    .execute();
}
