import { expect, test } from 'vitest';
import { useDatabase } from '../../helpers/database.ts';
import { orderPayload } from '../../helpers/order-payload.ts';
import { findTexts, placeOrder } from '../../helpers/privacy/placed-order.ts';
import { dailyJobs, done, usePuller } from '../../helpers/puller.ts';
import { usePusher } from '../../helpers/pusher.ts';
import { quiet, useSandbox } from '../../helpers/sandbox.ts';

const database = useDatabase();
// The service's time lies months before the database's, so everything that it shipped is old.
const sandbox = useSandbox(['default'], quiet);
const pull = usePuller(database, sandbox);
const outbox = usePusher(database, sandbox);
const flows = { database, sandbox, outbox, pull };
const prune = (days: number | null) =>
  pull('prune', {
    env: { RETENTION_DAYS: '3650', ...(days === null ? {} : { PERSONAL_DATA_DAYS: String(days) }) },
  });
const readAudit = () =>
  database.query<{ client: string; detail: string }>(
    `select client, detail from sync.audit where action = 'erased' order by id`,
  );

/** Counts the orders with this number that have an e-mail address. */
const countOrders = async (number: string) =>
  (
    await database.query(
      'select id from fulfilment.orders where external_order_number = $1 and email is not null',
      [number],
    )
  ).length;

/** Makes everything that was written here as old as a number of days. */
async function age(days: number): Promise<void> {
  const at = `now() - interval '${days} days'`;
  await database.query(
    `update fulfilment.outbox set finished_at = ${at} where finished_at is not null`,
  );
  await database.query(`update fulfilment.documents set created_at = ${at}`);
  await database.query(`update sync.quarantine set last_seen_at = ${at}`);
  await database.query(`update sync.runs set finished_at = ${at} where finished_at is not null`);
  await database.query(`update fulfilment.orders set changed_at = ${at}`);
}

test('personal data older than PERSONAL_DATA_DAYS goes, and stays away', async () => {
  const order = await placeOrder(flows, 'SO-OLD', 'qz-old');
  const { authorizationId } = order;
  await sandbox.call('POST', '/_sandbox/return/process', { client: 'default', authorizationId });
  // Its package has left the track-trace list.
  await sandbox.advance(40 * 86_400);
  for (const job of dailyJobs) done(await pull(job));
  await database.query(`
    insert into sync.runs (client, job, trigger, worker, lease_key, status, started_at, finished_at, error)
    values ('default', 'a', 'manual', 'w', 1, 'failed', now(), now(), 'refused: «${order.texts.quoted}»')`);

  // The dead row waits for a person, so the order keeps its data.
  const blocked = done(await prune(30));
  expect(blocked.warnings).toEqual([
    expect.stringContaining('1 finished orders keep their personal data'),
  ]);
  expect(await countOrders('SO-OLD')).toBe(1);

  await database.query(`
    insert into sync.quarantine (client, stream, resource_key, order_id, member_path, reason, document, run_worker)
    values ('default', 'orders', '1', ${order.id}, 'x', 'x', '{"id": 1, "email": "${order.texts.email}"}', 'w')`);
  await database.query(`update fulfilment.outbox set status = 'cancelled' where status = 'dead'`);
  // Nothing of it is shipped yet.
  const open = await outbox.insert(
    'order.create',
    'SO-OPEN',
    orderPayload('SO-OPEN', { email: 'qz-open@example.test' }),
  );
  await outbox.push();
  expect((await outbox.row(open)).status).toBe('done');
  await age(31);
  const before = await findTexts(database, order.searched);
  done(await prune(400));
  done(await prune(null));
  expect(await findTexts(database, order.searched)).toEqual(before);
  expect(await readAudit()).toEqual([]);

  expect(done(await prune(30)).updated).toBeGreaterThan(1);
  expect(await findTexts(database, order.searched)).toEqual([]);
  expect(await countOrders('SO-OPEN')).toBe(1);
  expect(await outbox.row(open)).toMatchObject({ payload: { email: 'qz-open@example.test' } });
  expect(await readAudit()).toEqual([
    {
      client: 'default',
      detail: expect.stringMatching(/^personal data older than 30 days: orders 1, /),
    },
  ]);
  await database.query('delete from sync.turns');
  for (const job of dailyJobs) done(await pull(job));
  done(await prune(30));
  expect(await findTexts(database, order.searched)).toEqual([]);
  expect(await readAudit()).toHaveLength(1);
});

