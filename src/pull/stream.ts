/**
 * The declaration of a stream. Its tables and its decoder follow from the fields of its resources.
 * A resource that cannot be decoded is quarantined alone; the others are stored.
 */

import type { OperationName } from '../../config/operations.ts';
import { isObject, type Json } from '../core/json.ts';
import { newShare, type RunContext } from '../schedule/run.ts';
import {
  decodeRow,
  type Erasing,
  type ResourceFields,
  toColumn,
} from '../service/decoding/fields.ts';
import {
  type Children,
  findChildren,
  type IncludedIndex,
  type Resource,
  readId,
} from '../service/decoding/jsonapi.ts';
import type { DecodedResource, DecodeResource } from './decode.ts';
import type { AgeColumns } from './sql/age.ts';
import type { Change } from './sql/feed.ts';
import type {
  ChildTable,
  Comparison,
  Family,
  MirrorRow,
  MirrorTable,
  MirrorTables,
} from './sql/mirror-tables.ts';
import type { OpenKind } from './sql/open-rows.ts';
import type { Rescan } from './sql/rescans.ts';
import type { StreamTransaction } from './sql/stream-transaction.ts';

/** How the resources of a stream become rows. */
interface ResourceDeclaration {
  readonly table: string;
  readonly fields: ResourceFields;
  readonly children: readonly ChildDeclaration[];
  /** True if erasing an order masks these rows and `raw`. */
  readonly erasedWithOrders: boolean;
  /**
   * Warning about a resource that came without all resources that it links to; absent if that is
   * usual.
   */
  readonly incomplete?: string;
  /** An included resource that a column of the parent keeps whole. */
  readonly kept?: KeptResource;
}

/** Included resources that become rows of a table of their own. */
export interface ChildDeclaration {
  readonly table: string;
  readonly fields: ResourceFields;
  /** Column with the id of the parent. */
  readonly parentColumn: string;
  /** Relationship of the parent to one or to many; null if no relationship lists them. */
  readonly listedIn: string | null;
  /** Values of further columns. */
  readonly constants?: Readonly<Record<string, string>>;
  /** Key columns beside the client; default: `id`. */
  readonly key?: readonly string[];
  /** False if a stored row stays although a complete answer lacks it. */
  readonly removes?: false;
}

/** A resource, linked by a relationship, that a jsonb column keeps. */
interface KeptResource {
  readonly relationship: string;
  readonly column: string;
  /** Column whose change makes the stored value obsolete. */
  readonly dependsOn: string;
  readonly erasing: Erasing;
}

/** A type of resource that tables mirror: its name, tables and decoder. */
export interface MirroredResource {
  readonly name: string;
  /** Operation that reads one resource by id; null if the service has none. */
  readonly get: OperationName | null;
  /** Values of `include` for lists and reads. */
  readonly include: readonly string[];
  readonly resource: ResourceDeclaration;
  readonly tables: MirrorTables;
  /**
   * Returns the decoder.
   * @param zone IANA time zone of the client's times without a zone
   */
  readonly decoder: (zone: string) => DecodeResource;
  /** How rescans read it; absent if the service does not list it. */
  readonly rescan?: RescanPlan;
  /**
   * Writes what follows from changed rows, in the transaction of the reading.
   * @param ids the ids of the rows
   */
  readonly afterChanges?: (transaction: StreamTransaction, ids: readonly number[]) => Promise<void>;
  /**
   * Returns those of the ids unknown to the service that may be marked as unlisted; absent: all
   * may.
   */
  readonly mayBeGone?: (
    transaction: StreamTransaction,
    ids: readonly number[],
  ) => Promise<readonly number[]>;
}

/** A stream: a type of resource that the service lists. */
export interface Stream extends MirroredResource {
  readonly list: OperationName;
  readonly rescan: RescanPlan;
  /** Polls the stream: makes its passes one after the other. */
  readonly poll: (context: StreamContext, pass: MakePass) => Promise<void>;
  /** The statuses of its rows, if they tell which rows may still change; else absent. */
  readonly open?: OpenStatuses;
  /**
   * Checks the lines of families that a rescan read with all their lines, if no relationship lists
   * lines.
   * @param pages number of list pages that the families come from
   */
  readonly checkLines?: (
    context: RescanContext,
    families: readonly Family[],
    pages: number,
  ) => Promise<void>;
}

