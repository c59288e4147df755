import { type Kysely, sql, type Transaction } from 'kysely';
import { anyClient } from '../connection/any-client.ts';
import type { DB } from '../generated/tables.ts';
import type { CursorMeaning } from '../pull/cursors.ts';

type RescanKind = 'reconcile' | 'backfill';

/** A span of days, both ends exclusive as the service's filters are; null: open. YYYY-MM-DD. */
export interface DayWindow {
  readonly after: string | null;
  readonly before: string | null;
}

export interface RescanRequest {
  readonly client: string;
  readonly stream: string;
  readonly kind: RescanKind;
  /** Inclusive days in the client's zone. */
  readonly from: string | null;
  readonly to: string | null;
  /** Whether workers take it up. */
  readonly background: boolean;
}

/** A rescan and how far it has come. */
export interface Rescan extends RescanRequest {
  readonly id: number;
  readonly startedAt: Date | null;
  readonly windows: readonly DayWindow[] | null;
  /** Drawn before its first request. */
  readonly readNo: number | null;
  readonly step: number;
  readonly query: string | null;
  readonly meaning: CursorMeaning;
  readonly lastId: number | null;
  readonly fullList: boolean;
  readonly pages: number;
  readonly fetched: number;
  readonly expected: number | null;
  readonly missing: number;
  readonly stale: number;
  readonly extra: number;
}

const columns = sql`id, client, stream, kind, from_day as "from", to_day as "to", background, started_at as "startedAt",
  windows, read_no as "readNo", step, query, meaning, last_id as "lastId", full_list as "fullList", pages, fetched, expected, missing, stale, extra`;

/** Opens a rescan, or finds the open one that asks for the same, which then goes on where it stood. */
export async function openRescan(db: Kysely<DB>, request: RescanRequest): Promise<Rescan> {
  // What an old one has walked may have changed since: it begins anew. A background backfill is continued. Rescans of
  // other kinds are left alone: they have another lease, so they may be running.
  await sql`
    with given_up as (
      update sync.rescans set finished_at = now(), outcome = 'failed', error = 'cut short more than a day ago'
      where client = ${anyClient(request.client)} and stream = ${request.stream} and kind = ${request.kind}
        and background = ${request.background} and (kind = 'reconcile' or not background)
        and finished_at is null and started_at < now() - interval '1 day'
      returning id)
    delete from sync.rescan_pages where rescan_id in (select id from given_up)`.execute(db);
  const { rows } = await sql<Rescan>`
    insert into sync.rescans (client, stream, kind, from_day, to_day, background)
    values (${request.client}, ${request.stream}, ${request.kind}, ${request.from}, ${request.to}, ${request.background})
    on conflict (client, stream, kind, background, coalesce(from_day, '-infinity'), coalesce(to_day, 'infinity'))
      where finished_at is null do update set client = excluded.client
    returning ${columns}`.execute(db);
  return rows[0] as Rescan;
}

/** Backfills that workers are to take up, oldest first. */
export async function findBackgroundBackfills(db: Kysely<DB>, client: string): Promise<Rescan[]> {
  const { rows } = await sql<Rescan>`
    select ${columns} from sync.rescans
    where client = ${anyClient(client)} and kind = 'backfill' and background and finished_at is null order by id`.execute(
    db,
  );
  return rows;
}

/** Makes a job due now. */
export async function wakeJob(db: Kysely<DB>, client: string, job: string): Promise<void> {
  await sql`
    insert into sync.jobs (client, job) values (${client}, ${job})
    on conflict (client, job) do update set due_at = now()`.execute(db);
}

/** A reconciliation that walked all of its windows. */
export interface WalkedReconciliation extends Pick<Rescan, 'fetched'> {
  readonly windows: readonly DayWindow[];
  readonly finishedAt: Date;
  /** True if it found more rows missing than it believes. */
  readonly isDoubtful: boolean;
}

/** Returns the last reconciliation that walked all of its windows, whether it succeeded or not; null if there is none. */
export async function findLastWalked(
  db: Kysely<DB>,
  client: string,
  stream: string,
): Promise<WalkedReconciliation | null> {
  const { rows } = await sql<WalkedReconciliation>`
    select windows, fetched, finished_at as "finishedAt", outcome = 'failed' as "isDoubtful" from sync.rescans
    where client = ${anyClient(client)} and stream = ${stream} and kind = 'reconcile' and finished_at is not null
      and step >= jsonb_array_length(windows)
    order by id desc limit 1`.execute(db);
  return rows[0] ?? null;
}

/** Returns when the workers reconciled each stream since the job last succeeded as a whole, by stream. */
export async function findReconciled(db: Kysely<DB>, client: string): Promise<ReadonlyMap<string, Date>> {
  const { rows } = await sql<{ stream: string; at: Date }>`
    select r.stream, max(r.finished_at) as at from sync.rescans r
    join sync.jobs j on j.client = r.client and j.job = 'reconcile'
    where r.client = ${anyClient(client)} and r.kind = 'reconcile' and r.background and r.outcome = 'done'
      and r.finished_at > coalesce(j.last_success_at, '-infinity')
    group by r.stream`.execute(db);
  return new Map(rows.map(({ stream, at }) => [stream, at]));
}

/** What changes on a rescan's row with a page. */
export interface RescanStep extends Pick<Rescan, 'step' | 'query' | 'meaning' | 'lastId' | 'fullList'> {
  readonly pages: number;
  readonly fetched: number;
  readonly missing: number;
  readonly stale: number;
  readonly extra: number;
}

/** Fixes what a rescan walks, at its first start. */
export async function startRescan(
  trx: Transaction<DB>,
  id: number,
  { windows, expected, readNo }: { windows: readonly DayWindow[]; expected: number | null; readNo: number },
): Promise<Rescan> {
  const { rows } = await sql<Rescan>`
    update sync.rescans set started_at = now(), windows = ${JSON.stringify(windows)}::jsonb, expected = ${expected},
      read_no = ${readNo}
    where id = ${id} returning ${columns}`.execute(trx);
  return rows[0] as Rescan;
}

/** Adds what one page brought, in its transaction. `ids`: all resources on it, decodable or not. */
export async function saveRescan(
  trx: Transaction<DB>,
  { id }: Pick<Rescan, 'id'>,
  next: RescanStep,
  ids: readonly number[],
): Promise<Rescan> {
  if (ids.length > 0)
    await sql`insert into sync.rescan_pages (rescan_id, ids) values (${id}, ${ids}::bigint[])`.execute(trx);
  const { rows } = await sql<Rescan>`
    update sync.rescans set step = ${next.step}, query = ${next.query}, meaning = ${next.meaning}, last_id = ${next.lastId},
      full_list = ${next.fullList}, pages = pages + ${next.pages}, fetched = fetched + ${next.fetched},
      missing = missing + ${next.missing}, stale = stale + ${next.stale}, extra = extra + ${next.extra}
    where id = ${id} returning ${columns}`.execute(trx);
  return rows[0] as Rescan;
}

/** Ends a rescan; what it noted of its pages goes with it. */
export async function finishRescan(trx: Transaction<DB>, id: number, error: string | null): Promise<void> {
  await sql`
    update sync.rescans set finished_at = now(), outcome = ${error === null ? 'done' : 'failed'}, error = ${error}
    where id = ${id}`.execute(trx);
  await sql`delete from sync.rescan_pages where rescan_id = ${id}`.execute(trx);
}
