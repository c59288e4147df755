/**
 * The declaration of a stream. Its tables and its decoder follow from the fields of its resources.
 * A resource that cannot be decoded is quarantined alone; the others are stored.
 */

import type { OperationName } from '../../config/operations.ts';
import { isObject, type Json } from '../core/json.ts';
import { newShare, type RunContext } from '../schedule/run.ts';
import { decodeRow, type ResourceFields, toColumn } from '../service/decoding/fields.ts';
import {
  findChildren,
  type IncludedIndex,
  type Resource,
  readId,
} from '../service/decoding/jsonapi.ts';
import type { DecodedResource, DecodeResource } from './decode.ts';
import type { Change } from './sql/feed.ts';
import type {
  ChildTable,
  ColumnTypes,
  Comparison,
  MirrorRow,
  MirrorTable,
  MirrorTables,
  ResourceRows,
} from './sql/mirror-tables.ts';
import type { Rescan } from './sql/rescans.ts';
import type { StreamTransaction } from './sql/stream-transaction.ts';
import type { ListedTable } from './sql/unlisted.ts';

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
  /**
   * Relationship whose included resource a jsonb column of the parent keeps whole: `pickUpPoint` is
   * kept in `pick_up_point`, beside its id in `pick_up_point_id`.
   */
  readonly kept?: string;
}

/** Included resources that become rows of a table of their own. */
export interface ChildDeclaration {
  readonly table: string;
  readonly fields: ResourceFields;
  /** Column with the id of the parent. */
  readonly parentColumn: string;
  /** Relationship of the parent to one or to many; null if no relationship lists them. */
  readonly listedIn: string | null;
  /**
   * Role in which the parent links to one resource, which may have several roles. The key is then
   * the parent with the role, and an answer without the resource proves nothing.
   */
  readonly role?: string;
}

/** A type of resource that tables mirror: its name, tables and decoder. */
export interface MirroredResource {
  readonly name: string;
  /** Operation that reads one resource by id; null if the service has none. */
  readonly get: OperationName | null;
  /** Column without which the service does not return a resource by id; default: none. */
  readonly readableWith?: string;
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
}

/** A stream: a type of resource that the service lists. */
export interface Stream extends MirroredResource {
  readonly list: OperationName;
  readonly rescan: RescanPlan;
  /** Polls the stream: makes its passes one after the other. */
  readonly poll: (context: StreamContext, pass: MakePass) => Promise<void>;
  /**
   * Checks the lines of resources that a rescan read with all their lines, if no relationship lists
   * lines.
   * @param pages number of list pages that the resources come from
   */
  readonly checkLines?: (
    context: RescanContext,
    resources: readonly ResourceRows[],
    pages: number,
  ) => Promise<void>;
}

/**
 * Makes one pass of a poll. A pass whose page cannot be read fails alone, because the other passes
 * read other pages: it returns null then, and the poll fails at its end.
 */
export type MakePass = <T>(pass: () => Promise<T>) => Promise<T | null>;

/** How rescans (reconciliation and backfill) read a stream, or a part of it. */
export interface RescanPlan extends ListedTable {
  /**
   * Number of recent days that each reconciliation reads; older days in slices. Null: it reads the
   * whole list.
   */
  readonly recentDays: number | null;
  /** True if the list is documented to be in ascending order of id. */
  readonly sorted: boolean;
}

/** The context of a run that reads a stream, or another resource. */
export interface PullContext<Of extends MirroredResource = MirroredResource> extends RunContext {
  readonly stream: Of;
  /** Polls compare `raw` with the tables, rescans every column. */
  readonly compare: Comparison;
  /** Receives the progress of a rescan. Polls do not call it. */
  readonly onProgress?: (rescan: Rescan) => void;
}

/** The context of a run that reads a stream. */
export type StreamContext = PullContext<Stream>;

/** The context of a rescan. Its progress changes with each commit. */
export interface RescanContext extends StreamContext {
  readonly progress: { rescan: Rescan };
}

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

/**
 * Declares a stream, or a resource that the service does not list. Its tables and its decoder
 * follow from the fields.
 */
export function declareStream<Of extends MirroredResource>(
  declared: Omit<Of, 'tables' | 'decoder'> & Pick<MirroredResource, 'resource'>,
): Omit<Of, 'tables' | 'decoder'> & Pick<MirroredResource, 'tables' | 'decoder'> {
  const decode = makeDecoder(declared.resource);

  return {
    ...declared,
    tables: makeTables(declared.resource),
    decoder: (zone: string) => (received: Resource, onTop: IncludedIndex) =>
      decode(received, onTop, zone),
  };
}

