import { sql } from 'kysely';

/**
 * Delay after which a row behind the head of its lane is checked again. Usually the settlement of the head wakes it
 * earlier.
 */
const deferral = sql`interval '10 minutes'`;
/**
 * Delay after which a row that waits for a row of another kind is checked again. A trigger wakes rows that wait for a
 * product earlier, when the product's row is done.
 */
const waitDeferral = sql`interval '20 seconds'`;

/** SQL: the states of rows that block the rows behind them in their lane, as in the partial index outbox_lanes. */
export const unfinishedStatuses = sql`('pending', 'sending', 'unknown', 'dead')`;

/**
 * A rule that rows of `kind` wait for rows of the kind `for.kind`. The `list` of their payload names these rows: the
 * `member` of each entry is a reference.
 */
export interface WaitRule {
  readonly kind: string;
  readonly for: { readonly kind: string; readonly family: string; readonly list: string; readonly member: string };
}

/** What the order of rows depends on. */
export interface LaneOptions {
  readonly client: string;
  readonly waits: readonly WaitRule[];
  /** The kinds whose earlier attempts may still take effect, as in `ClaimOptions`. */
  readonly lingering: { readonly kinds: readonly string[]; readonly ms: number };
}

/** SQL: the span in which an earlier attempt of a lingering kind may still take effect. */
export const lingerSpan = ({ lingering }: Pick<LaneOptions, 'lingering'>) =>
  sql`make_interval(secs => ${lingering.ms / 1_000})`;

/**
 * SQL: a CTE with the time until which each due row has to wait. The time is null if the row is first in its lane and
 * waits for nothing.
 */
export function judgedRows(options: LaneOptions) {
  const { client, lingering, waits } = options;
  const inLane = sql`b.client = ${client} and b.family = l.family and b.reference = l.reference`;
  const isNeeded = sql`(sync.needs_attachments(l.kind)
    or not sync.is_failed_attachment(b.kind, b.status, b.next_attempt_at))`;
  const awaitedRows = waits.map((rule) => awaitedRow(rule, client));
  const noWait = sql`select null::bigint as waits_for where false`;
  return sql`judged as materialized (
      select l.id, l.due_at, l.failed, w.waits_for, case
        -- The writer chose the time. Whatever woke the row earlier does not count.
        when l.earliest > statement_timestamp() then l.earliest
        when exists (
          select from fulfilment.outbox b where ${inLane} and b.id < l.id and b.status in ${unfinishedStatuses}
            and ${isNeeded}
          union all
          -- A row with a smaller id that was committed late waits for the later rows that are under way already.
          select from fulfilment.outbox b where ${inLane} and b.id > l.id and b.status in ('sending', 'unknown')
            and ${isNeeded}
        ) then statement_timestamp() + ${deferral}
        when w.waits_for is not null then statement_timestamp() + case
          when exists (select from sync.outbox_waits v where v.outbox_id = l.id)
            then interval '2 minutes' else ${waitDeferral} end
        -- The payload from before the replacement may still take effect.
        when l.was_replaced then l.written_at + ${lingerSpan(options)}
        else (
          select max(b.written_at) + ${lingerSpan(options)} from fulfilment.outbox b
          where ${inLane} and b.id < l.id and b.written_at > statement_timestamp() - ${lingerSpan(options)}
            and b.kind = any(${lingering.kinds}::text[])) end as not_before
      from locked l
      left join lateral (
        ${awaitedRows.length === 0 ? noWait : sql.join(awaitedRows, sql` union all `)} limit 1
      ) w on true
    )`;
}

/** SQL: an open row that row `l` waits for by this rule. */
function awaitedRow({ kind, for: other }: WaitRule, client: string) {
  const open = sql`p.client = ${client} and p.family = ${other.family} and p.kind = ${other.kind}`;
  // Usually no such row is open. Find that out once, not for each row.
  const areOpen = sql`(select exists (select from fulfilment.outbox p where ${open} and p.status = 'pending')
    or exists (select from fulfilment.outbox p where ${open} and p.status in ('sending', 'unknown')))`;
  return sql`
        select p.id as waits_for
        from fulfilment.outbox o
        cross join lateral jsonb_array_elements(
          case when jsonb_typeof(o.payload -> ${other.list}) = 'array' then o.payload -> ${other.list} else '[]' end) i
        join fulfilment.outbox p
          on ${open} and p.reference = i ->> ${other.member} and p.status in ('pending', 'sending', 'unknown')
        where o.id = l.id and l.kind = ${kind} and ${areOpen}
          -- An entity that is saved again and again must not block the row for ever.
          and (p.id < o.id or p.created_at < o.created_at + interval '1 minute')`;
}
