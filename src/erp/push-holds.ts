import { type Kysely, sql } from 'kysely';
import type { Hold } from '../core/push-outcome.ts';
import type { DB } from './rows.ts';

/** Why nothing of a client, or of one of its kinds, is pushed at present. */
export interface StoredHold {
  readonly client: string;
  /** Empty: all of the client. */
  readonly kind: string;
  readonly code: string;
  readonly reason: string;
  readonly since: Date;
  readonly untilInMs: number;
  readonly probe: boolean;
}

/**
 * Holds pushes of a client, or of one kind, for all workers. One that is there already is prolonged, never shortened, unless
 * it is the prober who places it.
 * @param capMs where given the span doubles with every prolongation, up to this
 */
export async function placeHold(
  db: Kysely<DB>,
  client: string,
  kind: string,
  hold: Hold,
  { capMs = hold.ms, byProber = false }: { readonly capMs?: number; readonly byProber?: boolean } = {},
): Promise<void> {
  const { code, reason, ms, probe } = hold;
  // One that ended by itself is no part of this one's story.
  const isOver = sql`(not h.probe and h.until <= clock_timestamp())`;
  const times = sql`case when ${isOver} then 0 else least(h.times, 10) end`;
  const until = sql`clock_timestamp() + make_interval(secs => least(${capMs}::float8, ${ms}::float8 * power(2, ${times})) / 1000)`;
  await sql`
    insert into sync.push_holds as h (client, kind, code, reason, until, probe)
    values (${client}, ${hold.scope === 'client' ? '' : kind}, ${code}, ${reason},
            clock_timestamp() + make_interval(secs => ${ms}::float8 / 1000), ${probe})
    on conflict (client, kind) do update set code = excluded.code, reason = excluded.reason,
      times = ${times} + 1, since = case when ${isOver} then clock_timestamp() else h.since end,
      until = ${byProber ? until : sql`greatest(h.until, ${until})`}, probe = h.probe or excluded.probe
      where excluded.probe or not h.probe`.execute(db);
}

/** The holds of these clients; those that ended by themselves are left out. */
export async function readHolds(db: Kysely<DB>, clients: readonly string[] | null): Promise<StoredHold[]> {
  const { rows } = await sql<StoredHold>`
    select client, kind, code, reason, since, probe,
      extract(epoch from until - clock_timestamp())::float8 * 1000 as "untilInMs"
    from sync.push_holds
    where (${clients}::text[] is null or client = any(${clients}::text[])) and (probe or until > clock_timestamp())
    order by client, kind`.execute(db);
  return rows;
}

/**
 * Takes the one push that shows whether a hold is over.
 * @param ms how long others wait for what comes of it
 * @returns false where another worker has taken it, or the hold is gone
 */
export async function takeProbe(
  db: Kysely<DB>,
  { client, kind }: Pick<StoredHold, 'client' | 'kind'>,
  ms: number,
): Promise<boolean> {
  const { rows } = await sql`
    update sync.push_holds set until = clock_timestamp() + make_interval(secs => ${ms / 1_000})
    where client = ${client} and kind = ${kind} and probe and until <= clock_timestamp() returning 1`.execute(db);
  return rows.length > 0;
}

/** Lets another push show whether a hold is over: the one that was to show it never reached the service. */
export async function passProbeOn(
  db: Kysely<DB>,
  { client, kind }: Pick<StoredHold, 'client' | 'kind'>,
): Promise<void> {
  await sql`update sync.push_holds set until = clock_timestamp() where client = ${client} and kind = ${kind}`.execute(
    db,
  );
}

/** Lets go of a hold: the service answers again. */
export async function releaseHold(
  db: Kysely<DB>,
  { client, kind }: Pick<StoredHold, 'client' | 'kind'>,
): Promise<void> {
  await sql`delete from sync.push_holds where client = ${client} and kind = ${kind}`.execute(db);
}
