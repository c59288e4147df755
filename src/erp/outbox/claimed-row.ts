import { sql } from 'kysely';

/** A row that this process may send now. */
export interface ClaimedRow {
  readonly id: number;
  readonly client: string;
  readonly kind: string;
  readonly reference: string;
  /** JSON text, with every digit. */
  readonly payload: string;
  /** Number of attempts, including this one. */
  readonly attempts: number;
  /** Number of attempts that count for PUSH_MAX_ATTEMPTS, including this one. */
  readonly countedAttempts: number;
  readonly ageMs: number;
  /** Number of attempts since the last one that counted that failed for reasons outside this row. */
  readonly refusedForOthers: number;
  /** Due time of the row. It is restored when the claim is given back. */
  readonly dueAt: string;
  /** Claim number, drawn before any request. Settlements and readings are recognised by it. */
  readonly claimNo: number;
  /** True if the claim itself recorded that the request may be written. */
  readonly stamped: boolean;
  /** True if the service may have carried out an earlier attempt. */
  readonly maybeCarriedOut: boolean;
  /** True if two look-ups since that attempt did not find the row at the service. */
  readonly cleared: boolean;
  /** Id of the order or the announced return that the tables hold for the reference. */
  readonly knownId: number | null;
  /** Number of orders or announced returns that the tables hold for the reference. */
  readonly knownCount: number;
}

/** A row that a claim returns: a claimed row with the counts of the claim, or only the counts if nothing was claimed. */
export interface ReadRow extends Omit<ClaimedRow, 'id'> {
  readonly id: number | null;
  readonly seen: number;
  readonly putOff: number;
}

/** SQL: the columns of `ReadRow`, of a claimed outbox row `c`. */
export const claimedColumns = sql`c.id, c.client, c.kind, c.reference, c.payload::text as payload, c.attempts,
      c.attempts - c.bounded_attempts as "countedAttempts", c.claim_no as "claimNo",
      c.refused_for_others as "refusedForOthers", c.due_at::text as "dueAt",
      extract(epoch from statement_timestamp() - c.bounded_from)::float8 * 1000 as "ageMs",
      c.sent_at is not null as stamped, c.written_at is not null as "maybeCarriedOut", c.absences >= 2 as cleared,
      known.id as "knownId", known.count as "knownCount"`;

/**
 * SQL: what the tables hold for the reference of a row. `count` beside `max` keeps Postgres from walking through all
 * ids of the client, from the largest.
 */
export const selectKnown = sql`
      select max(k.id) as id, count(*)::int as count
      from (
        select r.id
        from fulfilment.orders r
        where c.family = 'order' and r.client = c.client and r.external_order_number = c.reference
          and r.unlisted_since is null
        union all
        select r.id
        from fulfilment.return_merchandise_authorizations r
        where c.family = 'return' and r.client = c.client and r.external_reference = c.reference
          and r.unlisted_since is null
      ) k`;
