import { expect, test } from 'vitest';
import { useDatabase } from '../../helpers/database.ts';
import { orderPayload } from '../../helpers/order-payload.ts';
import { done, usePuller } from '../../helpers/puller.ts';
import { usePusher } from '../../helpers/pusher.ts';
import { quiet, useSandbox } from '../../helpers/sandbox.ts';

const database = useDatabase();
const sandbox = useSandbox(['default'], quiet);
const outbox = usePusher(database, sandbox);
const pull = usePuller(database, sandbox);

const get = 'v3.returnMerchandiseAuthorizations.get';
const readLinks = () =>
  database.query(`
    select i.return_item_id = r.id as linked
    from fulfilment.return_merchandise_authorization_items i
    left join fulfilment.return_items r on r.return_merchandise_authorization_item_id = i.id`);

/** Announces a return of a shipped order, and returns the id of the announcement. */
async function announceReturn(): Promise<number> {
  await outbox.insert('order.create', 'SO-1', orderPayload('SO-1'));
  await outbox.push();
  await sandbox.advance(2 * 86_400);
  done(await pull('pull-shipments'));
  const [line] = await database.query('select id, shipment_id from fulfilment.shipment_items');
  const items = [{ shipmentItemId: line?.id, quantity: 1, reasonId: 42 }];
  const id = await outbox.insert('return.create', 'RET-1', {
    shipmentId: line?.shipment_id,
    items,
  });
  await outbox.push();
  return (await outbox.row(id)).result?.returnMerchandiseAuthorizationId as number;
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
  expect((await sandbox.requests(place)).filter(({ operation }) => operation === get)).toHaveLength(
    2,
  );
});
