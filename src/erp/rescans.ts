import { type Kysely, sql, type Transaction } from 'kysely';
import { confirmedSince } from './confirmations.ts';
import type { Change } from './feed.ts';
import type { CursorMeaning } from './progress.ts';
import type { DB } from './rows.ts';

export type RescanKind = 'reconcile' | 'backfill';

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
  // What an old one has walked may have changed since; nothing could be concluded from both halves.
  await sql`
    update sync.rescans set finished_at = now(), outcome = 'failed', error = 'cut short more than a day ago'
    where client = ${request.client} and stream = ${request.stream} and kind = 'reconcile' and finished_at is null
      and started_at < now() - interval '1 day'`.execute(db);
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
    where client = ${client} and kind = 'backfill' and background and finished_at is null order by id`.execute(db);
  return rows;
}

/** Makes a job due now. */
export async function wakeJob(db: Kysely<DB>, client: string, job: string): Promise<void> {
  await sql`
    insert into sync.jobs (client, job) values (${client}, ${job})
    on conflict (client, job) do update set due_at = now()`.execute(db);
}

/** Windows of the last reconciliation that got done; none where there was none. */
export async function findLastWindows(db: Kysely<DB>, client: string, stream: string): Promise<readonly DayWindow[]> {
  const { rows } = await sql<{ windows: DayWindow[] }>`
    select windows from sync.rescans
    where client = ${client} and stream = ${stream} and kind = 'reconcile' and outcome = 'done'
    order by id desc limit 1`.execute(db);
  return rows[0]?.windows ?? [];
}

/** The oldest day stored, of a stream whose list is asked by day. */
export async function findOldestDay(db: Kysely<DB>, client: string, age: AgeColumns): Promise<string | null> {
  if (age.windowColumn === null) return null;
  const { rows } = await sql<{ oldest: string | null }>`
    select min(${sql.ref(`t.${age.windowColumn}`)}::date) as oldest
    from ${sql.table(`fulfilment.${age.table}`)} t where t.client = ${client}`.execute(db);
  return rows[0]?.oldest ?? null;
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
  { windows, expected, readNo }: { windows: readonly DayWindow[]; expected: number; readNo: number },
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

/** Where a row belongs in time, for windows and for how late it was found. */
export interface AgeColumns {
  readonly table: string;
  /** Column that windows are of; null where lists are not asked by day. */
  readonly windowColumn: string | null;
  /** Date columns of the parent; the earliest tells how old a row is at least, the latest when it last moved. */
  readonly dates: readonly string[];
  /** Days that lists reach back; null where they show everything. */
  readonly horizonDays: number | null;
}

const dateList = ({ dates }: AgeColumns) =>
  sql.join(dates.map((column) => sql`${sql.ref(`t.${column}`)}::timestamptz`));

/** SQL: whether lists surely show the row t, were it there: the service tells age by a date that is not stated. */
export function youngEnough(age: AgeColumns, serviceNow: Date) {
  if (age.horizonDays === null) return sql`true`;
  return sql`least(${dateList(age)}, t.first_seen_at) > ${serviceNow}::timestamptz - make_interval(days => ${age.horizonDays - 1})`;
}

/** Rows that a complete walk of these windows must have shown, each shrunk by a day at both ends. */
function insideWindows(age: AgeColumns, windows: readonly DayWindow[], serviceNow: Date) {
  const inAny = windows.map(({ after, before }) => {
    if (age.windowColumn === null) return sql`true`;
    const column = sql`${sql.ref(`t.${age.windowColumn}`)}::date`;
    return sql`(${column} > coalesce(${after}::date + 1, '-infinity') and ${column} < coalesce(${before}::date - 1, 'infinity'))`;
  });
  return sql`(${sql.join(inAny, sql` or `)}) and ${youngEnough(age, serviceNow)}`;
}

/** Rows stored in these windows. */
export async function countInWindows(
  db: Kysely<DB>,
  client: string,
  age: AgeColumns,
  windows: readonly DayWindow[],
  serviceNow: Date,
): Promise<number> {
  const { rows } = await sql<{ count: number }>`
    select count(*) from ${sql.table(`fulfilment.${age.table}`)} t
    where t.client = ${client} and t.unlisted_since is null and ${insideWindows(age, windows, serviceNow)}`.execute(db);
  return rows[0]?.count ?? 0;
}

/** Rows that should have been listed and were not; those that came here after the walk began are not asked for. */
export async function findUnseen(
  db: Kysely<DB>,
  { id, client, startedAt, windows }: Rescan,
  age: AgeColumns,
  serviceNow: Date,
): Promise<number[]> {
  const { rows } = await sql<{ id: number }>`
    with seen as (select distinct unnest(ids) as id from sync.rescan_pages where rescan_id = ${id})
    select t.id from ${sql.table(`fulfilment.${age.table}`)} t
    where t.client = ${client} and t.unlisted_since is null and t.first_seen_at < ${startedAt}
      and ${insideWindows(age, windows ?? [], serviceNow)}
      and not exists (select from seen where seen.id = t.id)
    order by t.id`.execute(db);
  return rows.map((row) => row.id);
}

/** Records what was found, with how far back each row's newest date lay by the service's clock. */
export async function recordFindings(
  trx: Transaction<DB>,
  { client, stream }: Pick<Rescan, 'client' | 'stream'>,
  age: AgeColumns,
  finding: 'missing' | 'stale' | 'extra',
  ids: readonly number[],
  serviceNow: Date,
): Promise<void> {
  if (ids.length === 0) return;
  const late =
    finding === 'extra'
      ? sql`null`
      : sql`greatest(0, extract(epoch from ${serviceNow}::timestamptz - greatest(${dateList(age)})))`;
  await sql`
    insert into sync.findings (client, stream, finding, id, late_seconds)
    select ${client}, ${stream}, ${finding}, t.id, ${late}
    from ${sql.table(`fulfilment.${age.table}`)} t
    where t.client = ${client} and t.id = any(${ids}::bigint[]) order by t.id`.execute(trx);
}

/** Forgets findings that nobody asks after any more. */
export async function forgetFindings(db: Kysely<DB>, client: string, stream: string, days: number): Promise<void> {
  await sql`
    delete from sync.findings
    where client = ${client} and stream = ${stream} and found_at < now() - make_interval(days => ${days})`.execute(db);
}

/** Marks rows that the service does not have, unless a newer reading found them. */
export async function markUnlisted(
  trx: Transaction<DB>,
  client: string,
  { stream, table }: { readonly stream: string; readonly table: string },
  ids: readonly number[],
  readNo: number,
): Promise<Change[]> {
  if (ids.length === 0) return [];
  const { rows } = await sql<{ id: number }>`
    update ${sql.table(`fulfilment.${table}`)} t set unlisted_since = now(), read_no = ${readNo}
    where client = ${client} and id = any(${ids}::bigint[]) and unlisted_since is null and read_no < ${readNo}
      and not ${confirmedSince(client, stream, readNo, sql`t.id`)}
    returning id`.execute(trx);
  return rows.map(({ id }) => ({ entity: table, id, operation: 'unlisted' }));
}
