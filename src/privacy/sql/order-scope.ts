/**
 * The orders that a number means, and what belongs to them: their numbers, their outbox rows, and
 * the locks of an erasure.
 */

import { type Kysely, sql, type Transaction } from 'kysely';
import type { DB } from '../../db/generated/tables.ts';
import { lockName } from '../../db/transaction.ts';
import { anyClient, anyId, anyText } from '../../db/values.ts';
import { lockStream } from '../../pull/sql/stream-transaction.ts';

/**
 * The streams that hold resources of an order, in the order in which settlements of pushes lock
 * them.
 */
const orderStreams = ['orders', 'return-items', 'return-merchandise-authorizations', 'shipments'];

/** Jobs that write packages. They lock no stream, only their lease. */
const parcelJobs = ['pull-parcels', 'track-trace'];

/** Lets no other erasure, and no job that writes packages, commit until the transaction ends. */
export async function lockParcelWriters(trx: Transaction<DB>, client: string): Promise<void> {
  await lockName(trx, 'erase');
  await sql`
    select from sync.leases l
    where l.client = ${anyClient(client)} and l.name = any(${parcelJobs}::text[])
    order by l.name
    for update`.execute(trx);
}

/** Lets no reading and no settlement write a resource of an order until the transaction ends. */
export async function lockOrderStreams(trx: Transaction<DB>, client: string): Promise<void> {
  for (const stream of orderStreams) await lockStream({ trx, client, stream });
}

/**
 * An order whose personal data is erased. The id is null if the service never had it, as far as is
 * known here.
 */
export interface OrderToErase {
  readonly id: number | null;
  readonly number: string;
}

/** What belongs to some orders of one client. Its outbox rows are locked. */
export interface OrderScope {
  readonly orderIds: readonly number[];
  readonly shipmentIds: readonly number[];
  readonly numbers: readonly OrderNumber[];
  readonly rows: readonly OrderOutboxRow[];
}

/**
 * A number of an order, also a former one, and the outbox rows that mean this order by it although
 * they name no id: those after and before these rows. Other orders may have had the number before,
 * or may have it now.
 */
interface OrderNumber extends OrderToErase {
  /** True if the order has the number now. */
  readonly isPresent: boolean;
  readonly after: number | null;
  readonly before: number | null;
}

/** An outbox row of an order. */
export interface OrderOutboxRow {
  readonly id: number;
  readonly kind: string;
  readonly reference: string;
  readonly status: string;
  /** True if the service may have carried it out. */
  readonly mayBeCarriedOut: boolean;
}

/** Reads what belongs to these orders, and locks their outbox rows until the transaction ends. */
export async function lockOrderScope(
  trx: Transaction<DB>,
  client: string,
  given: readonly OrderToErase[],
): Promise<OrderScope> {
  const orderIds = [...new Set(given.flatMap(({ id }) => id ?? []))];
  const { rows: shipments } = await sql<{ id: number; returns: string[] }>`
    select s.id, array(
      select a.external_reference
      from fulfilment.return_merchandise_authorizations a
      where a.client = ${anyClient(client)} and a.shipment_id = s.id
        and a.external_reference is not null) as returns
    from fulfilment.shipments s
    where s.client = ${anyClient(client)} and s.order_id = ${anyId(orderIds)}`.execute(trx);
  const shipmentIds = shipments.map(({ id }) => id);
  const returns = shipments.flatMap((shipment) => shipment.returns);

  const facts = await readNumberFacts(trx, client, given);
  const numbers = given.flatMap((order) => judgeNumbers(order, facts));
  const rowIds = facts.rows.filter((row) => numbers.some((number) => isMeant(row, number)));

  const { rows } = await sql<OrderOutboxRow>`
    with found as materialized (
      select unnest(${rowIds.map(({ id }) => id)}::bigint[]) as id
      union
      select r.id
      from fulfilment.outbox r
      where r.client = ${anyClient(client)} and r.family = 'return'
        and r.reference = ${anyText(returns)}
      union
      select r.id
      from fulfilment.outbox r
      where r.client = ${anyClient(client)} and r.family = 'return'
        and r.payload ->> 'shipmentId' = ${anyText(shipmentIds.map(String))}
    )
    select o.id, o.kind, o.reference, o.status, o.written_at is not null as "mayBeCarriedOut"
    from fulfilment.outbox o
    where o.id in (select id from found)
    order by o.id
    for update`.execute(trx);
  return { orderIds, shipmentIds, numbers, rows };
}

