import { type Kysely, sql } from 'kysely';
import type { DB } from '../generated/tables.ts';

/** A gate: a call that may be made only once in a given time. */
export interface Gate {
  readonly name: string;
  /** Fingerprint of the account that the gate belongs to. */
  readonly identity: string;
  readonly client: string;
}

/**
 * SQL: the time `ms` milliseconds from now, in whole milliseconds, so that a reader cannot come a fraction too early.
 */
const clockAfter = (ms: number) =>
  sql<Date>`date_trunc('milliseconds', sync.clock() + make_interval(secs => ${ms / 1_000}))`;

/** The result of an attempt to pass a gate. `number` identifies this passage; later passages have larger numbers. */
export type Passage =
  | { readonly passed: true; readonly number: number }
  | { readonly passed: false; readonly opensAt: Date };

/**
 * Passes a gate if it is open, and closes it at once for the longest time that the call can need. A process that is
 * lost during the call has used its passage.
 */
export async function passGate(db: Kysely<DB>, { name, identity, client }: Gate, closedMs: number): Promise<Passage> {
  const now = sql<Date>`sync.clock()`;
  const passage = { client, next_at: clockAfter(closedMs), taken_at: now };
  const counted = {
    taken: sql<number>`sync.gates.taken + 1`,
    spent: sql<number>`sync.gates.spent + case when sync.gates.finished_at is null then 1 else 0 end`,
  };
  const passed = await db
    .insertInto('sync.gates')
    .values({ gate: name, identity, ...passage })
    .onConflict((conflict) =>
      conflict
        .columns(['gate', 'identity'])
        .doUpdateSet({ ...passage, ...counted, finished_at: null })
        .where('sync.gates.next_at', '<=', now),
    )
    .returning('sync.gates.taken')
    .executeTakeFirst();
  if (passed !== undefined) return { passed: true, number: passed.taken };
  const { next_at: opensAt } = await db
    .selectFrom('sync.gates')
    .select('next_at')
    .where('gate', '=', name)
    .where('identity', '=', identity)
    .executeTakeFirstOrThrow();
  return { passed: false, opensAt };
}

/**
 * Records that the call is over: the gate opens `closedMs` milliseconds from now. Does nothing if the gate was passed
 * again meanwhile.
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
    .select([
      'gate',
      'client',
      'next_at as nextAt',
      'taken_at as takenAt',
      'finished_at as finishedAt',
      'taken',
      'spent',
    ])
    .orderBy('client')
    .orderBy('gate')
    .execute();
}
