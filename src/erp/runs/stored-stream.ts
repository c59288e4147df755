/**
 * The state of a stream that its polls keep: how fresh it is, and where the walks over its lists are.
 */

/** A pass of a stream by date, with a separate cursor. */
export type DatePass = 'placed' | 'processed' | 'completed';

/**
 * A walk with a separate cursor: a pass of a stream (docs/architecture.md lists them), or one part of a first load that
 * is read in parts, with its days: `placed 2026-01-01 2026-02-01`.
 */
export type CursorPass = 'new' | DatePass | `${DatePass} ${string}`;

/** The meaning of `page[cursor]`, as observed at this service (docs/interface.md, 2.6 Not shown). */
export type CursorMeaning = 'unknown' | 'id' | 'offset' | 'opaque';

/** The stored place of one walk over a list. */
export interface Cursor {
  /** Query of the last page that held rows. */
  readonly query: string | null;
  readonly meaning: CursorMeaning;
  readonly lastId: number | null;
  /** Largest date seen in the walk that is under way, YYYY-MM-DD. */
  readonly largestSeen: string | null;
  /** Largest date seen in a completed walk, YYYY-MM-DD. */
  readonly watermark: string | null;
  readonly completed: boolean;
  /** True if the cursor last moved more than a day ago. */
  readonly stale: boolean;
}

/** What was stored of a stream when a poll of it began. */
export interface StoredStream {
  /** Start of the last complete poll, by the service's clock; null before the first. */
  readonly completeAt: Date | null;
  /** Number of resources that a poll usually reads; null until a poll after the first one has read some. */
  readonly usualFetched: number | null;
  /** The stored cursors. A pass that never ran has none. */
  readonly cursors: ReadonlyMap<CursorPass, Cursor>;
  /** True if a resource waits to be reread, or is in quarantine. */
  readonly isWaiting: boolean;
}
