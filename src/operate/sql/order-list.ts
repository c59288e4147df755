import { type Kysely, sql } from 'kysely';
import type { DB } from '../../db/generated/tables.ts';

/** What lists of orders show. */
export const orderLists = ['newest', 'late', 'trouble', 'back order'] as const;

/** Newest orders that are searched for a list, of all its clients together. */
export const maxSearchedOrders = 2_000;

/** Minimum number of orders of each client that are looked at, before those of all are cut. */
const minSearchedOfClient = 20;

/** An order in a list. */
export interface ListedOrder {
  readonly client: string;
  readonly number: string;
  readonly orderedOn: string | null;
  readonly state: string;
  readonly problem: string | null;
  readonly ordered: number;
  readonly shipped: number;
  readonly toCome: number;
}

/** Which orders are listed. */
interface OrderFilter {
  readonly list: (typeof orderLists)[number];
  /** Null for all clients. */
  readonly client: string | null;
}

/** The part of a list that a page shows. */
interface ListPart {
  /** Number of orders before it. */
  readonly skip: number;
  readonly limit: number;
}

const isOpen = sql`v.state not in ('unlisted', 'cancelled', 'nothing_to_ship', 'shipped')`;
/** A back order and a time that is not reached are no trouble: nobody has to do anything. */
const isTrouble = sql`v.problem_code in ('warehouse_error', 'parcel_exception', 'row_dead',
  'row_unknown', 'check_address', 'no_lines', 'over_shipped')`;

const conditions = {
  newest: sql`true`,
  late: sql`${isOpen}
    and coalesce(sync.real_day(n.ordered_on), n.first_seen_at::date) <= current_date - 2`,
  trouble: isTrouble,
  'back order': sql`v.problem_code = 'back_order'`,
} satisfies Record<OrderFilter['list'], unknown>;

/**
 * SQL: a CTE `newest` with the newest `maxSearchedOrders` orders of all clients together, and of
 * each client its share.
 * @param client the only client; null for all
 */
export const newestOrders = (client: string | null) => sql`
  chosen as materialized (
    select c.client
    from sync.clients c
    where c.client = coalesce(${client}::text, c.client)
  ), newest as materialized (
    select o.client, o.id, o.ordered_on, o.first_seen_at
    from chosen c
    cross join lateral (
      select o.client, o.id, o.ordered_on, o.first_seen_at
      from fulfilment.orders o
      where o.client = c.client and o.ordered_on is not null
      order by o.ordered_on desc
      limit (select greatest(${minSearchedOfClient}, ${maxSearchedOrders} / count(*)) from chosen)
    ) o
    order by o.ordered_on desc, o.client
    limit ${maxSearchedOrders}
  )`;

/**
 * Lists orders at the service, those that were ordered last first. Searches `newestOrders`.
 */
export async function listOrders(
  db: Kysely<DB>,
  { list, client }: OrderFilter,
  { skip, limit }: ListPart,
): Promise<ListedOrder[]> {
  const { rows } = await sql<ListedOrder>`
    with ${newestOrders(client)}
    select v.client, v.external_order_number as number, v.ordered_on as "orderedOn", v.state,
      v.problem, v.ordered, v.shipped, v.to_come as "toCome"
    from newest n
    cross join lateral (
      select * from fulfilment.order_overview v where v.client = n.client and v.order_id = n.id
    ) v
    where v.external_order_number is not null and ${conditions[list]}
    order by n.ordered_on desc, n.id desc
    limit ${limit} offset ${skip}`.execute(db);

  return rows;
}
