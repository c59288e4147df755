import type { Readable } from 'node:stream';
import type pg from 'pg';
import { to as copyTo } from 'pg-copy-streams';
import { buildCopyStatement, type ExportChoice } from './copy-statement.ts';
import type { Relation } from './relations.ts';

/** An export under way. */
export interface RowStream {
  /** Rows as bytes. It fails if the database ends the export. */
  readonly bytes: Readable & { readonly rowCount: number };
  /** The newest seq of the feed that the export includes; null if the feed is empty. */
  readonly seq: number | null;
}

/**
 * Starts an export in a transaction of the connection: the rows are those of one moment. The connection cannot be used
 * for anything else afterwards.
 * @throws an error with code 22023 if the feed is not kept any more from where the export is to begin
 */
export async function exportRows(
  connection: pg.ClientBase,
  relation: Relation,
  choice: ExportChoice,
): Promise<RowStream> {
  await connection.query('begin isolation level repeatable read read only');
  const { since } = choice;
  if (since !== undefined && 'seq' in since)
    await connection.query('select from fulfilment.changes_since($1, 1)', [since.seq]);
  const { rows } = await connection.query<{ seq: number | null }>(
    'select max(c.seq)::float8 as seq from fulfilment.changes c',
  );
  const bytes = connection.query(copyTo(buildCopyStatement(relation, choice)));
  return { bytes, seq: rows[0]?.seq ?? null };
}
