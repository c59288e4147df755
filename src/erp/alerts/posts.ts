/** The queue of posts to ALERT_WEBHOOK_URL (`sync.alert_posts`). */

import { type Kysely, sql } from 'kysely';
import type { DB } from '../generated/tables.ts';

/** A post that this worker attempts now. */
export interface ClaimedPost {
  readonly id: string;
  /** The JSON text, the same for every attempt. */
  readonly body: string;
  readonly attempts: number;
}

/** Posts that the receiver did not take. */
export interface AlertBacklog {
  /** Posts that wait after at least three attempts. */
  readonly failing: number;
  /** Posts that were given up within a day. */
  readonly abandoned: number;
  readonly oldestAt: Date | null;
  readonly lastError: string | null;
}

/**
 * Claims the next due post. The post of an end waits until the post of its beginning is delivered or given up.
 * @param leaseMs time within which no other worker claims the post
 */
export async function claimAlertPost(db: Kysely<DB>, leaseMs: number): Promise<ClaimedPost | null> {
  const { rows } = await sql<ClaimedPost>`
    update sync.alert_posts p
    set attempts = p.attempts + 1,
      next_attempt_at = clock_timestamp() + make_interval(secs => ${leaseMs / 1_000})
    where p.id = (
      select d.id
      from sync.alert_posts d
      where d.next_attempt_at <= clock_timestamp() and d.delivered_at is null and d.abandoned_at is null
        and not exists (
          select from sync.alert_posts e
          where e.alert_id = d.alert_id and e.id < d.id and e.delivered_at is null and e.abandoned_at is null)
      order by d.next_attempt_at, d.id
      limit 1
      for update skip locked)
    returning p.id::text as id, p.body::text as body, p.attempts`.execute(db);
  return rows[0] ?? null;
}

/** Records that the receiver took a post. */
export async function recordDelivery(db: Kysely<DB>, id: string): Promise<void> {
  await sql`
    update sync.alert_posts
    set delivered_at = clock_timestamp(), last_error = null
    where id = ${id} and delivered_at is null`.execute(db);
}

/** Records why an attempt failed, and when the next one begins. */
export async function recordFailure(db: Kysely<DB>, id: string, error: string, delayMs: number): Promise<void> {
  await sql`
    update sync.alert_posts
    set last_error = ${error}, next_attempt_at = clock_timestamp() + make_interval(secs => ${delayMs / 1_000})
    where id = ${id} and delivered_at is null`.execute(db);
}

/** Gives up posts that are older than `maxAgeMs`. Returns their number. */
export async function abandonOldPosts(db: Kysely<DB>, maxAgeMs: number): Promise<number> {
  const { numAffectedRows } = await sql`
    update sync.alert_posts
    set abandoned_at = clock_timestamp()
    where delivered_at is null and abandoned_at is null
      and created_at < clock_timestamp() - make_interval(secs => ${maxAgeMs / 1_000})`.execute(db);
  return Number(numAffectedRows ?? 0);
}

/** Reads the posts that the receiver does not take. */
export async function readAlertBacklog(db: Kysely<DB>): Promise<AlertBacklog> {
  const { rows } = await sql<AlertBacklog>`
    select count(*) filter (where abandoned_at is null)::int as failing,
      count(*) filter (where abandoned_at is not null)::int as abandoned,
      min(created_at) filter (where abandoned_at is null) as "oldestAt",
      (array_agg(last_error order by id desc))[1] as "lastError"
    from sync.alert_posts
    where abandoned_at > now() - interval '1 day'
      or delivered_at is null and abandoned_at is null and attempts >= 3 and last_error is not null`.execute(db);
  return rows[0] ?? { failing: 0, abandoned: 0, oldestAt: null, lastError: null };
}
