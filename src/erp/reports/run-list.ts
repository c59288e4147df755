import { type Kysely, sql } from 'kysely';
import type { DB } from '../generated/tables.ts';

/** A run of the ledger: one that wrote something, or failed. */
export interface ListedRun {
  readonly id: number;
  readonly client: string;
  readonly job: string;
  readonly trigger: string;
  readonly status: string;
  readonly worker: string;
  readonly startedAt: Date;
  readonly finishedAt: Date | null;
  readonly pages: number;
  readonly fetched: number;
  readonly created: number;
  readonly updated: number;
  readonly removed: number;
  readonly quarantined: number;
  readonly error: string | null;
  readonly warnings: readonly string[];
}

export interface RunFilter {
  readonly client?: string;
  readonly job?: string;
  readonly status?: string;
  /** Only runs with a lower number. */
  readonly before?: number;
}

/** Status of runs that ended otherwise than done: they have an index of their own. */
const uncommon = new Set(['failed', 'abandoned', 'stopped']);

const uncommonOnly = sql`and r.status in ('failed', 'abandoned', 'stopped')`;

const columns = sql`r.id, r.client, r.job, r.trigger, r.status, r.worker, r.started_at as "startedAt",
  r.finished_at as "finishedAt", r.pages, r.fetched, r.created, r.updated, r.removed, r.quarantined, r.error,
    r.warnings`;

/**
 * Runs that fit, newest first. With a client or a job each (client, job) is asked by its index, so that a rare one among
 * many others costs no more than a frequent one.
 */
export async function listRuns(db: Kysely<DB>, filter: RunFilter, limit: number): Promise<ListedRun[]> {
  const { client = null, job = null, status = null, before = null } = filter;
  const fits = sql`(${before}::bigint is null or r.id < ${before})
    and (${status}::text is null or r.status = ${status})`;
  const direct = client === null && job === null;
  const own = sql`(${client}::text is null or r.client = ${client}) and (${job}::text is null or r.job = ${job})`;
  const isUncommon = status !== null && uncommon.has(status);
  const source =
    direct || isUncommon
      ? sql`sync.runs r where ${fits} and ${own} ${isUncommon ? uncommonOnly : sql``}`
      : sql`(select distinct j.client, j.job from sync.jobs j
             where (${client}::text is null or j.client = ${client}) and (${job}::text is null or j.job = ${job})) k
            cross join lateral (
              select * from sync.runs r where r.client = k.client and r.job = k.job and ${fits}
                order by r.id desc limit ${limit}
            ) r`;
  const { rows } = await sql<ListedRun>`select ${columns} from ${source} order by r.id desc limit ${limit}`.execute(db);
  return rows;
}

/** Rows that the latest runs of a stream wrote, oldest first. */
export interface RecentRuns {
  readonly client: string;
  readonly stream: string;
  readonly rows: readonly number[];
}

/** The last runs of each stream that wrote something. */
export async function readRecentRuns(db: Kysely<DB>, limit: number): Promise<RecentRuns[]> {
  const { rows } = await sql<RecentRuns>`
    select j.client, j.stream,
      (select coalesce(json_agg(r.rows order by r.id), '[]') from (
         select r.id, r.created + r.updated + r.removed as rows from sync.runs r
         where r.client = j.client and r.job = j.job and r.created + r.updated + r.removed > 0
         order by r.id desc limit ${limit}) r) as rows
    from sync.jobs j
    where j.stream is not null
    order by j.client, j.job`.execute(db);
  return rows;
}
