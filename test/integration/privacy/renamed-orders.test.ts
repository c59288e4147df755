import { expect, test } from 'vitest';
import { useDatabase } from '../../helpers/database.ts';
import { orderPayload } from '../../helpers/order-payload.ts';
import { findTexts } from '../../helpers/privacy/placed-order.ts';
import { runCommand } from '../../helpers/processes/run-command.ts';
import { usePusher } from '../../helpers/pusher.ts';
import { quiet, useSandbox } from '../../helpers/sandbox.ts';

const database = useDatabase();
const sandbox = useSandbox(['default'], quiet);
const outbox = usePusher(database, sandbox);
const erase = (...words: string[]) =>
  runCommand(['erase', ...words], { DATABASE_URL: database.url });
const create = (number: string, email: string, more: object = {}) =>
  outbox.insert('order.create', number, { ...orderPayload(number, { email }), ...more });
const rename = (from: string, to: string) =>
  outbox.insert('order.rename', from, { externalOrderNumber: to });

test('rows of an order that was renamed are erased under both numbers', async () => {
  const id = await create('SO-OLD', 'qz-old@example.test');
  await rename('SO-OLD', 'SO-NEW');
  await outbox.push();
  await outbox.insert('order.update', 'SO-NEW', { email: 'qz-new@example.test' });
  await outbox.insert('order.update', 'SO-OLD', { email: 'qz-late@example.test' });
  await outbox.push();
  expect((await outbox.row(id)).status).toBe('done');
  expect((await outbox.rows(`status = 'dead'`)).map(({ reference }) => reference)).toEqual([
    'SO-OLD',
  ]);
  expect((await erase('SO-OLD')).code).toBe(0);
  const texts = [
    'qz-old@example.test',
    'qz-new@example.test',
    'qz-late@example.test',
    'Keizersgracht',
  ];
  expect(await findTexts(database, texts)).toEqual([]);
});

test('an erasure by a former number records the present one, and finds returns by it', async () => {
  await create('SO-OLD', 'qz-old@example.test');
  await rename('SO-OLD', 'SO-NEW');
  await outbox.push();
  await database.query(`
    insert into fulfilment.return_items (client, id, external_order_number, comment, raw, read_no)
    values ('default', 900, 'SO-NEW', 'qz-comment', '{}', 1), ('default', 901, 'SO-OLD', 'qz-comment', '{}', 1)`);
  expect((await erase('SO-OLD')).code).toBe(0);
  expect(await findTexts(database, ['qz-comment'])).toEqual([]);
  expect(
    await database.query('select external_order_number as number from fulfilment.erased_orders'),
  ).toEqual([{ number: 'SO-NEW' }]);
});

test('an order that took a former number keeps its data, and has its own erasure', async () => {
  await create('SO-1', 'qz-a@example.test');
  await rename('SO-1', 'SO-2');
  await outbox.push();
  const other = await create('SO-1', 'qz-b@example.test', { wrong: 'x' });
  await outbox.push();
  await database.query(`
    insert into fulfilment.return_items (client, id, external_order_number, comment, raw, read_no)
    values ('default', 901, 'SO-1', 'qz-b-comment', '{}', 1)`);
  expect((await erase('SO-2')).code).toBe(0);
  expect((await outbox.row(other)).status).toBe('dead');
  expect(await findTexts(database, ['qz-a@example.test'])).toEqual([]);
  expect(await findTexts(database, ['qz-b@example.test', 'qz-b-comment'])).toHaveLength(2);
  expect(await erase('SO-1')).toMatchObject({
    code: 0,
    output: expect.stringContaining('of order SO-1 of client'),
  });
  expect((await outbox.row(other)).status).toBe('cancelled');
  expect(await findTexts(database, ['qz-b@example.test'])).toEqual([]);
});

test('rows of the order that had the number before are left alone', async () => {
  await create('SO-2', 'qz-b@example.test');
  await rename('SO-2', 'SO-3');
  await outbox.push();
  const late = await outbox.insert('order.update', 'SO-2', { email: 'qz-b-late@example.test' });
  await outbox.push();
  expect((await outbox.row(late)).status).toBe('dead');
  await database.query(`update fulfilment.outbox set status = 'cancelled' where id = ${late}`);
  await create('SO-1', 'qz-a@example.test');
  await outbox.push();
  await rename('SO-1', 'SO-2');
  await outbox.push();
  await create('SO-1', 'qz-c@example.test');
  await outbox.push();
  await outbox.insert('order.update', 'SO-2', { unknownMember: 'qz-a-dead' });
  await outbox.push();
  expect((await erase('SO-2')).code).toBe(0);
  expect(await findTexts(database, ['qz-a@example.test', 'qz-a-dead'])).toEqual([]);
  expect(await findTexts(database, ['qz-b-late@example.test'])).toHaveLength(1);
  expect((await erase('SO-1')).code).toBe(0);
  expect(await findTexts(database, ['qz-c@example.test'])).toEqual([]);
  expect(await findTexts(database, ['qz-b-late@example.test'])).toHaveLength(1);
});
