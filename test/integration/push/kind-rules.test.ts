import { expect, test } from 'vitest';
import { operations } from '../../../config/operations.ts';
import { listStoredKinds } from '../../../src/push/kinds/registry.ts';
import { findKindDifferences, nameKindDifferences } from '../../../src/push/sql/kinds.ts';
import { useDatabase } from '../../helpers/database.ts';
import { orderPayload } from '../../helpers/order-payload.ts';
import { usePusher } from '../../helpers/pusher.ts';
import { quiet, useSandbox } from '../../helpers/sandbox.ts';

const database = useDatabase();
const sandbox = useSandbox(['default'], quiet);
const outbox = usePusher(database, sandbox);

const wrongDocument = { filename: 'a.pdf', content: Buffer.from('hello').toString('base64') };

test('which kinds overtake a failed row is what the database knows of its kind', async () => {
  await outbox.insert('order.create', 'SO-1', orderPayload('SO-1'));
  const failed = await outbox.insert('order_attachment.create', 'SO-1', wrongDocument);
  await database.query(`
    update sync.outbox_kinds
    set overtaken_by = '{order.release}'
    where kind = 'order_attachment.create'`);

  const release = await outbox.insert('order.release', 'SO-1');
  const cancel = await outbox.insert('order.cancel', 'SO-1');
  await outbox.push();

  expect(await outbox.row(failed)).toMatchObject({ status: 'dead' });
  expect(await outbox.row(release)).not.toMatchObject({ status: 'pending' });
  expect(await outbox.row(cancel)).toMatchObject({ status: 'pending' });
  const [waiting] = await database.query(
    'select waits_for from fulfilment.outbox_open where id = $1',
    [cancel],
  );
  expect([failed, release]).toContain(waiting?.waits_for);
});

test('what a row waits for is what the database knows of its kind, and a trigger releases it', async () => {
  await database.query(`
    update sync.outbox_kinds
    set waits_for = '{"kind": "return.delete", "family": "return", "list": "items", "member": "name"}'
    where kind = 'order.create'`);
  const [first] = await database.query<{ id: number }>(`
    insert into fulfilment.outbox (kind, reference, payload, not_before)
    values ('return.delete', 'MUG-BLUE', '{}', now() + interval '1 hour') returning id`);
  const items = [{ sku: 'MUG-RED', quantity: 1, name: 'MUG-BLUE' }];
  const id = await outbox.insert('order.create', 'SO-1', orderPayload('SO-1', { items }));
  await outbox.push();
  expect(
    await database.query('select because from fulfilment.outbox_open where id = $1', [id]),
  ).toEqual([
    { because: `row ${first?.id} (return.delete of MUG-BLUE) comes first and is pending` },
  ]);

  await database.query('select fulfilment.outbox_cancel($1)', [first?.id]);
  expect(await database.query('select from sync.outbox_waits')).toEqual([]);
  await outbox.push();
  expect(await outbox.row(id)).toMatchObject({ status: 'done' });
});

test('what the database knows of a kind differently is named by its parts', async () => {
  const name = async () =>
    nameKindDifferences(await findKindDifferences(database.db, listStoredKinds(operations)));
  expect(await name()).toBe('');

  await database.query(`
    update sync.outbox_kinds
    set lingers = not lingers, waits_for = null
    where kind = 'order.replace'`);
  await database.query("delete from sync.outbox_kinds where kind = 'return.delete'");
  expect(await name()).toBe('order.replace (lingers, waitsFor), return.delete (missing)');
});
