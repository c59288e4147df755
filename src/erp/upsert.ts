import { type Kysely, sql, type Transaction } from 'kysely';
import type { Json } from '../core/json.ts';
import type { Change } from './feed.ts';
import type { DB } from './rows.ts';

/** Values of one row by column; times as ISO text with an offset. */
export type MirrorRow = { readonly id: number; readonly raw: Json; readonly [column: string]: unknown };

/** A table that mirrors one kind of resource. `columns` are those that come from the resource, with their SQL types. */
export interface MirrorTable {
  readonly name: string;
  readonly columns: Readonly<Record<string, string>>;
  /** Columns filled from elsewhere, emptied when the named column changes. */
  readonly derived?: Readonly<Record<string, string>>;
}

/** A parent with its children, read at one moment. */
export interface Family {
  readonly parent: MirrorRow;
  readonly children: readonly MirrorRow[];
  /** True where the children are all there are, so that others stored for this parent are gone. */
  readonly childrenComplete: boolean;
}

/** A mirrored kind with its lines, if it has any. `parentColumn` of the child table names the parent's id. */
export interface MirrorTables {
  readonly parent: MirrorTable;
  readonly child?: MirrorTable & { readonly parentColumn: string };
}

export interface UpsertResult {
  readonly created: number;
  readonly updated: number;
  readonly removed: number;
  /** Parents that were as they are, with all their children. */
  readonly unchanged: number;
  /** Readings not applied because a newer one was there already. */
  readonly stale: number;
  readonly changes: readonly Change[];
}

interface Written {
  readonly id: number;
  readonly created: boolean;
  readonly changed: boolean;
}

/**
 * Writes what differs and nothing else. A reading applies where its `readNo` is larger than the stored row's, decided at
 * the parent for its children too; a parent of changed children is written as well, so that this can be told.
 */
export async function upsertFamilies(
  trx: Transaction<DB>,
  client: string,
  tables: MirrorTables,
  readNo: number,
  families: readonly Family[],
): Promise<UpsertResult> {
  // A list may repeat a row; of one page the last mention counts.
  const byId = new Map(families.map((family) => [family.parent.id, family]));
  const touched = (await findTouched(trx, client, tables, [...byId.values()])).map((id) => byId.get(id) as Family);
  const unchanged = byId.size - touched.length;
  if (touched.length === 0) return { created: 0, updated: 0, removed: 0, unchanged, stale: 0, changes: [] };

  const parents = await writeParents(trx, client, tables.parent, readNo, touched);
  const accepted = new Set(parents.map(({ id }) => id));
  const applied = touched.filter(({ parent }) => accepted.has(parent.id));
  const children = tables.child ? await writeChildren(trx, client, tables.child, applied) : [];
  const gone = tables.child ? await removeChildren(trx, client, tables.child, applied) : [];

  const changes = [
    ...parents.filter(({ changed }) => changed).map(changeOf(tables.parent.name)),
    ...children.map(changeOf(tables.child?.name ?? '')),
    ...gone.map((id) => ({ entity: tables.child?.name ?? '', id, operation: 'removed' as const })),
  ];
  return {
    created: changes.filter(({ operation }) => operation === 'created').length,
    updated: changes.filter(({ operation }) => operation === 'updated').length,
    removed: gone.length,
    unchanged,
    stale: touched.length - parents.length,
    changes,
  };
}

const changeOf =
  (entity: string) =>
  ({ id, created }: Written): Change => ({ entity, id, operation: created ? 'created' : 'updated' });

const childrenOf = (families: readonly Family[]) => [
  ...new Map(families.flatMap(({ children }) => children).map((child) => [child.id, child])).values(),
];

const tableRef = (name: string) => sql.table(`fulfilment.${name}`);
const columnRefs = (columns: readonly string[], prefix: string) =>
  sql.join(columns.map((column) => sql.ref(`${prefix}.${column}`)));

/** The rows as a set with typed columns; JSON keeps every digit of raw. */
function rowSet(table: MirrorTable, rows: readonly MirrorRow[]) {
  const types = Object.entries({ id: 'bigint', ...table.columns, raw: 'jsonb' });
  const definition = sql.join(types.map(([column, type]) => sql`${sql.ref(column)} ${sql.raw(type)}`));
  return sql`json_to_recordset(${JSON.stringify(rows)}::json) as i (${definition})`;
}

/** Ids of parents that are new here, differ, were unlisted, or have children that differ. Reads only. */
async function findTouched(
  trx: Transaction<DB>,
  client: string,
  tables: MirrorTables,
  families: readonly Family[],
): Promise<number[]> {
  const parents = families.map(({ parent }) => ({ id: parent.id, raw: parent.raw }));
  const { rows } = await sql<{ id: number }>`
    select i.id from ${rowSet({ name: tables.parent.name, columns: {} }, parents)}
    left join ${tableRef(tables.parent.name)} t on t.client = ${client} and t.id = i.id
    where t.id is null or t.raw is distinct from i.raw or t.unlisted_since is not null
    ${tables.child ? sql`union ${touchedByChildren(client, tables.child, families)}` : sql``}
    order by 1`.execute(trx);
  return rows.map(({ id }) => id);
}

