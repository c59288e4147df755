import { describe, expect, test } from 'vitest';
import { pages } from '../../../../src/serve/admin/routes.ts';
import { registerClients } from '../../../../src/service/sql/clients.ts';
import { useAdmin } from '../../../helpers/admin.ts';
import { useDatabase } from '../../../helpers/database.ts';

const database = useDatabase();
const admin = useAdmin(database);
const tokens = {
  ADMIN_TOKEN: 'an-operator-token-that-is-long-enough',
  ADMIN_VIEWER_TOKEN: 'v'.repeat(40),
};
const json = { accept: 'application/json' };

/** Addresses of all pages, with what their paths and queries need. */
const addresses = pages.map(({ path }) => {
  const query =
    path === '/order' ? '?client=default&number=SO-1' : path === '/orders' ? '?q=SO-1' : '';
  return `${path.replace('{id}', '1')}${query}`;
});

/** Stores something for each page to show. */
async function fill(): Promise<void> {
  await registerClients(database.db, [
    { client: 'default', identity: 'x', baseUrl: 'http://127.0.0.1:9' },
  ]);
  await database.query(`
    insert into fulfilment.outbox (kind, reference, payload, status, next_attempt_at, finished_at, last_error)
      values ('order.create', 'SO-1', '{"email": "jan@example.com"}', 'dead', null, now(), 'answered 422: «say "Jan"»');
    insert into sync.outbox_attempts (outbox_id, step, by, became, duration_ms, error) values (1, 'sent', 'w', 'dead', 7, 'x');
    insert into sync.jobs (client, job, stream, next_at, last_started_at, last_success_at, warnings)
      values ('default', 'pull-orders', 'orders', now(), now(), now() - interval '3 hours', '{careful}'),
        ('default', 'pull-shipments', 'shipments', now(), null, null, '{}');
    insert into sync.runs (client, job, trigger, worker, lease_key, started_at, status, finished_at, error, created)
      values ('default', 'pull-orders', 'schedule', 'w', 1, now(), 'failed', now(), 'away', 3),
        ('default', 'pull-orders', 'schedule', 'w', 2, now(), 'running', null, null, 1);
    insert into sync.rescans (client, stream, kind, finished_at, outcome, missing) values ('default', 'orders', 'reconcile', now(), 'done', 2);
    insert into sync.rescans (client, stream, kind, from_day) values ('default', 'orders', 'backfill', '2026-05-04');
    insert into sync.gaps (client, stream, from_at, to_at) values ('default', 'orders', now(), now());
    insert into sync.turns (name, scope, client, next_at, taken_at) values ('track-trace', 'x', 'default', now(), now());
    insert into sync.pauses (client, job, by) values ('', 'pull-orders', 'me'), ('default', 'push-outbox', 'me');
    insert into sync.quarantine (client, stream, resource_key, resource_id, member_path, reason, document, run_worker)
      values ('default', 'orders', '1', 1, 'a.b', 'must be a number', '{}', 'w');
    insert into sync.audit (by, action, client, detail) values ('me', 'paused', null, 'x')`);
}

describe('every page as JSON', () => {
  test('is sent to who asks for it and may read it; a viewer gets no words of the service', async () => {
    await fill();
    const { visitor } = await admin(tokens);
    const operator = { authorization: `Bearer ${tokens.ADMIN_TOKEN}` };
    const viewer = { ...json, authorization: `Bearer ${tokens.ADMIN_VIEWER_TOKEN}` };
    for (const address of addresses) {
      expect([address, (await visitor.get(address, json)).status]).toEqual([address, 401]);
      const answer = await visitor.get(address, { ...operator, ...json });
      const { headers, status } = answer;
      expect([address, status, headers.get('content-type'), headers.get('vary')]).toEqual([
        ...[address, 200],
        ...[expect.stringContaining('application/json'), expect.stringContaining('accept')],
      ]);
      expect(await answer.json()).toBeTypeOf('object');
      const page = await visitor.get(address, operator);
      expect(String(page.headers.get('content-type'))).not.toContain('json');
      const shown = await (await visitor.get(address, viewer)).text();
      expect([address, /Jan/.test(shown)]).toEqual([address, false]);
      expect(JSON.parse(shown)).toBeTypeOf('object');
    }
    const rows = await visitor.get('/outbox', { ...operator, ...json });
    expect(await rows.text()).toContain('Jan');
  });
});
