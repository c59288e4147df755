import { type Kysely, type RawBuilder, sql } from 'kysely';
import type { Json } from '../../core/json.ts';
import type { DB } from '../../db/generated/tables.ts';
import { unfinishedStatuses } from './lanes.ts';

/** All states. Those that may need a person come first. */
export const outboxStatuses = [
  'dead',
  'unknown',
  'pending',
  'sending',
  'done',
  'cancelled',
] as const;

/** Groups of rows by who has to do something: a person, the workers, or nobody any more. */
export const outboxGroups = ['needs you', 'waiting', 'done'] as const;

/** The rows that a command applies to. */
export interface OutboxFilter {
  readonly ids?: readonly number[];
  /** Only rows that are neither done nor cancelled. */
  readonly open?: boolean;
  readonly group?: (typeof outboxGroups)[number];
  readonly client?: string;
  readonly status?: string;
  readonly kind?: string;
  readonly reference?: string;
  /** Part of last_error. */
  readonly error?: string;
  /** Only rows with (true) or without (false) a time for the next attempt or look-up. */
  readonly dated?: boolean;
}

/** A row as lists show it to operators. */
export interface OutboxSummary {
  readonly id: number;
  readonly client: string;
  readonly kind: string;
  readonly reference: string;
  readonly status: string;
  readonly attempts: number;
  readonly nextAttemptAt: Date | null;
  /** Time before which the ERP does not want it to be sent; null if there is none. */
  readonly notBefore: Date | null;
  readonly createdAt: Date;
  readonly finishedAt: Date | null;
  /** Why the row is not done: its last error, or the row of its lane that comes first. */
  readonly because: string | null;
  /** Row that comes first; null if there is none. */
  readonly waitsFor: number | null;
}

/** SQL: the rows of each group. A row of unknown outcome without a due time is undecided. */
const inGroup = {
  'needs you': sql`o.status in ('dead', 'unknown')
    and (o.status = 'dead' or o.next_attempt_at is null)`,
  waiting: sql`o.status in ('pending', 'sending', 'unknown')
    and (o.status <> 'unknown' or o.next_attempt_at is not null)`,
  done: sql`o.status in ('done', 'cancelled')`,
} as const;

/** SQL: the condition on `o` (fulfilment.outbox) that a filter describes. */
export function toCondition({
  ids,
  open,
  group,
  client,
  status,
  kind,
  reference,
  error,
  dated,
}: OutboxFilter): RawBuilder<unknown> {
  const all = [
    ids === undefined ? null : sql`o.id = any(${ids}::bigint[])`,
    open ? sql`o.status in ${unfinishedStatuses}` : null,
    group === undefined ? null : inGroup[group],
    client === undefined ? null : sql`o.client = ${client}`,
    status === undefined ? null : sql`o.status = ${status}`,
    kind === undefined ? null : sql`o.kind = ${kind}`,
    reference === undefined ? null : sql`o.reference = ${reference}`,
    dated === undefined ? null : sql`(o.next_attempt_at is not null) = ${dated}`,
    error === undefined ? null : sql`position(lower(${error}) in lower(o.last_error)) > 0`,
  ].filter((condition) => condition !== null);
  return all.length === 0 ? sql`true` : sql.join(all, sql` and `);
}

/** Maximum number of characters of a reason in a list. */
const maxReasonLength = 2_000;

/** SQL: the columns of a summary, but its reason, of a row `o` and its row `w` of `outbox_open`. */
const summary = sql`o.id, o.client, o.kind, o.reference, o.status, o.attempts,
      o.next_attempt_at as "nextAttemptAt", o.not_before as "notBefore",
      o.created_at as "createdAt", o.finished_at as "finishedAt", w.waits_for as "waitsFor"`;

/**
 * SQL: the rows that match a filter, in their order. What is done for one client is read by the
 * index `outbox_done`. With `=`, the planner would drop the client from the order, and might read
 * the rows of all other clients by the primary key.
 */
function selectRows(filter: OutboxFilter, direction: RawBuilder<unknown>): RawBuilder<unknown> {
  const { client, ...others } = filter;
  const isDone = filter.group === 'done' || filter.status === 'done';
  if (client === undefined || !isDone)
    return sql`fulfilment.outbox o where ${toCondition(filter)} order by o.id ${direction}`;

  return sql`fulfilment.outbox o
    where o.client between ${client} and ${client} and ${toCondition(others)}
    order by o.client ${direction}, o.id ${direction}`;
}

/** Lists the rows that match, oldest first unless asked otherwise. Long texts are cut. */
export async function listOutbox(
  db: Kysely<DB>,
  filter: OutboxFilter,
  limit: number,
  order: 'oldest first' | 'newest first' = 'oldest first',
): Promise<OutboxSummary[]> {
  const direction = order === 'oldest first' ? sql`asc` : sql`desc`;
  const { rows } = await sql<OutboxSummary>`
    select ${summary},
      left(coalesce(w.because, o.last_error), ${maxReasonLength}) as because
    from (select * from ${selectRows(filter, direction)} limit ${limit}) o
    left join fulfilment.outbox_open w on w.id = o.id
    order by o.id ${direction}`.execute(db);
  return rows;
}

/** Maximum number of rows behind a row that the view `fulfilment.outbox_open` names. */
export const maxRowsBehind = 100;

/** A complete row, with its history. */
export interface OutboxDetail extends OutboxSummary {
  /** JSON text; holds personal data. */
  readonly payload: string;
  readonly result: Json | null;
  readonly lastError: string | null;
  readonly mayBeCarriedOut: boolean;
  /** Ids of the first `maxRowsBehind` rows that cannot be sent before it. */
  readonly rowsBehind: readonly number[];
  readonly history: readonly {
    readonly at: string;
    readonly step: string;
    readonly by: string;
    readonly became: string;
    readonly durationMs: number | null;
    readonly error: string | null;
  }[];
}

/** Reads a row with its history. Returns null if there is none with this id. */
export async function readOutbox(db: Kysely<DB>, id: number): Promise<OutboxDetail | null> {
  const { rows } = await sql<OutboxDetail>`
    select ${summary}, coalesce(w.because, o.last_error) as because,
      o.payload::text as payload, o.result, o.last_error as "lastError",
      o.written_at is not null as "mayBeCarriedOut",
      to_json(coalesce(w.rows_behind, '{}')) as "rowsBehind",
      coalesce((
        select json_agg(json_build_object('at', a.at, 'step',
          a.step, 'by', a.by, 'became', a.became, 'durationMs', a.duration_ms, 'error', a.error)
            order by a.id)
        from sync.outbox_attempts a where a.outbox_id = o.id), '[]') as history
    from fulfilment.outbox o
    left join fulfilment.outbox_open w on w.id = o.id
    where o.id = ${id}`.execute(db);
  return rows[0] ?? null;
}