function makeTables({ table: name, fields, kept, children }: ResourceDeclaration): MirrorTables {
  const column = kept === undefined ? null : toColumn(kept);
  const parent: MirrorTable = {
    name,
    key: ['id'],
    columns: toTypes({ id: 'bigint' }, fields, column === null ? {} : { [column]: 'jsonb' }),
    telling: ['raw'],
    since: 'unlisted_since',
    ...(column !== null && { kept: { column, id: `${column}_id` } }),
  };

  // Several roles share a table.
  const tables = new Map(children.map((child) => [child.table, makeChildTable(child)]));
  return { parent, children: [...tables.values()] };
}

function makeChildTable({ table: name, fields, parentColumn, role }: ChildDeclaration): ChildTable {
  const ids = { id: 'bigint', [parentColumn]: 'bigint' };
  const telling = [parentColumn, 'raw'];

  return role === undefined
    ? {
        ...{ name, parentColumn, telling, columns: toTypes(ids, fields) },
        ...{ key: ['id'], since: 'unlisted_since' },
      }
    : {
        ...{ name, parentColumn, telling, columns: toTypes({ ...ids, role: 'text' }, fields) },
        ...{ key: [parentColumn, 'role'], since: null },
      };
}

/** Returns the SQL types of the columns of a table: its keys, the fields, further ones, and raw. */
function toTypes(keys: ColumnTypes, { columns }: ResourceFields, more: ColumnTypes = {}) {
  const own = columns.flatMap(({ column, field: { sql } }) =>
    sql === null ? [] : [[column, sql]],
  );
  return { ...keys, ...Object.fromEntries(own), ...more, raw: 'jsonb' };
}

/** Makes the function that decodes a resource and its included resources into rows. */
function makeDecoder({ fields, children: declared, kept, incomplete }: ResourceDeclaration) {
  const childReaders = declared.map((child) => ({
    child,
    readIds: makeLinkReader(fields, child.listedIn),
  }));

  return (resource: Resource, onTop: IncludedIndex, zone: string): DecodedResource => {
    const read = decodeRow(fields, resource, zone);
    if ('problem' in read) return read;
    const { row } = read;

    const children: ResourceRows['children'][number][] = [];
    let isComplete = true;
    for (const { child, readIds } of childReaders) {
      const found = findChildren(resource, child.fields.type, readIds(row), onTop);
      const decoded = decodeChildren(child, row.id, found.resources, zone);
      if ('problem' in decoded) return decoded;

      isComplete &&= found.complete;
      const complete = found.complete && child.role === undefined;
      children.push({ table: child.table, rows: decoded.rows, complete });
    }

    const parent = { ...row, raw: withoutIncluded(resource) };
    const whole = kept === undefined ? null : findKept(kept, resource, onTop);
    if (kept !== undefined) Object.assign(parent, { [toColumn(kept)]: whole ?? null });
    isComplete &&= whole !== undefined;

    const warning = isComplete || incomplete === undefined ? {} : { warning: incomplete };
    return { parent, children, ...warning };
  };
}

/**
 * Makes the function that reads the ids to which a row links by a relationship to one or to many;
 * null if the row does not list them.
 */
function makeLinkReader({ columns }: ResourceFields, relationship: string | null) {
  const link = columns.find(({ member }) => member === relationship);

  return (row: MirrorRow): readonly number[] | null => {
    const value = link === undefined ? null : (row[link.column] ?? null);
    if (value === null) return link === undefined || link.field.sql === null ? null : [];
    return Array.isArray(value) ? value : [value as number];
  };
}

/**
 * Decodes the resources that belong to a parent, each into a row of the child table. If one cannot
 * be decoded, returns its problem: then the whole parent is quarantined, so that no incomplete
 * resource is stored. The path names the child.
 */
function decodeChildren(
  { fields, parentColumn, role }: ChildDeclaration,
  parentId: number,
  resources: readonly Resource[],
  zone: string,
):
  | { readonly rows: readonly MirrorRow[] }
  | Extract<DecodedResource, { readonly problem: unknown }> {
  const links = { [parentColumn]: parentId, ...(role !== undefined && { role }) };
  const rows: MirrorRow[] = [];

  for (const resource of resources) {
    const read = decodeRow(fields, resource, zone);
    if ('problem' in read) {
      const id = readId(resource) ?? 'without id';
      const path = `included.${fields.type}.${id}.${read.problem.path}`;
      return { problem: { ...read.problem, path } };
    }
    rows.push({ ...read.row, ...links });
  }

  return { rows };
}

/**
 * Returns the resource that a column keeps, null if none is linked, or undefined if it was not
 * included. One without an id can only be in the `included` of its parent.
 */
function findKept(
  relationship: string,
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

/** Returns the ids of the parents that an upsert wrote. */
export const findChangedIds = (
  { tables }: MirroredResource,
  changes: readonly Change[],
): number[] =>
  changes.filter(({ entity }) => entity === tables.parent.name).map(({ id }) => id as number);
