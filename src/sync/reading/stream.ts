/**
 * What a stream declares, and how its resources become rows. A resource that cannot be decoded is quarantined alone;
 * the others are stored.
 */

import type { Transaction } from 'kysely';
import type { OperationName } from '../../../config/operations.ts';
import type { DB } from '../../erp/generated/tables.ts';
import type { Change } from '../../erp/mirror/feed.ts';
import type { MirrorTables } from '../../erp/mirror/tables.ts';
import type { AgeColumns } from '../../erp/pull/age.ts';
import type { PullContext } from '../run/pull-context.ts';
import type { DecodeResource } from './decode.ts';

/** A kind of resource that tables mirror: what it is called, and how it becomes rows. */
export interface Mirrored {
  readonly name: string;
  /** Null where the service has no read by id. */
  readonly get: OperationName | null;
  readonly tables: MirrorTables;
  /** What reads of it are asked to include. */
  readonly include: readonly string[];
  /** Where it is listed: how it is read whole. */
  readonly rescan?: RescanPlan;
  /** @param zone IANA zone of the client's zone-less times */
  readonly decoder: (zone: string) => DecodeResource;
  /** Follow-up writes for rows a reading changed, in its transaction. */
  readonly afterChanges?: (
    trx: Transaction<DB>,
    client: string,
    changes: readonly Change[],
  ) => Promise<readonly Change[]>;
}

/** One stream: a kind of resource that is listed, and how every change of it is found. */
export interface Stream extends Mirrored {
  readonly list: OperationName;
  readonly rescan: RescanPlan;
  /** For rescans: puts columns right that are filled from elsewhere, for these rows. */
  readonly healDerived?: (trx: Transaction<DB>, client: string, ids: readonly number[]) => Promise<readonly Change[]>;
  /** Of ids that the service said it does not know, those that may be taken for gone; all where it is not given. */
  readonly mayBeGone?: (trx: Transaction<DB>, client: string, ids: readonly number[]) => Promise<readonly number[]>;
  /** Lines that no relationship lists, and the operation that reads one: so it is told whether one is gone. */
  readonly lines?: { readonly table: string; readonly get: OperationName };
  /** Runs after a rescan. */
  readonly afterWalk?: (context: PullContext) => Promise<void>;
}

/** How a stream is read whole, or a span of it (reconcile and backfill). */
export interface RescanPlan {
  /** Attribute whose `[gt]` and `[lt]` the list is filtered by; null where it has no such filter over all its rows. */
  readonly filter: string | null;
  /** Column of the parent whose day bounds a backfill. */
  readonly dayColumn: string;
  /** Dates of the parent: by the earliest it is told whether the list still shows the row. */
  readonly dates: readonly string[];
  /** Those of them that tell when it moved: by the latest it is told how late a change was found. */
  readonly moved: readonly string[];
  /** Days that the list reaches back (interface.md, Limits); null where it shows everything. */
  readonly horizonDays: number | null;
  /** Days that every reconciliation reads; older ones in slices. Null: the whole list each time. */
  readonly recentDays: number | null;
  /** Whether the list is said to be in ascending order of id. */
  readonly sorted: boolean;
}

/** The stream's table and dates, as SQL wants them. */
export function ageColumns({ tables, rescan }: Stream): AgeColumns {
  const windowColumn = rescan.filter === null ? null : rescan.dayColumn;
  const { dates, moved, horizonDays } = rescan;
  return { table: tables.parent.name, windowColumn, dates, moved, horizonDays };
}
