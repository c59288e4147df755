import { isDeepStrictEqual } from 'node:util';
import { type Kysely, sql } from 'kysely';
import type { Json } from '../../core/json.ts';
import type { DB } from '../../db/generated/tables.ts';
import type { KindDocument } from '../kind.ts';

/** What the database has to know of a kind. */
export interface StoredKind {
  readonly kind: string;
  /** JSON Schema of its payload, which `fulfilment.outbox_schema(kind)` returns. */
  readonly schema: Json;
  /** True if a row with unknown outcome is sent again: its first attempt may still take effect. */
  readonly lingers: boolean;
  readonly overtakenBy: readonly string[];
  readonly awaitsProducts: boolean;
  readonly document: KindDocument | null;
}

/** Stores what the database has to know of the kinds. */
export async function storeOutboxKinds(
  db: Kysely<DB>,
  kinds: readonly StoredKind[],
): Promise<void> {
  await sql`
    insert into sync.outbox_kinds as k
      (kind, schema, lingers, overtaken_by, awaits_products, document)
    select i.kind, i.schema, i.lingers, i."overtakenBy", i."awaitsProducts",
      nullif(i.document, 'null')
    from json_to_recordset(${JSON.stringify(kinds)}::json) as i (kind text, schema jsonb,
      lingers boolean, "overtakenBy" text[], "awaitsProducts" boolean, document jsonb)
    order by i.kind
    on conflict (kind) do update set schema = excluded.schema, lingers = excluded.lingers,
      overtaken_by = excluded.overtaken_by, awaits_products = excluded.awaits_products,
      document = excluded.document
    where k is distinct from excluded`.execute(db);
}

/**
 * Compares what `migrate` stored of the kinds with what this process knows. They differ if the file
 * of operations has changed since, or if another version of this program has migrated.
 * @returns the differences in words, such as `order.create (schema)`; null: there are none
 */
export async function describeKindDifferences(
  db: Kysely<DB>,
  kinds: readonly StoredKind[],
): Promise<string | null> {
  const rows = await db
    .selectFrom('sync.outbox_kinds')
    .select(['kind', 'schema', 'lingers', 'document'])
    .select(['overtaken_by as overtakenBy', 'awaits_products as awaitsProducts'])
    .execute();
  const stored = new Map<string, object>(rows.map((row) => [row.kind, row]));

  const differences = kinds.flatMap((own) => {
    const found = stored.get(own.kind);
    if (found === undefined) return [`${own.kind} (missing)`];

    const given = JSON.parse(JSON.stringify(own)) as Record<string, Json>;
    const parts = Object.entries(found)
      .filter(([part, value]) => !isDeepStrictEqual(value, given[part]))
      .map(([part]) => part);
    return parts.length === 0 ? [] : [`${own.kind} (${parts.join(', ')})`];
  });
  return differences.length === 0 ? null : differences.join(', ');
}
