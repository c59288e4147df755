import { expect, test } from 'vitest';
import { writePage } from '../../../../src/sandbox/rules/pdf.ts';
import { orderPayload } from '../../../helpers/order-payload.ts';
import { short, usePushes } from '../../../helpers/pusher.ts';

const { sandbox, outbox, database } = usePushes();

const content = (await writePage(['Invoice'])).toString('base64');
const address = orderPayload('').deliveryAddress;
const attachments = ['first.pdf', 'second.pdf'].map((filename) => ({ filename, content }));

/** Returns the names of the documents of each order at the service, by its number. */
const readDocuments = async () =>
  Object.fromEntries(
    (await sandbox.orders()).map(({ resource, attachments: sent }) => [
      resource.attributes.externalOrderNumber,
      sent.map(({ filename }) => filename),
    ]),
  );

test('the documents of a renamed order do not go to the order that gets its number', async () => {
  await outbox.insertOrder('SO-1', { attachments });
  await outbox.insert('order.rename', 'SO-1', { externalOrderNumber: 'SO-1-OLD' });
  await outbox.insertOrder('SO-1', { email: 'bob@example.com' });
  await outbox.pushRounds(3);
  expect(await readDocuments()).toEqual({ 'SO-1-OLD': ['first.pdf', 'second.pdf'], 'SO-1': [] });
});

test('the documents of a replaced order do not go to the new one', async () => {
  await outbox.insertOrder('SO-1', { attachments });
  const items = [{ sku: 'MUG-BLUE', quantity: 5 }];
  await outbox.insert('order.replace', 'SO-1', orderPayload('SO-1', { items }));
  await outbox.pushRounds(3);
  expect(await readDocuments()).toMatchObject({ 'SO-1': [] });
});

test('a follow-up whose order the service does not have is dead', async () => {
  await outbox.sendOrder('SO-1', {}, short);
  const id = await outbox.insert('order_attachment.create', 'SO-1', attachments[0]);
  await database.query(
    'insert into sync.outbox_targets (outbox_id, target_id) values ($1, 999999)',
    [id],
  );
  await outbox.push(short);
  await outbox.expectRow(id, {
    status: 'dead',
    last_error: expect.stringContaining('does not have the order 999999 any more'),
  });
});

test('a row whose order existed before says that its documents were not sent', async () => {
  await outbox.sendOrder('SO-1', {}, short);
  const id = await outbox.insertOrder('SO-1', { attachments });
  await outbox.pushRounds(4);
  await outbox.expectRow(id, {
    status: 'dead',
    last_error: expect.stringContaining('the attachments of this row were not sent'),
  });
  expect(await database.query('select id from fulfilment.documents')).toEqual([]);
});

test('a row that is inserted twice attaches its documents once', async () => {
  await outbox.insertOrder('SO-1', { attachments });
  const second = await outbox.insertOrder('SO-1', { attachments });
  await outbox.pushRounds(4);
  await outbox.cancel(second);
  await outbox.pushRounds(1);
  expect(await readDocuments()).toEqual({ 'SO-1': ['first.pdf', 'second.pdf'] });
});

test('an order with the number of another order of the outbox is dead, unless the address is the same', async () => {
  for (const more of [
    {},
    { reference: 'R' },
    { deliveryAddress: { ...address, lastName: 'Jansen' } },
  ])
    await outbox.insertOrder('SO-1', more);
  await outbox.pushRounds(3);
  expect(await outbox.statuses()).toEqual(['done', 'done', 'dead']);
  const [, , other] = await outbox.rows();
  expect(other?.last_error).toMatch(/^outbox row \d+ made the order with this number, to another/);
});