function touchedByChildren(client: string, child: NonNullable<MirrorTables['child']>, families: readonly Family[]) {
  const [stored, claimed] = [sql.ref(`t.${child.parentColumn}`), sql.ref(`i.${child.parentColumn}`)];
  const slim = families.flatMap(({ parent, children }) =>
    children.map(({ id, raw }) => ({ id, raw, [child.parentColumn]: parent.id })),
  );
  const complete = families.filter(({ childrenComplete }) => childrenComplete);
  return sql`
    select ${claimed} from ${rowSet({ name: child.name, columns: { [child.parentColumn]: 'bigint' } }, slim)}
    left join ${tableRef(child.name)} t on t.client = ${client} and t.id = i.id
    where t.id is null or t.raw is distinct from i.raw or t.unlisted_since is not null
      or ${stored} is distinct from ${claimed}
    union
    select ${stored} from ${tableRef(child.name)} t
    where t.client = ${client} and ${stored} = any(${complete.map(({ parent }) => parent.id)}::bigint[])
      and not (t.id = any(${complete.flatMap(({ children }) => children.map(({ id }) => id))}::bigint[]))`;
}

async function writeParents(
  trx: Transaction<DB>,
  client: string,
  table: MirrorTable,
  readNo: number,
  families: readonly Family[],
): Promise<Written[]> {
  const columns = Object.keys(table.columns);
  const assignments = [...columns, 'raw', 'read_no'].map(
    (column) => sql`${sql.ref(column)} = ${sql.ref(`excluded.${column}`)}`,
  );
  const derived = Object.entries(table.derived ?? {}).map(
    ([column, source]) => sql`${sql.ref(column)} =
      case when ${sql.ref(`t.${source}`)} is not distinct from ${sql.ref(`excluded.${source}`)} then ${sql.ref(`t.${column}`)} end`,
  );
  const { rows } = await sql<Written>`
    insert into ${tableRef(table.name)} as t (client, id, raw, read_no${columns.length ? sql`, ${sql.join(columns.map((c) => sql.ref(c)))}` : sql``})
    select ${client}, i.id, i.raw, ${readNo}${columns.length ? sql`, ${columnRefs(columns, 'i')}` : sql``}
    from ${rowSet(
      table,
      families.map(({ parent }) => parent),
    )}
    order by i.id
    on conflict (client, id) do update set ${sql.join([...assignments, ...derived])}, unlisted_since = null,
      changed_at = case when t.raw is distinct from excluded.raw or t.unlisted_since is not null then now() else t.changed_at end
      where t.read_no < excluded.read_no
    returning id, xmax = 0 as created, changed_at = now() as changed`.execute(trx);
  return rows;
}

async function writeChildren(
  trx: Transaction<DB>,
  client: string,
  table: NonNullable<MirrorTables['child']>,
  families: readonly Family[],
): Promise<Written[]> {
  const columns = Object.keys(table.columns);
  const assignments = [...columns, 'raw'].map((column) => sql`${sql.ref(column)} = ${sql.ref(`excluded.${column}`)}`);
  const parentColumn = table.parentColumn;
  const { rows } = await sql<Written>`
    insert into ${tableRef(table.name)} as t (client, id, raw, ${sql.join(columns.map((column) => sql.ref(column)))})
    select ${client}, i.id, i.raw, ${columnRefs(columns, 'i')}
    from ${rowSet(table, childrenOf(families))}
    order by i.id
    on conflict (client, id) do update set ${sql.join(assignments)}, unlisted_since = null, changed_at = now()
      where t.raw is distinct from excluded.raw or t.unlisted_since is not null
        or ${sql.ref(`t.${parentColumn}`)} is distinct from ${sql.ref(`excluded.${parentColumn}`)}
    returning id, xmax = 0 as created, true as changed`.execute(trx);
  return rows;
}

/** Deletes stored children that a complete reading of their parent no longer lists. */
async function removeChildren(
  trx: Transaction<DB>,
  client: string,
  table: NonNullable<MirrorTables['child']>,
  families: readonly Family[],
): Promise<number[]> {
  const complete = families.filter(({ childrenComplete }) => childrenComplete);
  if (complete.length === 0) return [];
  const { rows } = await sql<{ id: number }>`
    delete from ${tableRef(table.name)}
    where client = ${client} and ${sql.ref(table.parentColumn)} = any(${complete.map(({ parent }) => parent.id)}::bigint[])
      and not (id = any(${childrenOf(complete).map(({ id }) => id)}::bigint[]))
    returning id`.execute(trx);
  return rows.map(({ id }) => id);
}

/** Draws the number of a reading; to be drawn before its request is sent. */
export async function drawReadNo(db: Kysely<DB>): Promise<number> {
  const { rows } = await sql<{ readNo: number }>`select nextval('sync.read_no') as "readNo"`.execute(db);
  return rows[0]?.readNo as number;
}
