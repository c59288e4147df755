import { type Kysely, sql } from 'kysely';
import type { DB } from '../../db/generated/tables.ts';

/** The part of an order that an event belongs to. */
export type EventSource =
  | 'outbox'
  | 'order'
  | 'line'
  | 'shipment'
  | 'parcel'
  | 'return'
  | 'document';

/** Something that happened to an order. Names, addresses and payloads are not read. */
export interface OrderEvent {
  /** When it happened or was read here. */
  readonly at: Date;
  /** The time that the service gives for it; null if it gives none. */
  readonly serviceAt: Date | null;
  /** True if the service gives only the day. */
  readonly isDay: boolean;
  readonly source: EventSource;
  /**
   * Number of the outbox row, order, line of the order, shipment or return; for a parcel the number
   * of its shipment.
   */
  readonly id: number;
  /** What happened, such as inserted, sent, stored, shipped, status or unlisted. */
  readonly what: string;
  /**
   * The kind of a row, the outcome of an attempt, a quantity, or a status as the service tells it;
   * null if there is none.
   */
  readonly detail: string | null;
  /** Outbox: the reference of the row. Line: its article. Parcel: the number of the package. */
  readonly name: string | null;
  /** Why an attempt failed; null if it did not. */
  readonly error: string | null;
}

/**
 * Reads the latest events of an order, newest first. Under a former number, the order is found by
 * its renames.
 */
export async function readOrderTimeline(
  db: Kysely<DB>,
  client: string,
  number: string,
  limit: number,
): Promise<OrderEvent[]> {
  const { rows } = await sql<OrderEvent>`
    select at, service_at as "serviceAt", is_day as "isDay", source, id, what, detail, name, error
    from fulfilment.order_history(${number}, ${client}) with ordinality as h (
      at, service_at, is_day, source, id, what, detail, name, error, nth)
    order by nth desc
    limit ${limit}`.execute(db);

  return rows;
}