test('returns without a stored order are erased by their own age', async () => {
  await database.query(`
    insert into fulfilment.return_items (client, id, order_id, processed_on, comment, raw, read_no)
    select 'default', n, 900 + n, (now() - make_interval(days => 29 + n))::date, 'qz-comment', '{"attributes": {"comment": "qz-comment"}}', 1
    from generate_series(1, 250) n`);
  await database.query(`
    insert into fulfilment.return_items (client, id, comment, raw, read_no, changed_at)
    values ('default', 251, 'qz-comment', '{}', 1, now() - interval '101 days');
    insert into fulfilment.return_merchandise_authorizations (client, id, created_on, comments, raw, read_no)
    values ('default', 1, current_date - 101, 'processed', '{}', 1), ('default', 2, current_date - 101, 'announced', '{}', 1);
    insert into fulfilment.return_merchandise_authorization_items
      (client, id, return_merchandise_authorization_id, return_item_id, raw)
    values ('default', 1, 1, 5, '{}'), ('default', 2, 2, null, '{}')`);
  // Its only link leads to a stored order, with which it is erased.
  await database.query(`
    insert into fulfilment.orders (client, id, raw, read_no) values ('default', 5, '{}', 1);
    insert into fulfilment.shipments (client, id, order_id, raw, read_no) values ('default', 5, 5, '{}', 1);
    insert into fulfilment.shipment_items (client, id, shipment_id, raw) values ('default', 5, 5, '{}');
    insert into fulfilment.return_merchandise_authorization_items (client, id, shipment_item_id, raw)
    values ('default', 5, 5, '{}');
    insert into fulfilment.return_items (client, id, comment, return_merchandise_authorization_item_id, raw, read_no, changed_at)
    values ('default', 252, 'qz-comment', 5, '{"attributes": {"comment": "qz-comment"}}', 1, now() - interval '101 days')`);
  done(await prune(100));
  expect(
    await database.query(
      `select comments from fulfilment.return_merchandise_authorizations order by id`,
    ),
  ).toEqual([{ comments: null }, { comments: 'announced' }]);
  const left = await database.query(
    `select id from fulfilment.return_items where comment = 'qz-comment'`,
  );
  expect(left).toHaveLength(71);
  const raw = await database.query(
    `select id from fulfilment.return_items where raw::text like '%qz-comment%'`,
  );
  expect(raw).toHaveLength(71);
});

test('a client that is served, or whose prune is paused, is left alone', async () => {
  await database.query(`
    insert into sync.clients (client, identity, base_url, accepted_at, served_at)
    select name, name, 'http://x', now() - interval '300 days', served_at
    from (values ('gone', now() - interval '3 days'), ('paused', null), ('pulled', null), ('pushed', now()))
      as c (name, served_at)`);
  await database.query(`
    insert into sync.jobs (client, job, last_started_at, last_finished_at)
    select client, 'prune', at, at
    from sync.clients, (values (now() - interval '3 days')) as t (at)
    union all
    select 'pulled', 'pull-orders', now(), now()`);
  await database.query(`insert into sync.pauses (client, job, by) values ('paused', 'prune', 'x')`);
  await database.query(`
    insert into fulfilment.orders (client, id, external_order_number, email, unlisted_since, raw, read_no)
    select client, 1, 'SO-1', 'qz@example.test', now() - interval '300 days', '{}', 1
    from sync.clients`);
  const findKept = () =>
    database.query('select client from fulfilment.orders where email is not null order by client');
  done(await prune(180));
  expect((await findKept()).map(({ client }) => client)).toEqual(['paused', 'pulled', 'pushed']);
});
