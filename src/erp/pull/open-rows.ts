import { type Kysely, sql } from 'kysely';
import { anyClient } from '../connection/any-client.ts';
import type { DB } from '../generated/tables.ts';
import { type AgeColumns, youngEnough } from './age.ts';

/** Rows that move until they reach one status. An unknown status, or none, is still open. */
export interface OpenKind {
  readonly table: string;
  /** Name of their stream, under which reads by id wait their turn. */
  readonly stream: string;
  /** The documented statuses of rows that still move. */
  readonly open: readonly string[];
  readonly closed: string;
}

export interface OpenRow {
  readonly id: number;
  /** Order of a shipment; null for other kinds. */
  readonly orderId: number | null;
  /** Number of consecutive reads after which the row was still open. */
  readonly tries: number;
  /** True if the service said that it does not know the row. Lists are not asked for it. */
  readonly gone: boolean;
}

/**
 * Days after which polls rarely ask for a row that the service does not know, or whose undocumented status (which may be a
 * final one) does not change. The service lists what it reports for 90 days (interface.md, Limits).
 */
const rarelyAfterDays = 90;
/** Such a row waits this many days longer than its pause of one day, so it is asked for once a week. */
const extraPauseDays = 6;

const tableOf = ({ table }: OpenKind) => sql.table(`fulfilment.${table}`);

/**
 * Finds rows that are open here but missing from `listed`, a complete list of the open ones: they have moved on, or lists do
 * not show them. Returns those that are due to be asked for, the longest waiting first.
 */
export async function findUnlistedOpen(
  db: Kysely<DB>,
  client: string,
  kind: OpenKind,
  listed: readonly number[],
): Promise<OpenRow[]> {
  const orderId = kind.table === 'shipments' ? sql.ref('s.order_id') : sql`null::bigint`;
  const { rows } = await sql<OpenRow>`
    select s.id, ${orderId} as "orderId", coalesce(r.tries, 0) as tries, s.unlisted_since is not null as gone
    from ${tableOf(kind)} s
    left join sync.rereads r on r.client = s.client and r.stream = ${kind.stream} and r.id = s.id
    where s.client = ${anyClient(client)} and s.status is distinct from ${sql.lit(kind.closed)}
      and coalesce(r.next_try_at <= now(), true)
      and (coalesce(s.unlisted_since, case when not coalesce(s.status = any(${kind.open}::text[]), false)
        then s.changed_at end,
          'infinity') > now() - make_interval(days => ${rarelyAfterDays})
        -- One that never had a turn is asked for once.
        or coalesce(r.next_try_at, '-infinity') <= now() - make_interval(days => ${extraPauseDays}))
      and not exists (select from unnest(${listed}::bigint[]) as l (id) where l.id = s.id)
    order by r.next_try_at nulls first, s.id`.execute(db);
  return rows;
}

/** Of these ids, those that are still open here. */
export async function stillOpen(
  db: Kysely<DB>,
  client: string,
  kind: OpenKind,
  ids: readonly number[],
): Promise<number[]> {
  const { rows } = await sql<{ id: number }>`
    select id
    from ${tableOf(kind)}
    where client = ${anyClient(client)} and id = any(${ids}::bigint[])
      and status is distinct from ${sql.lit(kind.closed)}`.execute(db);
  return rows.map(({ id }) => id);
}

/** Open rows that lists should show and did not, with those that are known to be gone already, and those too old to be shown. */
export interface UnlistedOpen {
  readonly unseen: readonly number[];
  readonly gone: readonly number[];
  readonly tooOld: readonly number[];
}

/** Sorts the rows that are open here but were not in `listed`, of a kind without a read by id. */
export async function sortUnlistedOpen(
  db: Kysely<DB>,
  client: string,
  kind: OpenKind,
  age: AgeColumns,
  { listed, serviceNow }: { readonly listed: readonly number[]; readonly serviceNow: Date },
): Promise<UnlistedOpen> {
  const { rows } = await sql<{ id: number; gone: boolean; young: boolean }>`
    select t.id, t.unlisted_since is not null as gone, ${youngEnough(age, serviceNow)} as young
    from ${tableOf(kind)} t
    where t.client = ${anyClient(client)} and t.status is distinct from ${sql.lit(kind.closed)}
      and not exists (select from unnest(${listed}::bigint[]) as l (id) where l.id = t.id)
      -- Shown, but not to be decoded: the row here only says less than the service does.
      and not exists (
        select from sync.quarantine q
        where q.client = t.client and q.stream = ${kind.stream} and q.resource_key = t.id::text)
    order by t.id`.execute(db);
  const ids = (wanted: (row: (typeof rows)[number]) => boolean) => rows.filter(wanted).map(({ id }) => id);
  return {
    gone: ids(({ gone }) => gone),
    unseen: ids(({ gone, young }) => !gone && young),
    tooOld: ids(({ gone, young }) => !gone && !young),
  };
}

/** A row, and the number of rows of its client with a smaller id. */
export interface RowPosition {
  readonly id: number;
  readonly position: number;
}

/** Returns the position of each of these rows among the rows of their client. */
export async function readPositions(
  db: Kysely<DB>,
  client: string,
  table: string,
  ids: readonly number[],
): Promise<RowPosition[]> {
  const { rows } = await sql<RowPosition>`
    select id, position
    from (
      select t.id, (row_number() over (order by t.id) - 1)::integer as position
      from ${sql.table(`fulfilment.${table}`)} t
      where t.client = ${client} and t.unlisted_since is null and t.id <= ${Math.max(...ids)}) as positions
    where id = any(${ids}::bigint[])
    order by id`.execute(db);
  return rows;
}
