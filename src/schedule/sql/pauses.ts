import { type Kysely, sql } from 'kysely';
import { recordAudit } from '../../db/audit.ts';
import type { DB } from '../../db/generated/tables.ts';
import { notifyPushers } from '../../db/listener.ts';
import type { Database } from '../../db/pool.ts';

/** A job that an operator has paused; for all clients, also later ones, if `client` is null. */
export type Pause = Awaited<ReturnType<typeof readPauses>>[number];

/** Reads all pauses. */
export async function readPauses(db: Kysely<DB>) {
  return db
    .selectFrom('sync.pauses')
    .select([sql<string | null>`nullif(client, '')`.as('client'), 'job', 'since', 'by'])
    .orderBy(sql`nullif(client, '')`)
    .orderBy('job')
    .execute();
}

/**
 * Pauses a job: no run of it begins. A run that is under way ends normally.
 * @param client null pauses the job for all clients
 * @returns false if the job was already paused
 */
export async function pauseJob(
  db: Database,
  job: string,
  client: string | null,
  by: string,
): Promise<boolean> {
  return db.transaction().execute(async (trx) => {
    const paused = await trx
      .insertInto('sync.pauses')
      .values({ client: client ?? '', job, by })
      .onConflict((conflict) => conflict.doNothing())
      .returning('job')
      .execute();
    if (paused.length > 0) await recordAudit(trx, { by, action: 'paused', client, detail: job });
    return paused.length > 0;
  });
}

/**
 * Resumes a job. It runs once, however many due times it missed. Without a client, the pauses of
 * single clients end, too.
 * @returns the number of pauses that ended
 */
export async function resumeJob(
  db: Database,
  job: string,
  client: string | null,
  by: string,
): Promise<number> {
  return db.transaction().execute(async (trx) => {
    const lifted = await trx
      .deleteFrom('sync.pauses')
      .where('job', '=', job)
      .$if(client !== null, (query) => query.where('client', '=', client))
      .returning('job')
      .execute();
    if (lifted.length > 0) await recordAudit(trx, { by, action: 'resumed', client, detail: job });
    // Workers that wait for rows to push check again.
    if (lifted.length > 0) await notifyPushers(trx);
    return lifted.length;
  });
}
