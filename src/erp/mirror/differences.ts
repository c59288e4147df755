import { type Kysely, sql, type Transaction } from 'kysely';
import { anyClient } from '../connection/any-client.ts';
import type { DB } from '../generated/tables.ts';
import { othersAtWork, somethingWaits } from '../runs/confirmations.ts';
import type { Lease } from '../runs/leases.ts';
import { movedFrom, touchedByChildren } from './children.ts';
import {
  type Comparison,
  comparedTypes,
  differs,
  type Family,
  type MirrorTables,
  only,
  rowSet,
  rowsByIds,
  sameKey,
  tableRef,
} from './tables.ts';

/** Whose reading it is, and how old. */
export interface ReadingScope {
  readonly client: string;
  readonly stream: string;
  /** Drawn before the request was sent. Of several requests the oldest; a parent may bring its own as `read_no`. */
  readonly readNo: number;
  readonly compare: Comparison;
  /**
   * Of readings whose number was drawn after their answer: by id, the number that was drawn before they asked. Where what
   * is stored comes from between the two, it cannot be known which is newer, and the reading is not applied.
   */
  readonly askedBy?: ReadonlyMap<number, number>;
}

/** What a reading touches. */
interface Touched {
  /** Parents that are stored, each with the number of the reading it comes from. */
  readonly stored: ReadonlyMap<number, number>;
  /** Ids of parents that are new here, differ, were unlisted, or have children that differ. */
  readonly ids: ReadonlySet<number>;
  /** Parents that are stored for a line which goes to another. */
  readonly moves: readonly { readonly id: number; readonly goesTo: number }[];
}

/** Finds what a reading touches. What is not stored at all needs no comparing, which is most of the work of a first load. */
export async function findTouched(
  trx: Transaction<DB>,
  { client, compare }: ReadingScope,
  tables: MirrorTables,
  families: readonly Family[],
): Promise<Touched> {
  const ids = families.map(({ parent }) => parent.id);
  const { rows } = await sql<{ id: number; goesTo: number | null; readNo: number | null }>`
    select t.id, null::bigint as "goesTo", t.read_no as "readNo"
    from ${tableRef(tables.parent.name)} t
    where t.client = ${anyClient(client)} and t.id = any(${ids}::bigint[])
    ${sql.join(
      tables.children.map((child) => movedFrom(client, child, families)),
      sql``,
    )}`.execute(trx);
  const stored = new Map(rows.flatMap(({ id, goesTo, readNo }) => (goesTo === null ? [[id, readNo ?? 0]] : [])));
  const moves = rows.flatMap(({ id, goesTo }) => (goesTo === null ? [] : [{ id, goesTo }]));
  const known = families.filter(({ parent }) => stored.has(parent.id));
  const differing = await findDiffering(trx, { client, compare }, tables, known);
  return { stored, ids: new Set([...ids.filter((id) => !stored.has(id)), ...differing]), moves };
}

/** Of families whose parents are stored, those that differ from what is: in the parent, or in what belongs to it. */
async function findDiffering(
  trx: Transaction<DB>,
  { client, compare }: Pick<ReadingScope, 'client' | 'compare'>,
  tables: MirrorTables,
  families: readonly Family[],
): Promise<number[]> {
  if (families.length === 0) return [];
  const { rows } = await sql<{ id: number }>`
    select id
    from (${differing({ client, compare }, tables, families)}) as differing`.execute(trx);
  return rows.map(({ id }) => id);
}

/** SQL: ids of parents that are not stored or differ from what is, in themselves or in what belongs to them. */
function differing(
  { client, compare }: Pick<ReadingScope, 'client' | 'compare'>,
  tables: MirrorTables,
  families: readonly Family[],
) {
  const types = comparedTypes(tables.parent, compare);
  const parents = families.map(({ parent }) => only(types, parent));
  const byChildren = tables.children.map((child) => touchedByChildren(client, compare, child, families));
  return sql`
    select i.id
    from ${rowSet(types, parents)}
    left join ${rowsByIds(
      tables.parent,
      client,
      families.map(({ parent }) => parent.id),
    )} on ${sameKey(tables.parent, client)}
    where t.id is null or t.unlisted_since is not null or ${differs(tables.parent, compare, 'i')}
    ${sql.join(byChildren, sql``)}`;
}

/**
 * Whether a reading may bring anything at all: a row that is new or differs, or something for what waits in its stream to be
 * read. Where it does not, there is nothing to write, and it need not enter the stream: whoever does afterwards reads later.
 */
export async function mayBringNews(
  db: Kysely<DB>,
  lease: Lease,
  scope: ReadingScope,
  tables: MirrorTables,
  families: readonly Family[],
): Promise<boolean> {
  const { rows } = await sql<{ news: boolean }>`
    select ${othersAtWork(lease, scope.stream)} or ${somethingWaits(lease.client, scope.stream)}
      or exists (${differing(scope, tables, families)}) as news`.execute(db);
  return rows[0]?.news ?? true;
}