/** An outbox row with a number of an order. */
interface NumberedRow {
  readonly id: number;
  readonly kind: string;
  readonly number: string;
  readonly status: string;
  /** Id of the order that it was sent for; null before. */
  readonly targetId: number | null;
  /** Id of the order that it is about, as text; null if it names none. */
  readonly orderId: string | null;
  /** The number that it gives to the order. */
  readonly taken: string | null;
}

/** What is known of the numbers of orders. */
interface NumberFacts {
  readonly stored: readonly { readonly id: number; readonly number: string }[];
  readonly rows: readonly NumberedRow[];
}

/** Reads the orders and outbox rows with numbers of these orders, also with those of renames. */
async function readNumberFacts(
  trx: Kysely<DB>,
  client: string,
  given: readonly OrderToErase[],
): Promise<NumberFacts> {
  const ids = given.flatMap(({ id }) => id ?? []);
  const { rows: renames } = await selectNumberedRows(client, ids, []).execute(trx);
  const numbers = [
    ...given.map(({ number }) => number),
    ...renames.flatMap(({ number, taken }) => [number, taken ?? number]),
  ];

  const { rows: stored } = await sql<NumberFacts['stored'][number]>`
    select o.id, coalesce(o.external_order_number, '') as number
    from fulfilment.orders o
    where o.client = ${anyClient(client)}
      and (o.id = ${anyId(ids)} or o.external_order_number = ${anyText(numbers)})`.execute(trx);
  const all = [...numbers, ...stored.map(({ number }) => number)];
  const { rows } = await selectNumberedRows(client, ids, all).execute(trx);
  return { stored, rows };
}

const selectNumberedRows = (
  client: string,
  targetIds: readonly number[],
  numbers: readonly string[],
) => sql<NumberedRow>`
  select o.id, o.kind, o.reference as number, o.status, t.target_id as "targetId",
    coalesce(t.target_id::text, o.result ->> 'orderId') as "orderId",
    case when o.kind in ('order.rename', 'order.replace')
      then o.payload ->> 'externalOrderNumber' end as taken
  from fulfilment.outbox o
  left join sync.outbox_targets t on t.outbox_id = o.id
  where o.client = ${anyClient(client)} and o.family = 'order' and o.id in (
    select r.id
    from fulfilment.outbox r
    where r.client = ${anyClient(client)} and r.reference = ${anyText(numbers)}
    union
    select outbox_id
    from sync.outbox_targets
    where target_id = ${anyId(targetIds)})
  order by o.id`;

/** The kinds that create an order. */
export const creatingKinds: readonly string[] = ['order.create', 'order.replace'];

/**
 * Returns the numbers of an order: the given one, the stored one, and those that renames gave or
 * took. Rows that name an id tell which order had a number until when. An order.create after them
 * begins another order.
 */
function judgeNumbers({ id, number: given }: OrderToErase, facts: NumberFacts): OrderNumber[] {
  const stored = facts.stored.find((order) => order.id === id)?.number || null;
  const renames = facts.rows.filter(
    ({ targetId, status, taken }) =>
      id !== null && targetId === id && (status === 'done' || (taken !== null && taken === stored)),
  );
  const present = stored ?? renames.findLast(({ taken }) => taken !== null)?.taken ?? null;
  const named = [given, stored, ...renames.flatMap((row) => [row.number, row.taken])];

  return [...new Set(named.filter((number) => number !== null))].map((number) => {
    const isPresent = present === null || number === present;
    const rows = facts.rows.filter((row) => row.number === number);
    const isOwn = ({ orderId }: NumberedRow) =>
      id === null ? orderId !== null : orderId === String(id);
    // A follow-up may come behind rows of another order that got the number.
    const own = rows.filter(
      (row) => isOwn(row) && (row.kind !== 'order_attachment.create' || row.targetId === null),
    );
    const takenBy = renames.find(({ taken }) => taken === number)?.id ?? 0;
    const [first = null, last = 0] = [own[0]?.id, own.at(-1)?.id];
    const end = Math.max(last, takenBy);

    const isOther = (row: NumberedRow) =>
      row.orderId !== null && !isOwn(row) && first !== null && row.id < first;
    const isTakenFirst = takenBy > 0 && (first === null || first > takenBy);
    const beforeFirst = first !== null && rows.some(isOther) ? first - 1 : null;
    const ofKnown = isTakenFirst ? takenBy : beforeFirst;

    const creation = rows.find((row) => creatingKinds.includes(row.kind) && row.id > end);
    const isReused = facts.stored.some(
      (order) => id !== null && order.number === number && order.id !== id,
    );
    const begin = creation?.id ?? (isReused ? end + 1 : null);
    return {
      ...{ id, number, isPresent },
      after: id === null ? last : ofKnown,
      before: isPresent ? null : begin,
    };
  });
}

