import type { Queryable } from './connection.ts';
import { type Rows, relations, type TableName } from './generated/rows.ts';

/** Name of a table or view of schema fulfilment. */
export type RelationName = keyof Rows;

/**
 * Returns the columns of a table or view for a select. Then the values have the types of `Rows[name]`, whatever type
 * parsers the connection has: ids are numbers, days and decimals are texts.
 * @param alias name of the table in the statement, if it has another
 */
export function selectList(name: RelationName, alias: string = name): string {
  return Object.entries(relations[name].columns)
    .map(([column, cast]) => (cast === '' ? `${alias}.${column}` : `${alias}.${column}::${cast} as ${column}`))
    .join(', ');
}

/** The part of a change that names a row. */
export interface RowName<N extends TableName> {
  readonly entity: N;
  readonly client: string;
  readonly id: number | null;
  readonly key: string | null;
}

/** Reads the row that a change of the feed names; null if it is not there any more. */
export async function readRow<N extends TableName>(
  db: Queryable,
  { entity, client, id, key }: RowName<N>,
): Promise<Rows[N] | null> {
  const columns = relations[entity].key.filter((column) => column !== 'client');
  const values = key === null ? [id] : splitKey(key, columns.length);
  const conditions = columns.map((column, index) => ` and ${column} = $${index + 2}`).join('');
  const { rows } = await db.query(
    `select ${selectList(entity)} from fulfilment.${entity} where client = $1${conditions}`,
    [client, ...values],
  );
  return (rows[0] as Rows[N] | undefined) ?? null;
}

/** Splits the key of a change. The last part may hold colons. */
function splitKey(key: string, count: number): string[] {
  const parts = key.split(':');
  return [...parts.slice(0, count - 1), parts.slice(count - 1).join(':')];
}

/** Everything about one order at a glance, as `fulfilment.order_state` returns it (docs/erp.md). */
export interface OrderState {
  /** Order id at the service; null until the service has it. */
  readonly order_id: number | null;
  readonly state:
    | 'waiting'
    | 'unknown'
    | 'refused'
    | 'accepted'
    | 'on_hold'
    | 'in_warehouse'
    | 'warehouse_error'
    | 'partly_shipped'
    | 'shipped'
    | 'cancelled'
    | 'renamed'
    | 'unlisted'
    | 'not_found';
  /** What the first unfinished outbox row of the order waits for, in words; null if there is none. */
  readonly waits_for: string | null;
  /** Outbox rows of the order that are not done or cancelled. */
  readonly open_rows: number;
  /** Pieces ordered, without what was cancelled. */
  readonly ordered: number;
  readonly shipped: number;
  readonly returned: number;
  readonly shipments: number;
  readonly last_shipped_on: Date | null;
  readonly tracking_urls: readonly string[];
}

/** Reads the state of an order by its number; null if neither the outbox nor the tables know it. */
export async function readOrderState(db: Queryable, number: string, client = 'default'): Promise<OrderState | null> {
  const { rows } = await db.query(
    `select s.order_id::float8 as order_id, s.state, s.waits_for, s.open_rows, s.ordered, s.shipped, s.returned,
       s.shipments, s.last_shipped_on, s.tracking_urls
     from fulfilment.order_state($1, $2) s`,
    [number, client],
  );
  return (rows[0] as OrderState | undefined) ?? null;
}
