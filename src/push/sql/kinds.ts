import { type Kysely, sql } from 'kysely';
import type { Json } from '../../core/json.ts';
import type { DB } from '../../db/generated/tables.ts';

/** A kind with the JSON Schema of its payload. */
export interface KindSchema {
  readonly kind: string;
  readonly schema: Json;
}

/** Stores the payload schemas that `fulfilment.outbox_schema(kind)` returns. */
export async function storeOutboxKinds(
  db: Kysely<DB>,
  kinds: readonly KindSchema[],
): Promise<void> {
  await sql`
    insert into sync.outbox_kinds as k (kind, schema)
    select i.kind, i.schema
    from json_to_recordset(${JSON.stringify(kinds)}::json) as i (kind text, schema jsonb)
    order by i.kind
    on conflict (kind) do update set schema = excluded.schema
    where k.schema is distinct from excluded.schema`.execute(db);
}

/** Returns the stored payload schemas by kind. */
export async function readOutboxKinds(db: Kysely<DB>): Promise<ReadonlyMap<string, Json>> {
  const rows = await db.selectFrom('sync.outbox_kinds').select(['kind', 'schema']).execute();
  return new Map(rows.map(({ kind, schema }) => [kind, schema as Json]));
}