/** Returns true if a row is about the order, or means it by this number of it. */
function isMeant(row: NumberedRow, { id, number, after, before }: OrderNumber): boolean {
  if (row.number !== number) return false;
  if (row.orderId !== null) return row.orderId === String(id);
  return row.id > (after ?? 0) && (before === null || row.id < before);
}

/** An order that a number or an id names. */
export interface ErasableOrder extends OrderToErase {
  readonly client: string;
  /** True if `fulfilment.orders` has it. */
  readonly isStored: boolean;
}

/**
 * Finds the orders with this number, or with this id: stored orders, and orders that only the
 * outbox or the quarantine knows. A number that an order had before it was renamed finds it too,
 * unless another order has that number now: a stored one, or one that a later order.create of the
 * outbox names.
 * @param client null: every client
 */
export async function findErasableOrders(
  db: Kysely<DB>,
  client: string | null,
  name: { readonly number: string } | { readonly id: number },
): Promise<ErasableOrder[]> {
  const [number, id] = 'number' in name ? [name.number, null] : [null, name.id];
  const isNamed =
    id === null
      ? sql`r.reference = ${number}`
      : sql`(t.target_id = ${id} or r.result ->> 'orderId' = ${String(id)})`;

  const { rows } = await sql<NamedOrder>`
    select f.client, f.id, f.number, f.is_read as "isRead", exists (
      select from fulfilment.orders o
      where o.client = f.client and o.id = f.id) as "isStored"
    from (
      select o.client, o.id, coalesce(o.external_order_number, '') as number, true as is_read
      from fulfilment.orders o
      where o.external_order_number = ${number} or o.id = ${id}::bigint
      union
      select q.client, q.resource_id, coalesce(q.external_order_number, ''), true
      from sync.quarantine q
      where q.stream = 'orders' and (q.resource_id = ${id}::bigint
        or (q.resource_id is not null and q.external_order_number = ${number}))
      union
      select r.client, coalesce(t.target_id, sync.read_document_id(r.result -> 'orderId')),
        r.reference, false
      from fulfilment.outbox r
      left join sync.outbox_targets t on t.outbox_id = r.id
      where ${isNamed} and r.family = 'order') f
    where ${client}::text is null or f.client = ${client}
    order by f.client, f.id, f.is_read`.execute(db);

  const found: ErasableOrder[] = [];
  for (const [owner, named] of Map.groupBy(rows, (row) => row.client)) {
    const facts = await readNumberFacts(db, owner, named);
    for (const order of chooseOrders(named, number, facts)) found.push(order);
  }
  return found;
}

/** An order that a number or an id names. One that was read is stored or in quarantine. */
interface NamedOrder extends ErasableOrder {
  readonly isRead: boolean;
}

/**
 * Chooses the orders that a number means now; without a number, all, by their present numbers. Rows
 * without an id belong to the order that others name.
 */
function chooseOrders(
  named: readonly NamedOrder[],
  wanted: string | null,
  facts: NumberFacts,
): ErasableOrder[] {
  const known = named.flatMap((order) =>
    judgeNumbers(order, facts)
      .filter(({ id, number, isPresent, before }) =>
        wanted === null ? isPresent : id !== null && number === wanted && before === null,
      )
      .map(({ number }) => ({ ...order, number })),
  );
  const hasHolder = known.some(({ isRead, isStored }) => isRead && isStored);
  const orders = known.length > 0 ? known : named.filter(({ id }) => id === null);

  const chosen = orders.filter(({ isRead }) => isRead || !hasHolder);
  const byId = new Map(chosen.map(({ isRead: _, ...order }) => [order.id, order]));
  return [...byId.values()];
}
