import { type Connection, inTransaction, type Pool, type Queryable, withConnection } from './connection.ts';
import type { ChangesRow, TableName } from './generated/rows.ts';

/** An entry of the feed: which row was created, updated, found unlisted or removed. */
export interface Change extends ChangesRow {
  readonly entity: TableName;
  readonly operation: 'created' | 'updated' | 'unlisted' | 'removed';
}

const entries = 'seq::float8 as seq, client, entity, id::float8 as id, key, operation, changed_at';

/**
 * Starts a consumer of the feed, unless it was started before. Call it before you read the tables for the first time.
 * @param after begin after this seq; 0: at the beginning; null: after the newest change
 * @param move true: move a consumer that exists. Do so after an error with code 22023, then read the tables again
 * @returns the seq that the consumer has read up to
 */
export async function startConsumer(
  db: Queryable,
  consumer: string,
  { after = null, move = false }: { readonly after?: number | null; readonly move?: boolean } = {},
): Promise<number> {
  const { rows } = await db.query('select fulfilment.start_consumer($1, $2, $3)::float8 as seq', [
    consumer,
    after,
    move,
  ]);
  return (rows[0] as { readonly seq: number }).seq;
}

/**
 * Reads the next changes of a consumer. Its checkpoint moves when the transaction of `db` commits, so call it in the
 * transaction that does the work. Another reader of the same consumer waits until then.
 */
export async function consumeChanges(db: Queryable, consumer: string, max = 500): Promise<Change[]> {
  const { rows } = await db.query(`select ${entries} from fulfilment.consume_changes($1, $2) order by seq`, [
    consumer,
    max,
  ]);
  return rows as Change[];
}

/** Reads the changes after a seq that the program keeps itself, for example in another database. */
export async function readChangesSince(db: Queryable, after: number, max = 500): Promise<Change[]> {
  const { rows } = await db.query(`select ${entries} from fulfilment.changes_since($1, $2) order by seq`, [after, max]);
  return rows as Change[];
}

/** What to do with the changes of a consumer. */
export interface HandleOptions {
  readonly consumer: string;
  /** Work for one change, on the connection of the transaction that also moves the checkpoint. */
  readonly handle: (change: Change, db: Queryable) => Promise<void>;
  /** Maximum number of changes in one transaction; 500 if absent. */
  readonly pageSize?: number;
}

/**
 * Handles the next changes of a consumer in one transaction. If `handle` throws, nothing of it is kept, and the next
 * call handles the same changes again.
 * @returns the number of changes; less than `pageSize`: there are no more at present
 */
export function handleChanges(
  db: Connection | Pool,
  { consumer, handle, pageSize = 500 }: HandleOptions,
): Promise<number> {
  return withConnection(db, (connection) =>
    inTransaction(connection, async () => {
      const changes = await consumeChanges(connection, consumer, pageSize);
      for (const change of changes) await handle(change, connection);
      return changes.length;
    }),
  );
}
