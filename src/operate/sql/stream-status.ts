import { sql } from 'kysely';
import type { Database } from '../../db/pool.ts';

/**
 * A span that the service no longer lists and that no poll had read. Times are by the service's
 * clock.
 */
interface Gap {
  readonly from: string;
  readonly to: string;
}

/** A rescan that is under way, or that was cut short and can continue. */
interface OpenRescan {
  readonly id: number;
  readonly kind: string;
  readonly background: boolean;
  readonly fetched: number;
  /** First and last day of a backfill; null means no bound. */
  readonly from: string | null;
  readonly to: string | null;
  /** Number of rows that were stored when it began; null before that. */
  readonly expected: number | null;
}

/**
 * The freshness of one stream of one client. Times are by the database's clock, unless stated
 * otherwise.
 */
export interface StreamStatus {
  readonly client: string;
  readonly stream: string;
  /** The job that polls it. */
  readonly job: string;
  readonly lastAttemptAt: Date | null;
  readonly lastSuccessAt: Date | null;
  readonly lastChangeAt: Date | null;
  /** Newest date on any resource that was received, by the service's clock. */
  readonly newestSourceAt: Date | null;
  /**
   * Number of resources that the current run has read; null if no run is under way. It shows the
   * progress of a first load.
   */
  readonly fetchedSoFar: number | null;
  /** True if a list of the stream was never read to its end. */
  readonly firstLoad: boolean;
  /**
   * Rows that polls wrote in the last 24 hours, and per day in the 14 days before (null: there were
   * no runs then).
   */
  readonly changedLastDay: number;
  readonly usualPerDay: number | null;
  readonly reconciledAt: Date | null;
  readonly missing: number | null;
  readonly stale: number | null;
  readonly extra: number | null;
  /**
   * The 99th percentile of the age, in seconds, of changes that reconciliations of the last 30 days
   * healed.
   */
  readonly lateSecondsP99: number | null;
  /** True if polls filter by day, so that LOOKBACK_DAYS applies. */
  readonly readByDay: boolean;
  /** The first gaps, and the number of all. */
  readonly gaps: readonly Gap[];
  readonly gapCount: number;
  readonly openRescans: readonly OpenRescan[];
  readonly quarantined: number;
}

/** Maximum number of gaps, and of rescans, that are read of a stream. */
const maxListed = 20;

/**
 * Reads the freshness of each client's streams. Leaves out streams that are switched off and were
 * never polled.
 */
export async function readStreamStatus(db: Database): Promise<StreamStatus[]> {
  const { rows } = await sql<StreamStatus>`
    with streams as (
      select *
      from sync.jobs j
      -- Leaves out streams that are switched off and were never polled.
      where j.stream is not null and (j.last_started_at is not null or isfinite(j.next_at))
    )
    select s.client, s.stream, s.job, s.last_started_at as "lastAttemptAt",
      s.last_success_at as "lastSuccessAt", s.last_change_at as "lastChangeAt",
      f.newest_source_at as "newestSourceAt",
      (select r.fetched
       from sync.runs r
       where r.client = s.client and r.job = s.job and r.status = 'running'
       order by r.id desc
       limit 1) as "fetchedSoFar",
      s.last_success_at is null or exists (
        select
        from sync.cursors c
        where c.client = s.client and c.stream = s.stream and c.completed_at is null)
        as "firstLoad",
      exists (
        select
        from sync.cursors c
        where c.client = s.client and c.stream = s.stream and c.watermark is not null)
        as "readByDay",
      u.today as "changedLastDay", u.usual as "usualPerDay",
      p.finished_at as "reconciledAt", p.missing, p.stale, p.extra,
      (select percentile_cont(0.99) within group (order by late_seconds)
       from sync.findings d
       where d.client = s.client and d.stream = s.stream
         and d.found_at > now() - interval '30 days') as "lateSecondsP99",
      (select coalesce(json_agg(json_build_object('from', g.from_at, 'to', g.to_at)
        order by g.from_at), '[]')
       from (
         select *
         from sync.gaps g
         where g.client = s.client and g.stream = s.stream
         order by g.from_at
         limit ${maxListed}) g) as gaps,
      (select count(*) from sync.gaps g where g.client = s.client and g.stream = s.stream)
        as "gapCount",
      (select coalesce(json_agg(json_build_object('id', o.id, 'kind', o.kind,
         'background', o.background, 'fetched', o.fetched, 'from', o.from_day, 'to', o.to_day,
         'expected', o.expected) order by o.id), '[]')
       from (
         select *
         from sync.rescans o
         where o.client = s.client and o.stream = s.stream and o.finished_at is null
         order by o.id
         limit ${maxListed}) o) as "openRescans",
      (select count(*) from sync.quarantine q where q.client = s.client and q.stream = s.stream)
        as quarantined
    from streams s
    left join sync.freshness f on f.client = s.client and f.stream = s.stream
    left join lateral (
      select coalesce(sum(changed) filter (where recent), 0)::float8 as today,
        sum(changed) filter (where not recent) / greatest(1,
          least(14, extract(epoch from now() - interval '1 day' - min(started_at)) / 86400))::float8
            as usual
      from (
        select r.started_at, r.created + r.updated + r.removed as changed,
          r.started_at > now() - interval '1 day' as recent
        from sync.runs r
        where r.client = s.client and r.job = s.job
          and r.started_at > now() - interval '15 days') runs
    ) u on true
    left join lateral (
      select r.finished_at, r.missing, r.stale, r.extra
      from sync.rescans r
      where r.client = s.client and r.stream = s.stream and r.kind = 'reconcile'
        and r.outcome = 'done'
      order by r.id desc
      limit 1
    ) p on true
    order by s.client, s.stream`.execute(db);

  return rows;
}