/** The documented statuses of rows that still change, and that of rows that do not. */
interface OpenStatuses {
  readonly statuses: readonly string[];
  readonly closed: string;
}

/**
 * Makes one pass of a poll. A pass whose page cannot be read fails alone, because the other passes
 * read other pages: it returns null then, and the poll fails at its end.
 */
export type MakePass = <T>(pass: () => Promise<T>) => Promise<T | null>;

/** The context of a run that reads a stream, or another resource. */
export interface PullContext<Of extends MirroredResource = MirroredResource> extends RunContext {
  readonly stream: Of;
  /** Polls compare `raw` with the tables, rescans every column. */
  readonly compare: Comparison;
  /** Receives the progress of a rescan. Polls do not call it. */
  readonly onProgress?: (rescan: Rescan) => void;
}

/** The context of a rescan. Its progress changes with each commit. */
export interface RescanContext extends StreamContext {
  readonly progress: { rescan: Rescan };
}

/** The context of a run that reads a stream. */
export type StreamContext = PullContext<Stream>;

/** Returns the context of a poll. */
export const toPullContext = <Of extends MirroredResource>(
  context: RunContext,
  stream: Of,
): PullContext<Of> => ({ ...context, stream, compare: 'raw' });

/**
 * Returns the context for the rescan of one stream. It compares every column, to find damage in our
 * tables too.
 */
export const toRescanContext = <Of extends MirroredResource>(
  context: RunContext,
  stream: Of,
): PullContext<Of> => ({
  ...context,
  stream,
  compare: 'columns',
  state: { ...context.state, share: newShare() },
});

/** How rescans (reconciliation and backfill) read a stream, or a part of it. */
export interface RescanPlan {
  /**
   * Attribute for the list's date filters `[gt]` and `[lt]`; null if no such filter covers all
   * rows.
   */
  readonly filter: string | null;
  /** Column of the parent that a backfill compares with its days. */
  readonly dayColumn: string;
  /** Date columns of the parent. The earliest date tells whether the list still shows the row. */
  readonly dates: readonly string[];
  /**
   * Date columns that tell when the resource changed. The latest date tells how late a change was
   * found.
   */
  readonly moved: readonly string[];
  /**
   * Number of days that the list reaches back (docs/interface.md, 5.1 Values); null if it shows
   * everything.
   */
  readonly horizonDays: number | null;
  /**
   * Number of recent days that each reconciliation reads; older days in slices. Null: it reads the
   * whole list.
   */
  readonly recentDays: number | null;
  /** True if the list is documented to be in ascending order of id. */
  readonly sorted: boolean;
}

/** Declares a stream, or a resource that the service does not list. */
export function declareStream<Of extends MirroredResource>(
  declared: Omit<Of, 'tables' | 'decoder'>,
): Of {
  const { resource } = declared as Pick<Of, 'resource'>;
  const decoder = (zone: string) => (received: Resource, onTop: IncludedIndex) =>
    decodeFamily(resource, received, onTop, zone);
  return { ...declared, tables: makeTables(resource), decoder } as unknown as Of;
}

function makeTables({ table, fields, kept, children }: ResourceDeclaration): MirrorTables {
  const parent: MirrorTable = { name: table, columns: listColumns(fields) };
  const derived = kept && { [kept.column]: { type: 'jsonb', dependsOn: kept.dependsOn } };
  const tables = children.map(
    ({ table: name, fields: ofChild, parentColumn, constants = {}, key }): ChildTable => {
      const own = Object.keys(constants).map((column) => [column, 'text']);
      const columns = {
        [parentColumn]: 'bigint',
        ...Object.fromEntries(own),
        ...listColumns(ofChild),
      };
      return { name, columns, parentColumn, ...(key && { key }) };
    },
  );
  const byName = new Map(tables.map((child) => [child.name, child]));
  return { parent: { ...parent, ...(derived && { derived }) }, children: [...byName.values()] };
}

const listColumns = ({ columns }: ResourceFields): Readonly<Record<string, string>> =>
  Object.fromEntries(
    columns.flatMap(({ column, field: { sql } }) => (sql === null ? [] : [[column, sql]])),
  );

