import { type Kysely, sql } from 'kysely';
import type { DB } from '../../db/generated/tables.ts';
import type { Database } from '../../db/pool.ts';
import { repeatAfterConflict } from '../../db/transaction.ts';

/** The identity of a request that may be repeated. */
export interface RequestKey {
  /** Name of the token that sent it. */
  readonly token: string;
  readonly key: string;
  readonly bodyHash: string;
}

/** What an earlier request with the same key inserted, and the hash of its body. */
export interface StoredRequest {
  readonly ids: readonly number[];
  readonly bodyHash: string;
}

/** Reads what an earlier request with this key inserted. Returns null if there was none. */
export async function readStoredRequest(
  db: Kysely<DB>,
  client: string,
  { token, key }: RequestKey,
): Promise<StoredRequest | null> {
  const found = await db
    .selectFrom('sync.api_keys')
    .select(['ids', 'body_hash as bodyHash'])
    .where('client', '=', client)
    .where('token', '=', token)
    .where('key', '=', key)
    .executeTakeFirst();

  return found === undefined ? null : { ...found, ids: found.ids.map(Number) };
}

/**
 * Inserts rows of one client in one transaction, together with the key of the request. Waits for
 * another request with the same key that is being inserted.
 * @param rows JSON array of rows: their place, kind, reference, payload, and perhaps notBefore, a
 *   time with an offset
 * @returns the ids in the order of the rows; null if an earlier request has the key
 */
export async function insertRows(
  db: Database,
  client: string,
  rows: string,
  request: RequestKey | null,
): Promise<number[] | null> {
  const { rows: inserted } = await repeatAfterConflict(() =>
    sql<{ id: number }>`
    with given as materialized (
      select nextval(pg_get_serial_sequence('fulfilment.outbox', 'id')) as id, r.*
      from (
        select *
        from json_to_recordset(${rows}::json)
          as r (place integer, kind text, reference text, payload jsonb,
          "notBefore" timestamptz)
        order by place
      ) r
    ), named as (
      insert into sync.api_keys (client, token, key, body_hash, ids)
      select ${client}, k.token, k.key, k."bodyHash",
        (select array_agg(id order by place) from given)
      from json_to_record(${JSON.stringify(request ?? {})}::json)
        as k (token text, key text, "bodyHash" text)
      where k.key is not null
      on conflict do nothing
      returning key
    ), added as (
      insert into fulfilment.outbox (id, client, kind, reference, payload, not_before)
      overriding system value
      select g.id, ${client}, g.kind, g.reference, coalesce(g.payload, 'null'), g."notBefore"
      from given g
      where ${request === null}::boolean or exists (select from named)
      returning id
    )
    select id
    from added
    order by id`.execute(db),
  );

  return inserted.length === 0 ? null : inserted.map(({ id }) => id);
}

/**
 * Inserts a row as an ERP does, up to the triggers of the commit, and rolls back.
 * @throws the error that the ERP would get
 */
export async function tryInsert(db: Database): Promise<void> {
  const trx = await db.startTransaction().execute();
  try {
    await sql`
      insert into fulfilment.outbox (kind, reference)
      values ('order.cancel', 'doctor')`.execute(trx);
    await sql`set constraints all immediate`.execute(trx);
  } finally {
    await trx.rollback().execute();
  }
}
