import pg from 'pg';
import { registerClients } from '../../src/service/sql/clients.ts';
import type { TestDatabase } from './database.ts';
import { insertHealth } from './service-health.ts';

/**
 * Stores something for each page and list of commands to show, with words of others in each text.
 * @param reference that of the first row of the outbox
 */
export async function storePageRows(
  database: TestDatabase,
  { words, reference = words }: { words: string; reference?: string },
): Promise<void> {
  const [said, about] = [pg.escapeLiteral(words), pg.escapeLiteral(reference)];
  await registerClients(database.db, [
    { client: 'default', identity: 'x', baseUrl: 'http://127.0.0.1:9' },
  ]);
  await database.query(`
    update sync.clients set served_at = now(), queue_away_since = now(), queue_error = ${said};
    insert into fulfilment.outbox (kind, reference, payload, status, next_attempt_at, finished_at, last_error)
      values ('order.create', ${about}, jsonb_build_object(${said}, ${said}), 'dead', null, now(), ${said}),
        (left(${said}, 64), ${said}, '{}', 'dead', null, now(), ${said}),
        ('order.cancel', 'SO-3', '{}', 'pending', now(), null, null);
    insert into sync.outbox_attempts (outbox_id, step, by, became, duration_ms, error)
      values (1, 'sent', ${said}, 'dead', 7, ${said});
    insert into sync.jobs (client, job, stream, next_at, last_started_at, last_success_at, failing_since,
        last_error, last_code, warnings)
      values ('default', 'pull-orders', 'orders', now(), now(), now() - interval '3 hours', now(),
        ${said}, 'undecodable', array[${said}]);
    insert into sync.runs (client, job, trigger, worker, lease_key, started_at, status, finished_at, error)
      values ('default', 'pull-orders', 'schedule', ${said}, 1, now(), 'failed', now(), ${said}),
        ('default', 'pull-orders', 'schedule', ${said}, 2, now(), 'running', null, null);
    insert into sync.rescans (client, stream, kind, finished_at, outcome, missing, from_day)
      values ('default', 'orders', 'reconcile', now(), 'done', 2, null),
        ('default', 'orders', 'backfill', null, null, 0, '2026-05-04');
    insert into sync.gaps (client, stream, from_at, to_at) values ('default', 'orders', now(), now());
    insert into sync.turns (name, scope, client, next_at, taken_at)
      values ('track-trace', 'x', 'default', now(), now());
    insert into sync.pauses (client, job, by) values ('', 'pull-orders', ${said});
    insert into sync.quarantine (client, stream, resource_key, resource_id, member_path, reason, document, run_worker)
      values ('default', 'orders', '1', 1, ${said}, ${said}, ${said}, ${said});
    insert into sync.audit (by, action, client, detail) values (${said}, 'paused', 'default', ${said})`);
  await insertHealth(database, { code: 'no_answer', sendWindow: 0, words });
}
