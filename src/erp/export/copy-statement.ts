import pg from 'pg';
import type { Column, Relation } from './relations.ts';

const { escapeIdentifier: name, escapeLiteral: literal } = pg;

export type ExportFormat = 'csv' | 'ndjson';

/** Where an export begins: after a seq of the feed, or at a time. */
export type Since = { readonly seq: number } | { readonly time: string };

export interface ExportChoice {
  readonly format: ExportFormat;
  /** Columns to export, in this order. They exist. */
  readonly columns: readonly Column[];
  readonly client?: string;
  readonly since?: Since;
}

/** Columns that tell when a row last changed, the first that a table has counts. */
const timeColumns = ['changed_at', 'seen_at', 'moved_at'];
/** Tables whose rows never change, so that their creation is their last change. */
const unchangingTables: ReadonlySet<string> = new Set(['documents', 'stock_watch']);
/** Tables whose rows have no entries in the feed. */
const outsideFeed: ReadonlySet<string> = new Set(['consumers', 'stock_watch', 'track_trace_events']);

/** Returns the column that tells when a row of the relation last changed; null if there is none. */
export function findTimeColumn({ name: relation, columns }: Relation): string | null {
  const candidates = unchangingTables.has(relation) ? ['created_at'] : timeColumns;
  return candidates.find((candidate) => columns.some((column) => column.name === candidate)) ?? null;
}

/** Returns true if the feed names the rows of the relation. */
export const isInFeed = ({ name: relation, key }: Relation): boolean => key.length > 0 && !outsideFeed.has(relation);

/** Returns the COPY statement of an export. */
export function buildCopyStatement(relation: Relation, { format, columns, client, since }: ExportChoice): string {
  const conditions = [
    ...(client === undefined ? [] : [`t.client = ${literal(client)}`]),
    ...(since === undefined ? [] : [buildSinceCondition(relation, since)]),
  ];
  const where = conditions.length === 0 ? '' : ` where ${conditions.join(' and ')}`;
  // The feed has an order that readers rely on.
  const order = relation.name === 'changes' ? ' order by t.seq' : '';
  const from = `from fulfilment.${name(relation.name)} t${where}${order}`;
  if (format === 'csv') {
    const list = columns.map(toCsvColumn).join(', ');
    return `copy (select ${list} ${from}) to stdout (format csv, header, encoding 'UTF8')`;
  }
  const list = columns.map((column) => `t.${name(column.name)}`).join(', ');
  // JSON text holds neither of these control characters, so this CSV neither quotes nor escapes anything.
  const unused = "quote e'\\x01', delimiter e'\\x02'";
  return `copy (select to_json(r) from (select ${list} ${from}) r) to stdout (format csv, ${unused}, encoding 'UTF8')`;
}

/** Times are written in ISO 8601, booleans as true and false, and lists as JSON. All else is the text of Postgres. */
function toCsvColumn({ name: column, type }: Column): string {
  const value = `t.${name(column)}`;
  const as = ` as ${name(column)}`;
  if (type.startsWith('timestamp')) return `to_json(${value}) #>> '{}'${as}`;
  if (type.endsWith('[]')) return `to_json(${value})::text${as}`;
  return type === 'boolean' ? `${value}::text${as}` : `${value}${as}`;
}

function buildSinceCondition(relation: Relation, since: Since): string {
  if ('time' in since)
    return `t.${name(findTimeColumn(relation) ?? '')} >= ${literal(since.time)}::timestamp with time zone`;
  if (relation.name === 'changes') return `t.seq > ${since.seq}`;
  const { seq } = since;
  const others = relation.key.filter((column) => column !== 'client');
  const isById = others.length === 1 && others[0] === 'id';
  const own = isById ? 't.id' : `concat_ws(':', ${others.map((column) => `t.${name(column)}`).join(', ')})`;
  const conditions = `c.seq > ${seq} and c.entity = ${literal(relation.name)}`;
  const named = `c.client, c.${isById ? 'id' : 'key'}`;
  return `(t.client, ${own}) in (select ${named} from fulfilment.changes c where ${conditions})`;
}
