import { type Kysely, sql } from 'kysely';
import type { DB } from '../../db/generated/tables.ts';
import { anyClient } from '../../db/values.ts';
import type { DayWindow } from './rescans.ts';

/**
 * A reconciliation that walked all of its windows. It is doubtful if it found more rows missing
 * than it believes.
 */
export type WalkedReconciliation = NonNullable<Awaited<ReturnType<typeof findLastWalked>>>;

/**
 * Returns the last reconciliation that walked all of its windows, whether it succeeded or not; null
 * if there is none.
 */
export async function findLastWalked(db: Kysely<DB>, client: string, stream: string) {
  const walked = await db
    .selectFrom('sync.rescans')
    .select((eb) => [
      sql<readonly DayWindow[]>`windows`.as('windows'),
      'fetched',
      eb.ref('finished_at').$notNull().as('finishedAt'),
      sql<boolean>`outcome = 'failed'`.as('isDoubtful'),
    ])
    .where('client', '=', anyClient(client))
    .where('stream', '=', stream)
    .where('kind', '=', 'reconcile')
    .where('finished_at', 'is not', null)
    .where('step', '>=', sql<number>`jsonb_array_length(windows)`)
    .orderBy('id', 'desc')
    .limit(1)
    .executeTakeFirst();
  return walked ?? null;
}

/**
 * Returns, by stream, when workers last reconciled it. Counts only times after the whole job last
 * succeeded.
 */
export async function readReconciledTimes(
  db: Kysely<DB>,
  client: string,
): Promise<ReadonlyMap<string, Date>> {
  const reconciled = await db
    .selectFrom('sync.rescans as r')
    .innerJoin('sync.jobs as j', (join) =>
      join.onRef('j.client', '=', 'r.client').on('j.job', '=', 'reconcile'),
    )
    .select((eb) => ['r.stream', eb.fn.max('r.finished_at').$notNull().as('at')])
    .where('r.client', '=', anyClient(client))
    .where('r.kind', '=', 'reconcile')
    .where('r.background', '=', true)
    .where('r.outcome', '=', 'done')
    .where('r.finished_at', '>', sql<Date>`coalesce(j.last_success_at, '-infinity')`)
    .groupBy('r.stream')
    .execute();
  return new Map(reconciled.map(({ stream, at }) => [stream, at]));
}
