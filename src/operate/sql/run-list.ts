import { type Kysely, sql } from 'kysely';
import type { DB } from '../../db/generated/tables.ts';

/** A run as stored in sync.runs. */
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

/** A filter of runs. A member that is not set does not restrict. */
export interface RunFilter {
  readonly client?: string;
  readonly job?: string;
  readonly status?: string;
  /** Only runs with a lower number. */
  readonly before?: number;
}

/** Statuses of runs that ended without being done. A separate index covers them. */
const uncommonStatuses = new Set(['failed', 'abandoned', 'stopped']);

const uncommonOnly = sql`and r.status in ('failed', 'abandoned', 'stopped')`;

const columns = sql`
    r.id, r.client, r.job, r.trigger, r.status, r.worker, r.started_at as "startedAt",
    r.finished_at as "finishedAt", r.pages, r.fetched, r.created, r.updated, r.removed,
    r.quarantined, r.error, r.warnings`;

/**
 * Lists the runs that match the filter, newest first. With a client or a job, the query uses the
 * index of each (client, job): a job with few runs among many others then costs no more than a
 * frequent one.
 */
export async function listRuns(
  db: Kysely<DB>,
  filter: RunFilter,
  limit: number,
): Promise<ListedRun[]> {
  const { client = null, job = null, status = null, before = null } = filter;
  const isUncommon = status !== null && uncommonStatuses.has(status);
  const fitsNumberAndStatus = sql`(${before}::bigint is null or r.id < ${before})
      and (${status}::text is null or r.status = ${status})`;

  const allRuns = sql`sync.runs r
    where ${fitsNumberAndStatus}
      and (${client}::text is null or r.client = ${client})
      and (${job}::text is null or r.job = ${job}) ${isUncommon ? uncommonOnly : sql``}`;
  const runsOfJobs = sql`(
      select distinct j.client, j.job
      from sync.jobs j
      where (${client}::text is null or j.client = ${client})
        and (${job}::text is null or j.job = ${job})
    ) k
    cross join lateral (
      select *
      from sync.runs r
      where r.client = k.client and r.job = k.job and ${fitsNumberAndStatus}
      order by r.id desc
      limit ${limit}
    ) r`;
  const isForAllJobs = client === null && job === null;

  const { rows } = await sql<ListedRun>`
    select ${columns}
    from ${isForAllJobs || isUncommon ? allRuns : runsOfJobs}
    order by r.id desc
    limit ${limit}`.execute(db);
  return rows;
}
