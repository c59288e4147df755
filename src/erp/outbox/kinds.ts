import { type Kysely, sql } from 'kysely';
import type { Json } from '../../core/json.ts';
import type { DB } from '../generated/tables.ts';

/**
 * Stores the payload schemas that `fulfilment.outbox_schema(kind)` returns. Kinds that only a newer version knows stay.
 */
export async function storeOutboxKinds(
  db: Kysely<DB>,
  kinds: readonly { readonly kind: string; readonly schema: Json }[],
): Promise<void> {
  await sql`
    insert into sync.outbox_kinds as k (kind, schema)
    select i.kind, i.schema
    from json_to_recordset(${JSON.stringify(kinds)}::json) as i (kind text, schema jsonb)
    order by i.kind
    on conflict (kind) do update set schema = excluded.schema
    where k.schema is distinct from excluded.schema`.execute(db);
}
