import { type Kysely, sql } from 'kysely';
import { anyClient } from '../connection/any-client.ts';
import type { DB } from '../generated/tables.ts';
import { otherReadersExist, rereadsOrQuarantineExist } from '../runs/confirmations.ts';
import type { Lease } from '../runs/leases.ts';
import type { StreamTransaction } from '../runs/stream-transaction.ts';
import { selectTouchedByChildren } from './children.ts';
import {
  type Comparison,
  comparedTypes,
  differs,
  type Family,
  hasSameKey,
  type MirrorTables,
  rowsWhere,
  tableRef,
} from './mirror-tables.ts';
import { rowSet } from './row-set.ts';

/** The age of a reading, and how it is compared. */
export interface ReadingAge {
  /**
   * The number drawn before the request was sent; of several requests, the smallest. A parent that was read by another
   * request brings that request's number as `read_no`.
   */
  readonly readNo: number;
  readonly compare: Comparison;
  /**
   * For readings whose number was drawn after their answer: by id, the number that was drawn before their request. If
   * the number of the stored row lies between the two, we cannot know which is newer. The reading is then not applied.
   */
  readonly readNoAtRequest?: ReadonlyMap<number, number>;
}

/** The stored parents of a reading, and the parents that it changes. */
interface TouchedParents {
  /** Ids of stored parents, each with the number of its stored reading. */
  readonly stored: ReadonlyMap<number, number>;
  /** Ids of parents that are new here, differ, were unlisted, or have children that differ. */
  readonly ids: ReadonlySet<number>;
}

/**
 * Finds the parents that a reading touches. Parents that are not stored are not compared: in a first load these are
 * most of them.
 */
export async function findTouched(
  transaction: StreamTransaction,
  compare: Comparison,
  tables: MirrorTables,
  families: readonly Family[],
): Promise<TouchedParents> {
  const { trx, client } = transaction;
  const ids = families.map(({ parent }) => parent.id);
  const { rows } = await sql<{ id: number; readNo: number }>`
    select t.id, t.read_no as "readNo"
    from ${tableRef(tables.parent.name)} t
    where t.client = ${anyClient(client)} and t.id = any(${ids}::bigint[])`.execute(trx);
  const stored = new Map(rows.map(({ id, readNo }) => [id, readNo]));
  const known = families.filter(({ parent }) => stored.has(parent.id));
  const differing = await findDiffering(transaction, compare, tables, known);
  return { stored, ids: new Set([...ids.filter((id) => !stored.has(id)), ...differing]) };
}

/** Finds the parents that differ from the stored rows, in themselves or in their child rows. Expects stored parents. */
async function findDiffering(
  { trx, client }: StreamTransaction,
  compare: Comparison,
  tables: MirrorTables,
  families: readonly Family[],
): Promise<number[]> {
  if (families.length === 0) return [];
  const { rows } = await sql<{ id: number }>`
    select id
    from (${selectDiffering(client, compare, tables, families)}) as differing`.execute(trx);
  return rows.map(({ id }) => id);
}

/**
 * Returns SQL: ids of parents that are not stored, are unlisted, or differ in themselves or in their child rows. Each
 * stored row has one in the reading; the planner does not know that. It can only hash or merge a full join, so it cannot
 * compare each row with each other one.
 */
function selectDiffering(client: string, compare: Comparison, tables: MirrorTables, families: readonly Family[]) {
  const types = comparedTypes(tables.parent, compare);
  const parents = families.map(({ parent }) => parent);
  const byChildren = tables.children.map((child) => selectTouchedByChildren(client, compare, child, families));
  return sql`
    select i.id
    from ${rowSet(types, parents)}
    full join ${rowsWhere(
      tables.parent,
      client,
      'id',
      families.map(({ parent }) => parent.id),
    )} on ${hasSameKey(tables.parent)}
    where case
      when t.id is null then true
      else t.unlisted_since is not null or ${differs(tables.parent, compare, 'i')}
    end
    ${sql.join(byChildren, sql``)}`;
}

/**
 * Returns whether a reading may write anything: a row is new or differs, another reader is at work, or a resource of
 * the stream waits for a reread or is in quarantine. If not, the reading need not lock the stream: every later reader
 * of the stream has a later reading.
 */
export async function mayWriteAnything(
  db: Kysely<DB>,
  lease: Lease,
  stream: string,
  compare: Comparison,
  tables: MirrorTables,
  families: readonly Family[],
): Promise<boolean> {
  const { rows } = await sql<{ news: boolean }>`
    select ${otherReadersExist(lease, stream)} or ${rereadsOrQuarantineExist(lease.client, stream)}
      or exists (${selectDiffering(lease.client, compare, tables, families)}) as news`.execute(db);
  return rows[0]?.news ?? true;
}
