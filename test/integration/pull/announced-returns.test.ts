import { expect, test } from 'vitest';
import { findOpenAuthorizations } from '../../../src/pull/sql/authorization-rows.ts';
import { done } from '../../helpers/puller.ts';
import { usePushes } from '../../helpers/pusher.ts';
import { useEditedService } from '../../helpers/services/edited-service.ts';

const { database, sandbox, outbox, pull: pullDirectly } = usePushes();
const service = useEditedService(sandbox);
const pull: typeof pullDirectly = (job) => pullDirectly(job, { env: service.env() });

const get = 'v3.returnMerchandiseAuthorizations.get';
const readLinks = () =>
  database.query(`
    select i.return_item_id = r.id as linked
    from fulfilment.return_merchandise_authorization_items i
    left join fulfilment.return_items r on r.return_merchandise_authorization_item_id = i.id`);

/** Announces a return of a shipped order, and returns the id of the announcement. */
async function announceReturn(): Promise<number> {
  await outbox.sendOrder('SO-1', {}, service.env());
  await sandbox.advance(2 * 86_400);
  done(await pull('pull-shipments'));
  const [line] = await database.query('select id, shipment_id from fulfilment.shipment_items');
  const items = [{ shipmentItemId: line?.id, quantity: 1, reasonId: 42 }];
  const announcement = { shipmentId: line?.shipment_id, items };
  const { result } = await outbox.send('return.create', 'RET-1', announcement, service.env());
  return result?.returnMerchandiseAuthorizationId as number;
}

test('the poll that brings a return also reads its announcement again, until that can be read', async () => {
  const authorizationId = await announceReturn();
  done(await pull('pull-return-items'));
  expect(await readLinks()).toEqual([{ linked: null }]);
  await sandbox.call('POST', '/_sandbox/return/process', { client: 'default', authorizationId });
  await sandbox.faults({ operation: get, count: 1, effect: { status: 422 } });
  const place = await sandbox.lastPlace();
  expect(done(await pull('pull-return-items'))).toMatchObject({ created: 1, updated: 0 });
  expect(await readLinks()).toEqual([{ linked: null }]);
  await database.query("update sync.waiting_reads set next_at = now() - interval '1 second'");
  expect(done(await pull('pull-return-items'))).toMatchObject({ updated: 1 });
  expect(await readLinks()).toEqual([{ linked: true }]);
  done(await pull('pull-return-items'));
  expect(await sandbox.count(get, place)).toBe(2);
});

test('a 404 marks no announced return before the assumed path has found one', async () => {
  await announceReturn();
  const readMarked = () =>
    database.ids('fulfilment.return_merchandise_authorizations where unlisted_since is not null');
  const hideReturns = () =>
    service.edit((request, answer) => {
      if (!request.startsWith('GET /v3/returnMerchandiseAuthorizations/')) return;
      Object.assign(answer, { status: 404, body: '{"message":"no such route"}' });
    });

  hideReturns();
  expect(done(await pull('reconcile')).warnings?.join()).toContain('Its path is assumed');
  expect(await readMarked()).toEqual([]);

  service.edit(() => undefined);
  done(await pull('reconcile'));
  hideReturns();
  expect(done(await pull('reconcile')).warnings).toEqual([]);
  expect(await readMarked()).toHaveLength(1);
});

test('an answer about another id is not stored, and its read is made again', async () => {
  const id = await announceReturn();
  await sandbox.call('POST', '/_sandbox/return/process', {
    client: 'default',
    authorizationId: id,
  });
  service.edit((request, answer) => {
    if (!request.startsWith('GET /v3/returnMerchandiseAuthorizations/')) return;
    const document = JSON.parse(answer.body);
    document.data.id = id + 1;
    answer.body = JSON.stringify(document);
  });

  expect(done(await pull('pull-return-items')).warnings?.join()).toContain('about another id');
  const rows = 'fulfilment.return_merchandise_authorizations';
  expect(await database.ids(rows)).toEqual([id]);
  expect(
    await database.query(`select id, reason from sync.waiting_reads where resource <> 'parcels'`),
  ).toEqual([{ id, reason: 'read_failed' }]);
});

test('an open return authorization is read daily for 180 days, then once a week without end', async () => {
  await database.query(`
    insert into fulfilment.return_merchandise_authorizations (client, id, raw, read_no, first_seen_at)
    select 'default', id, '{}', 1, now() - make_interval(days => case when id <= 7 then 900 else 100 end)
    from generate_series(1, 9) as id`);
  await database.query(`
    insert into fulfilment.return_merchandise_authorization_items (client, id, raw, return_merchandise_authorization_id)
    select 'default', id, '{}', id from generate_series(1, 9) as id`);
  const [today] = await database.query<{ day: number }>(
    'select extract(dow from now())::int as day',
  );
  const weekly = today?.day === 0 ? 7 : today?.day;
  expect(await findOpenAuthorizations(database.db, 'default')).toEqual([weekly, 8, 9]);
});
