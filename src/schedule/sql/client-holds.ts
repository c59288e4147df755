/** The hold of a client, as runs see it: the facts for their start, and what their end says. */

import { sql, type Transaction } from 'kysely';
import type { Failure } from '../../core/errors.ts';
import type { DB } from '../../db/generated/tables.ts';
import type { ClientHold } from '../../service/health/client-hold.ts';

/** Milliseconds that a probe has for its answer, before another run becomes the probe. */
const probeMs = 60_000;

/**
 * SQL: the hold of the client of the row `c` of sync.clients, as JSON of HoldFacts; null if the
 * client has none.
 */
export const readClientHold = sql`
  case when c.hold_code is not null then json_build_object('reason', c.hold_reason,
    'until', c.hold_until, 'isOver', c.hold_until <= clock_timestamp()) end`;

/** SQL: true if the hold of the row `c` of sync.clients keeps scheduled runs from beginning. */
export const isHeld = sql<boolean>`(c.hold_code is not null and c.hold_until > clock_timestamp())`;

/**
 * Makes a run the probe of its client's hold.
 * @returns false if another run is the probe, or the hold is over
 */
export async function takeProbe(trx: Transaction<DB>, client: string): Promise<boolean> {
  const { numUpdatedRows } = await trx
    .updateTable('sync.clients')
    .set({ hold_until: sql<Date>`clock_timestamp() + make_interval(secs => ${probeMs / 1_000})` })
    .where('client', '=', client)
    .where('hold_code', 'is not', null)
    .where('hold_until', '<=', sql<Date>`clock_timestamp()`)
    .executeTakeFirst();
  return numUpdatedRows > 0n;
}

/** What a run that ends tells about the service. */
export interface RunEvidence {
  readonly client: string;
  readonly startedAt: Date;
  readonly wasHeld: boolean;
  readonly isProbe: boolean;
  readonly status: 'done' | 'failed' | 'stopped' | 'skipped';
  /** The hold that its failure places on the client; null if it places none. */
  readonly hold: ClientHold | null;
  /** Its failure; null if there is none. */
  readonly cause: Failure | null;
}

/** Returns true if the end of a run can change the hold of its client. */
export const changesHold = ({ wasHeld, isProbe, hold }: RunEvidence) =>
  wasHeld || isProbe || hold !== null;

/** Begins, lengthens or ends the hold of a client, by what a run has met. */
export async function noteRunEvidence(trx: Transaction<DB>, evidence: RunEvidence): Promise<void> {
  const { client, startedAt, wasHeld, isProbe, status, hold, cause } = evidence;
  const update = trx.updateTable('sync.clients').where('client', '=', client);
  const now = sql<Date>`clock_timestamp()`;

  if (hold !== null) {
    const { firstMs, longestMs } = hold.pause;
    await update
      .set({
        hold_code: hold.code,
        hold_reason: cause?.words ?? null,
        hold_error_code: cause?.code ?? null,
        hold_http_status: cause?.httpStatus ?? null,
        hold_operation: cause?.operation ?? null,
        hold_since: sql<Date>`coalesce(hold_since, ${now})`,
        hold_times: sql<number>`hold_times + 1`,
        hold_until: sql<Date>`${now} + least(${longestMs}::float8,
          ${firstMs}::float8 * power(2, least(hold_times, 10))) * interval '1 millisecond'`,
      })
      // Only the probe makes a hold longer.
      .$if(!isProbe, (query) => query.where('hold_code', 'is', null))
      .execute();
  } else if (wasHeld && (status === 'done' || (status === 'failed' && isProbe))) {
    // A probe that failed for another reason still got an answer of the service.
    await update
      .set({
        ...{ hold_code: null, hold_reason: null, hold_since: null, hold_until: null },
        ...{ hold_error_code: null, hold_http_status: null, hold_operation: null },
        hold_times: 0,
      })
      .where('hold_since', '<=', startedAt)
      .execute();
  } else if (isProbe) {
    await returnProbe(trx, client);
  }
}

/** Lets another run become the probe, because this one has asked nothing. */
export async function returnProbe(trx: Transaction<DB>, client: string): Promise<void> {
  await trx
    .updateTable('sync.clients')
    .set({ hold_until: sql<Date>`clock_timestamp()` })
    .where('client', '=', client)
    .where('hold_code', 'is not', null)
    .execute();
}
