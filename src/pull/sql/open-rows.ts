/** Rows that are stored as open, but that the list of open rows lacks. */

import { type Kysely, sql } from 'kysely';
import type { DB } from '../../db/generated/tables.ts';
import { anyClient } from '../../db/values.ts';
import { isYoungEnough, type ListedTable } from './listed-rows.ts';

/**
 * A kind of rows that change until they reach one status. A row with an unknown status, or none, is
 * still open.
 */
export interface OpenKind {
  readonly table: string;
  /** Name of their stream. Their reads wait under it. */
  readonly stream: string;
  /** The documented statuses of rows that still change. */
  readonly statuses: readonly string[];
  /** The documented status of rows that do not. */
  readonly closed: string;
}

/** A row that is open here. */
export interface OpenRow {
  readonly id: number;
  /** Order of a shipment; null for other kinds. */
  readonly orderId: number | null;
  /** True if the row is unlisted. Lists are then not asked for it. */
  readonly gone: boolean;
}

/**
 * Number of days after which polls rarely ask for a row that is unlisted, or whose undocumented
 * status does not change: that status may be a final one. The lists show rows of the last 90 days
 * (docs/interface.md, 5.1 Values).
 */
const rarelyAfterDays = 90;
/**
 * Number of days that such a row waits in addition to its pause of one day: it is asked for once a
 * week.
 */
const extraPauseDays = 6;

const toTableRef = ({ table }: OpenKind) => sql.table(`fulfilment.${table}`);

/**
 * Finds rows that are open here but missing from `listed`, a complete list of the open rows. Either
 * their status has changed, or the lists do not show them. Returns only the rows that are due for a
 * question, the longest waiting first.
 */
export async function findUnlistedOpenRows(
  db: Kysely<DB>,
  client: string,
  kind: OpenKind,
  listed: readonly number[],
): Promise<OpenRow[]> {
  const orderId = kind.table === 'shipments' ? sql.ref('s.order_id') : sql`null::bigint`;

  const { rows } = await sql<OpenRow>`
    select s.id, ${orderId} as "orderId", s.unlisted_since is not null as gone
    from ${toTableRef(kind)} s
    left join sync.waiting_reads w
      on w.client = s.client and w.resource = ${kind.stream} and w.id = s.id
    where s.client = ${anyClient(client)} and s.status is distinct from ${sql.lit(kind.closed)}
      and coalesce(w.next_at <= sync.clock(), true)
      and (coalesce(s.unlisted_since,
        case when not coalesce(s.status = any(${kind.statuses}::text[]), false)
        then s.changed_at end,
          'infinity') > now() - make_interval(days => ${rarelyAfterDays})
        -- A row that was never asked for is asked for once.
        or coalesce(w.next_at, '-infinity')
          <= sync.clock() - make_interval(days => ${extraPauseDays}))
      and not exists (select from unnest(${listed}::bigint[]) as l (id) where l.id = s.id)
    order by w.next_at nulls first, s.id`.execute(db);
  return rows;
}

/** Finds the rows among these ids that are still open here. */
export async function findStillOpen(
  db: Kysely<DB>,
  client: string,
  kind: OpenKind,
  ids: readonly number[],
): Promise<number[]> {
  const { rows } = await sql<{ id: number }>`
    select id
    from ${toTableRef(kind)}
    where client = ${anyClient(client)} and id = any(${ids}::bigint[])
      and status is distinct from ${sql.lit(kind.closed)}`.execute(db);
  return rows.map(({ id }) => id);
}

/**
 * Ids of open rows that a list did not show. `unseen`: the list must have shown them. `gone`: they
 * are unlisted already. `tooOld`: they are too old for the list.
 */
export interface UnlistedOpenRows {
  readonly unseen: readonly number[];
  readonly gone: readonly number[];
  readonly tooOld: readonly number[];
}

/** Sorts the rows that are open here but missing from `listed`, for a kind without a read by id. */
export async function sortUnlistedOpenRows(
  db: Kysely<DB>,
  client: string,
  kind: OpenKind,
  asked: { readonly age: ListedTable; readonly listed: readonly number[]; readonly now: Date },
): Promise<UnlistedOpenRows> {
  const { rows } = await sql<{ id: number; gone: boolean; young: boolean }>`
    select t.id, t.unlisted_since is not null as gone,
      ${isYoungEnough(asked.age, asked.now)} as young
    from ${toTableRef(kind)} t
    where t.client = ${anyClient(client)} and t.status is distinct from ${sql.lit(kind.closed)}
      and not exists (select from unnest(${asked.listed}::bigint[]) as l (id) where l.id = t.id)
      -- Leaves out resources in quarantine: the list shows them, but they could not be decoded.
      and not exists (
        select from sync.quarantine q
        where q.client = t.client and q.stream = ${kind.stream} and q.resource_key = t.id::text)
    order by t.id`.execute(db);
  const ids = (wanted: (row: (typeof rows)[number]) => boolean) =>
    rows.filter(wanted).map(({ id }) => id);
  return {
    gone: ids(({ gone }) => gone),
    unseen: ids(({ gone, young }) => !gone && young),
    tooOld: ids(({ gone, young }) => !gone && !young),
  };
}
