/**
 * The declaration of a stream, and the decoding of its resources into rows. A resource that cannot be decoded is
 * quarantined alone; the others are stored.
 */

import type { OperationName } from '../../../config/operations.ts';
import type { Change } from '../../erp/mirror/feed.ts';
import type { MirrorTables } from '../../erp/mirror/mirror-tables.ts';
import type { AgeColumns } from '../../erp/pull/age.ts';
import type { OpenRow } from '../../erp/pull/open-rows.ts';
import type { CursorPass } from '../../erp/runs/stored-stream.ts';
import type { StreamTransaction } from '../../erp/runs/stream-transaction.ts';
import type { PullContext } from '../run/pull-context.ts';
import type { DecodeResource } from './decode.ts';

/** A type of resource that tables mirror: its name, tables and decoder. */
export interface MirroredResource {
  readonly name: string;
  /** Operation that reads one resource by id; null if the service has none. */
  readonly get: OperationName | null;
  readonly tables: MirrorTables;
  /** Values of `include` for lists and reads. */
  readonly include: readonly string[];
  /** How rescans read it; absent if the service does not list it. */
  readonly rescan?: RescanPlan;
  /** Returns the decoder. @param zone IANA time zone of the client's times without a zone */
  readonly decoder: (zone: string) => DecodeResource;
  /** Writes what follows from changed rows, in the transaction of the reading. Returns the further changes. */
  readonly afterChanges?: (transaction: StreamTransaction, changes: readonly Change[]) => Promise<readonly Change[]>;
}

/** A stream: a type of resource that the service lists. */
export interface Stream extends MirroredResource {
  readonly list: OperationName;
  readonly rescan: RescanPlan;
  readonly passes: Passes;
  /** For rescans: corrects columns of these rows that are filled from other tables. Returns the changes. */
  readonly healDerived?: (transaction: StreamTransaction, ids: readonly number[]) => Promise<readonly Change[]>;
  /**
   * Returns those of the ids unknown to the service that may be marked as unlisted. Without this function, all of them
   * may.
   */
  readonly mayBeGone?: (transaction: StreamTransaction, ids: readonly number[]) => Promise<readonly number[]>;
  /**
   * Table of lines that no relationship lists, and the operation that reads one line, to find out whether it is gone.
   */
  readonly lines?: { readonly table: string; readonly get: OperationName };
  /** Requests what else is to be read again after a refetch. */
  readonly afterRefetch?: (transaction: StreamTransaction, id: number) => Promise<void>;
  /** Runs at the end of a rescan or a refetch. */
  readonly afterRescan?: (context: PullContext) => Promise<void>;
}

/** A resource that `refetch` reads by id: a stream, or a resource that the service does not list. */
export type RefetchableResource = MirroredResource &
  Partial<Pick<Stream, 'healDerived' | 'mayBeGone' | 'afterRefetch' | 'afterRescan'>>;

/** The filter by which a pass limits a list to recent dates. */
export interface DateWindow {
  readonly pass: CursorPass;
  /** Attribute for the list's filter `[gt]`, an exclusive lower date. */
  readonly attribute: string;
  /** Column of the parent row with the date that the filter compares. */
  readonly column: string;
  /** Number of days that the first run looks back; null: to the beginning of the list. */
  readonly firstRunDays: number | null;
}

/** What the passes of a poll have found; undefined if the pass failed or is not declared. */
export interface PassResults {
  readonly open: { readonly ids: ReadonlySet<number>; readonly whole: boolean; readonly readNo: number } | undefined;
  readonly window: { readonly rows: number; readonly whole: boolean } | undefined;
}

/** The passes of a poll (src/sync/paging/poll.ts), in their order. */
interface Passes {
  /** Reads what was added at the end of the list. For lists in ascending order of id. */
  readonly new?: true;
  /** Reads the rows that may still change. */
  readonly open?: {
    /** The documented statuses of rows that still change. */
    readonly statuses: readonly string[];
    readonly closed: string;
  };
  /** Reads the rows with a date after the last poll minus the lookback. */
  readonly window?: DateWindow;
  /**
   * Reads rows that are stored as open but that the list of open rows lacked, in fewer requests than by id. Returns the
   * ids that it found.
   */
  readonly settle?: (context: PullContext, stream: Stream, rows: readonly OpenRow[]) => Promise<ReadonlySet<number>>;
  /** Reads by id what the lists did not show, and what waits for it. */
  readonly rereads?: {
    /** How long a requested reread is repeated: until a read was answered, or until its row is unlisted. */
    readonly until: 'answered' | 'unlisted';
    /** What happens to a stored row that the service does not know by id. */
    readonly absent: 'unlisted' | 'kept';
    /** Finds further ids to read; at most `limit`. */
    readonly findMissing?: (context: PullContext, limit: number | null) => Promise<readonly number[]>;
  };
  /** Runs after the other passes. */
  readonly last?: (context: PullContext, results: PassResults) => Promise<void>;
}

/** How rescans (reconciliation and backfill) read a stream, or a part of it. */
export interface RescanPlan {
  /** Attribute for the list's date filters `[gt]` and `[lt]`; null if no such filter covers all rows. */
  readonly filter: string | null;
  /** Column of the parent that a backfill compares with its days. */
  readonly dayColumn: string;
  /** Date columns of the parent. The earliest date tells whether the list still shows the row. */
  readonly dates: readonly string[];
  /** Date columns that tell when the resource changed. The latest date tells how late a change was found. */
  readonly moved: readonly string[];
  /** Number of days that the list reaches back (docs/interface.md, 5.1 Values); null if it shows everything. */
  readonly horizonDays: number | null;
  /**
   * Number of recent days that every reconciliation reads; it reads older days in slices. Null: it reads the whole list
   * each time.
   */
  readonly recentDays: number | null;
  /** True if the list is documented to be in ascending order of id. */
  readonly sorted: boolean;
}

/** Returns the table and date columns of a stream, for SQL statements about the age of rows. */
export function toAgeColumns({ tables, rescan }: Stream): AgeColumns {
  const windowColumn = rescan.filter === null ? null : rescan.dayColumn;
  const { dates, moved, horizonDays } = rescan;
  return { table: tables.parent.name, windowColumn, dates, moved, horizonDays };
}
