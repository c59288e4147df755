/**
 * Open problems that are posted (`sync.alerts`), and the checks that find them: a turn for each
 * client, and one with an empty scope for problems that every worker sees alike.
 */

import { sql, type Transaction } from 'kysely';
import type { DB } from '../../db/generated/tables.ts';
import type { Database } from '../../db/pool.ts';
import { finishTurns, type Turn } from '../../schedule/sql/turns.ts';
import type {
  AlertCapacity,
  AlertChanges,
  AlertPost,
  StoredAlert,
} from '../alerts/decide-alerts.ts';
import { insertDeliveries } from './delivery-lanes.ts';
import { alertReceiver, lockReceivers } from './receivers.ts';

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
async function countAlerts(trx: Transaction<DB>) {
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
async function addPosts(trx: Transaction<DB>, posts: readonly AlertPost[]): Promise<void> {
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
