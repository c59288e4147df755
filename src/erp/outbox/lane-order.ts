import { sql } from 'kysely';

/** Pause after which a row behind the head of its lane is looked at again. As a rule the settlement of the head wakes it before. */
const deferral = sql`interval '10 minutes'`;
/**
 * How long a row that waits for one of another kind is left alone. Rows that wait for a product are woken before, when its row
 * is through (migration 0019).
 */
const waitDeferral = sql`interval '20 seconds'`;

/** SQL: rows that block those behind them in their lane; as in the partial index outbox_lanes. */
export const unfinished = sql`('pending', 'sending', 'unknown', 'dead')`;

/** Rows of `kind` wait for rows of the kind `for.kind` whose reference is the `member` of an entry in the `list` of their payload. */
export interface WaitRule {
  readonly kind: string;
  readonly for: { readonly kind: string; readonly family: string; readonly list: string; readonly member: string };
}

/** What decides which rows come first. */
export interface LaneOptions {
  readonly client: string;
  readonly waits: readonly WaitRule[];
  /** See `ClaimOptions`. */
  readonly lingering: { readonly kinds: readonly string[]; readonly ms: number };
}

/** SQL: how long an attempt of a lingering kind may still take effect. */
export const lingers = ({ lingering }: Pick<LaneOptions, 'lingering'>) =>
  sql`make_interval(secs => ${lingering.ms / 1_000})`;

/** SQL: until when each row that is due has to wait, null where it is first in its lane and nothing else comes before it. */
export function judged(options: LaneOptions) {
  const { client, lingering, waits } = options;
  const inLane = sql`b.client = ${client} and b.family = l.family and b.reference = l.reference`;
  const awaited = waits.map((rule) => awaitedBy(rule, client));
  const noWait = sql`select null::bigint as waits_for where false`;
  return sql`judged as materialized (
      select l.id, l.due_at, l.failed, w.waits_for, case
        when exists (
          select from fulfilment.outbox b where ${inLane} and b.id < l.id and b.status in ${unfinished}
          union all
          -- One that was committed late, with a lower number, comes behind what is under way already.
          select from fulfilment.outbox b where ${inLane} and b.id > l.id and b.status in ('sending', 'unknown')
        ) then statement_timestamp() + ${deferral}
        when w.waits_for is not null then statement_timestamp() + case
          when exists (select from sync.outbox_waits v where v.outbox_id = l.id)
            then interval '2 minutes' else ${waitDeferral} end
        -- What it held before it was replaced may still take effect.
        when l.was_replaced then l.written_at + ${lingers(options)}
        else (
          select max(b.written_at) + ${lingers(options)} from fulfilment.outbox b
          where ${inLane} and b.id < l.id and b.written_at > statement_timestamp() - ${lingers(options)}
            and b.kind = any(${lingering.kinds}::text[])) end as not_before
      from locked l
      left join lateral (
        ${awaited.length === 0 ? noWait : sql.join(awaited, sql` union all `)} limit 1
      ) w on true
    )`;
}

/** SQL: an open row that row `l` waits for by this rule. */
function awaitedBy({ kind, for: other }: WaitRule, client: string) {
  const open = sql`p.client = ${client} and p.family = ${other.family} and p.kind = ${other.kind}`;
  // Most of the time none is open, which is found out once, and not for each row.
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
          -- What is saved later, again and again, must not keep the row for ever.
          and (p.id < o.id or p.created_at < o.created_at + interval '1 minute')`;
}
