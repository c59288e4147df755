/**
 * Open problems that are posted (`sync.alerts`), and the checks that find them: a turn for each
 * client, and one with an empty scope for problems that every worker sees alike.
 */

import { type Kysely, sql, type Transaction } from 'kysely';
import type { DB } from '../../db/generated/tables.ts';
import type { Database } from '../../db/pool.ts';
import { finishTurns, type Turn, takeTurns } from '../../schedule/sql/turns.ts';
import { insertDeliveries } from './delivery-lanes.ts';
import { alertReceiver, lockReceivers } from './receivers.ts';

/** An open problem. `beganAt` is null until it has lasted long enough to be posted. */
export interface StoredAlert {
  readonly id: string;
  readonly scope: string;
  readonly code: string;
  /** Null: every client. */
  readonly client: string | null;
  readonly subject: string;
  readonly detail: string;
  readonly severity: 'bad' | 'warn';
  readonly text: string;
  readonly remedy: string | null;
  readonly since: Date;
  readonly beganAt: Date | null;
  readonly missingSince: Date | null;
}

/** A post to be delivered. */
interface NewPost {
  readonly alertId: string;
  readonly body: {
    readonly type: string;
    readonly timestamp: string;
    readonly data: { readonly client: string | null };
  };
}

/** Maximum numbers of open alerts. */
export interface AlertCapacity {
  /** That may still be added. */
  readonly alerts: number;
  /** Of one scope and client, with those that are open. */
  readonly perClient: number;
}

/** What a check changes. */
export interface AlertChanges {
  readonly kept: readonly StoredAlert[];
  /** Ids of alerts whose problem has ended. */
  readonly removed: readonly string[];
  readonly posts: readonly NewPost[];
}

/** Takes the checks of some scopes that are due. No other worker takes them within `intervalMs`. */
export const takeAlertChecks = (
  db: Kysely<DB>,
  scopes: readonly string[],
  intervalMs: number,
): Promise<Turn[]> => takeTurns(db, { name: 'alerts', scopes }, intervalMs);

/**
 * Stores the result of checks in one transaction. A check that another worker has taken meanwhile,
 * because it is late, writes nothing, nor does any while too many posts wait.
 * @param decide receives the checks that are still valid, their open alerts, the database's clock
 *   and the capacity
 */
export async function storeAlertChecks(
  db: Database,
  checks: readonly Turn[],
  bounds: AlertCapacity & { readonly posts: number },
  decide: (
    scopes: readonly string[],
    open: readonly StoredAlert[],
    now: Date,
    capacity: AlertCapacity,
  ) => AlertChanges,
): Promise<AlertChanges> {
  return db.transaction().execute(async (trx) => {
    const finished = await finishTurns(trx, 'alerts', checks, null);
    const valid = finished.map(({ scope }) => scope);
    if (valid.length === 0) return { kept: [], removed: [], posts: [] };

    const { alerts, posts, now } = await countAlerts(trx);
    if (posts >= bounds.posts) return { kept: [], removed: [], posts: [] };

    const open = await readOpenAlerts(trx, valid);
    const changes = decide(valid, open, now, { ...bounds, alerts: bounds.alerts - alerts });
    await writeChanges(trx, changes);
    return changes;
  });
}

async function readOpenAlerts(
  trx: Transaction<DB>,
  scopes: readonly string[],
): Promise<StoredAlert[]> {
  const { rows } = await sql<StoredAlert>`
    select id::text as id, scope, code, client, subject, detail, severity, text, remedy, since,
      began_at as "beganAt", missing_since as "missingSince"
    from sync.alerts
    where scope = any(${scopes}::text[])
    order by since`.execute(trx);
  return rows;
}

/** Counts the open alerts and waiting posts of all clients, and reads the clock. */
async function countAlerts(
  trx: Transaction<DB>,
): Promise<{ alerts: number; posts: number; now: Date }> {
  const { rows } = await sql<{ alerts: number; posts: number; now: Date }>`
    select
      (select count(*)::int from sync.alerts) as alerts,
      (select count(*)::int from sync.deliveries where receiver = ${alertReceiver}
        and status = 'waiting') as posts,
      clock_timestamp() as now`.execute(trx);

  const [row] = rows;
  if (row === undefined) throw new Error('A select without a condition returned no row');
  return row;
}

async function writeChanges(
  trx: Transaction<DB>,
  { kept, removed, posts }: AlertChanges,
): Promise<void> {
  if (removed.length > 0)
    await trx
      .deleteFrom('sync.alerts')
      .where('id', 'in', [...removed])
      .execute();

  if (kept.length > 0)
    await trx
      .insertInto('sync.alerts')
      .values(
        kept.map(({ beganAt, missingSince, ...alert }) => ({
          ...alert,
          began_at: beganAt,
          missing_since: missingSince,
        })),
      )
      .onConflict((conflict) =>
        conflict.column('id').doUpdateSet((excluded) => ({
          severity: excluded.ref('excluded.severity'),
          text: excluded.ref('excluded.text'),
          remedy: excluded.ref('excluded.remedy'),
          began_at: excluded.ref('excluded.began_at'),
          missing_since: excluded.ref('excluded.missing_since'),
          seen_at: sql<Date>`case
            when excluded.missing_since is null then clock_timestamp()
            else sync.alerts.seen_at
          end`,
        })),
      )
      .execute();

  await addPosts(trx, posts);
}

/** Adds posts to the deliveries. Those of a problem wait for each other. */
async function addPosts(trx: Transaction<DB>, posts: readonly NewPost[]): Promise<void> {
  if (posts.length === 0) return;
  await lockReceivers(trx, [alertReceiver]);

  const deliveries = posts.map(({ alertId, body }) => ({
    receiver: alertReceiver,
    lane: `alert ${alertId}`,
    type: body.type,
    client: body.data.client ?? '',
    turn: '',
    body,
    happenedAt: new Date(body.timestamp),
    delayMs: 0,
  }));

  await insertDeliveries(trx, deliveries);
}
