/**
 * The declaration of a stream. Its tables and its decoder follow from the fields of its resources.
 */

import type { OperationName } from '../../config/operations.ts';
import { newShare, type RunContext } from '../schedule/run.ts';
import { type ResourceFields, toColumn } from '../service/decoding/fields.ts';
import {
  type ChildDeclaration,
  type DecodeResource,
  makeDecoder,
  type ResourceDeclaration,
} from './decode.ts';
import type {
  ChildTable,
  ColumnTypes,
  Comparison,
  MirrorTable,
  MirrorTables,
  PersonalColumns,
  ResourceRows,
} from './sql/mirror-tables.ts';
import type { Rescan } from './sql/rescans.ts';
import type { StreamTransaction } from './sql/stream-transaction.ts';
import type { ListedTable } from './sql/unlisted.ts';

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
  const { resource } = declared;
  return { ...declared, tables: makeTables(resource), decoder: makeDecoder(resource) };
}

function makeTables(resource: ResourceDeclaration): MirrorTables {
  const { table: name, fields, kept, children, erasedWithOrders } = resource;
  const column = kept === undefined ? null : toColumn(kept);
  const findPersonal = (of: ResourceFields, keptColumn: PersonalColumns = {}) =>
    erasedWithOrders
      ? { personal: { ...listPersonal(of), ...keptColumn, raw: 'mask' as const } }
      : {};

  const parent: MirrorTable = {
    name,
    key: ['id'],
    columns: toTypes({ id: 'bigint' }, fields, column === null ? {} : { [column]: 'jsonb' }),
    since: 'unlisted_since',
    ...findPersonal(fields, column === null ? {} : { [column]: 'null' }),
    ...(column !== null &&
      kept !== undefined && { kept: { column, id: `${column}_id`, relationship: kept } }),
  };

  // Several roles share a table.
  const tables = new Map(
    children.map((child) => [
      child.table,
      { ...makeChildTable(child), ...findPersonal(child.fields) },
    ]),
  );
  return { parent, children: [...tables.values()] };
}

/** Returns the columns of fields that hold personal data. */
const listPersonal = ({ columns }: ResourceFields): PersonalColumns =>
  Object.fromEntries(
    columns.flatMap(({ column, field: { erasing } }) =>
      erasing === undefined ? [] : [[column, erasing] as const],
    ),
  );

function makeChildTable({ table: name, fields, parentColumn, role }: ChildDeclaration): ChildTable {
  const ids = { id: 'bigint', [parentColumn]: 'bigint' };

  return role === undefined
    ? {
        ...{ name, parentColumn, columns: toTypes(ids, fields) },
        ...{ key: ['id'], since: 'unlisted_since' },
      }
    : {
        ...{ name, parentColumn, columns: toTypes({ ...ids, role: 'text' }, fields) },
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