/** Decodes a resource and its included resources into the rows of a family. */
function decodeFamily(
  declaration: ResourceDeclaration,
  resource: Resource,
  onTop: IncludedIndex,
  zone: string,
): DecodedResource {
  const read = decodeRow(declaration.fields, resource, zone);
  if ('problem' in read) return read;
  const { row } = read;
  const children: Family['children'][number][] = [];
  let isComplete = true;
  for (const child of declaration.children) {
    const found = findChildren(
      resource,
      child.fields.type,
      findListedIds(declaration.fields, child, row),
      onTop,
    );
    const decoded = decodeChildren(child, row.id, found, zone);
    if ('problem' in decoded) return decoded;
    isComplete &&= found.complete;
    children.push({
      table: child.table,
      rows: decoded.rows,
      complete: found.complete && child.removes !== false,
    });
  }
  const parent = { ...row, raw: withoutIncluded(resource) };
  const { kept, incomplete } = declaration;
  const found = kept && findKept(kept, resource, onTop);
  if (kept !== undefined && found === undefined) isComplete = false;
  const family = { parent: kept ? { ...parent, [kept.column]: found ?? null } : parent, children };
  const warning = isComplete || incomplete === undefined ? {} : { warning: incomplete };
  return { family, ...warning };
}

/** Returns the ids of the children that the parent lists; null if it does not list them. */
function findListedIds(
  { relationships }: ResourceFields,
  { listedIn }: ChildDeclaration,
  row: MirrorRow,
): readonly number[] | null {
  if (listedIn === null) return null;
  if (relationships[listedIn]?.sql === null)
    return row[`${toColumn(listedIn)}_ids`] as readonly number[] | null;
  const id = row[`${toColumn(listedIn)}_id`] as number | null;
  return id === null ? [] : [id];
}

/**
 * Decodes the resources that belong to a parent, each into a row of the child table. If one cannot
 * be decoded, returns its problem: then the whole parent is quarantined, so that no incomplete
 * resource is stored. The path names the child.
 */
function decodeChildren(
  { fields, parentColumn, constants }: ChildDeclaration,
  parentId: number,
  { resources }: Children,
  zone: string,
):
  | { readonly rows: readonly MirrorRow[] }
  | Extract<DecodedResource, { readonly problem: unknown }> {
  const rows: MirrorRow[] = [];
  for (const resource of resources) {
    const read = decodeRow(fields, resource, zone);
    if ('problem' in read) {
      const id = readId(resource) ?? 'without id';
      const path = `included.${fields.type}.${id}.${read.problem.path}`;
      return { problem: { ...read.problem, path } };
    }
    rows.push({ ...read.row, [parentColumn]: parentId, ...constants });
  }
  return { rows };
}

/**
 * Returns the resource that a column keeps, null if none is linked, or undefined if it was not
 * included. One without an id can only be in the `included` of its parent.
 */
function findKept(
  { relationship }: KeptResource,
  resource: Resource,
  onTop: IncludedIndex,
): Json | undefined {
  const link = isObject(resource.relationships) ? resource.relationships[relationship] : null;
  const data = isObject(link) ? link.data : null;
  if (data === null || data === undefined) return null;
  const id = readId(data);
  return findChildren(resource, relationship, id === null ? null : [id], onTop).resources[0];
}

/** Returns a resource without its `included`, whose resources are stored as rows. */
function withoutIncluded(resource: Resource): Resource {
  if (!('included' in resource)) return resource;
  const { included: _included, ...rest } = resource;
  return rest;
}

/**
 * Returns what tells the open rows of a stream.
 * @throws TypeError if no status tells them
 */
export function toOpenKind({ name, tables, open }: Stream): OpenKind {
  if (open === undefined) throw new TypeError(`${name} has no open rows`);
  return { table: tables.parent.name, stream: name, open: open.statuses, closed: open.closed };
}

/** Returns the ids of the parents that an upsert wrote. */
export const findChangedIds = (
  { tables }: MirroredResource,
  changes: readonly Change[],
): number[] =>
  changes.filter(({ entity }) => entity === tables.parent.name).map(({ id }) => id as number);

/** Returns the table and date columns of a stream, for SQL statements about the age of rows. */
export function toAgeColumns({ tables, rescan }: Stream): AgeColumns {
  const windowColumn = rescan.filter === null ? null : rescan.dayColumn;
  const { dates, moved, horizonDays } = rescan;
  return { table: tables.parent.name, windowColumn, dates, moved, horizonDays };
}
