import { type Kysely, sql } from 'kysely';
import { notifyPushers } from '../connection/notify.ts';
import type { Database } from '../connection/pool.ts';
import type { DB } from '../generated/tables.ts';
import { recordAudit } from './audit.ts';

/** A job that an operator has paused. */
export interface Pause {
  /** Null: every client, also those to come. */
  readonly client: string | null;
  readonly job: string;
  readonly since: Date;
  readonly by: string;
}

/** All pauses in force. */
export async function readPauses(db: Kysely<DB>): Promise<Pause[]> {
  return db
    .selectFrom('sync.pauses')
    .select([sql<string | null>`nullif(client, '')`.as('client'), 'job', 'since', 'by'])
    .orderBy(sql`nullif(client, '')`)
    .orderBy('job')
    .execute();
}

/** The command that lifts a pause. */
export const resumeHint = ({ job, client }: Pick<Pause, 'job' | 'client'>) =>
  `fulfilment-sync resume ${job}${client === null ? '' : ` --client ${client}`}`;

/** SQL: since when a job of a client is paused, by itself or with all others; null where it is not. */
export const pausedSince = (client: unknown, job: unknown) => sql`(
  select min(p.since) from sync.pauses p where p.client in ('', ${client}) and p.job = ${job})`;

/**
 * Keeps a job from being started; what is under way is finished.
 * @returns false where it was paused already
 */
export async function pauseJob(db: Database, job: string, client: string | null, by: string): Promise<boolean> {
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
 * Lets a job be started again: once, however often it was due meanwhile. Without a client also those that are paused by
 * themselves.
 * @returns how many pauses were lifted
 */
export async function resumeJob(db: Database, job: string, client: string | null, by: string): Promise<number> {
  return db.transaction().execute(async (trx) => {
    const lifted = await trx
      .deleteFrom('sync.pauses')
      .where('job', '=', job)
      .$if(client !== null, (query) => query.where('client', '=', client))
      .returning('job')
      .execute();
    if (lifted.length > 0) await recordAudit(trx, { by, action: 'resumed', client, detail: job });
    // Workers that wait for something to push look again.
    if (lifted.length > 0) await notifyPushers(trx);
    return lifted.length;
  });
}
