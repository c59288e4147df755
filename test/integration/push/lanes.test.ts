import { expect, test } from 'vitest';
import { findFreedLanes, releaseLanes } from '../../../src/push/sql/lanes.ts';
import { actOnOutbox } from '../../../src/push/sql/operator-actions.ts';
import { readOutbox } from '../../../src/push/sql/read-outbox.ts';
import { orderPayload } from '../../helpers/order-payload.ts';
import { once, usePushes } from '../../helpers/pusher.ts';
import { waitFor } from '../../helpers/wait.ts';

const { database, sandbox, outbox } = usePushes();

/**
 * Pushes an order that cannot be sent, an update and a cancellation behind it, and an order of
 * another lane.
 */
async function pushDeadOrder() {
  const head = await outbox.insertOrder('SO-1', { locale: undefined });
  const update = await outbox.insert('order.update', 'SO-1', { reference: 'new' });
  const cancel = await outbox.insert('order.cancel', 'SO-1');
  const { id: other } = await outbox.sendOrder('SO-2');
  return { head, update, cancel, other };
}

test('a dead row blocks the rows behind it until it is replaced, and is shown as the reason', async () => {
  const { head, update, cancel, other } = await pushDeadOrder();
  expect(await outbox.statuses()).toEqual(['dead', 'pending', 'pending', 'done']);
  const reason = `row ${head} (order.create) of the same reference comes first and is dead: the payload cannot be sent: locale: is missing`;
  expect(await outbox.readBecause(update)).toBe(reason);
  expect(await outbox.readBecause(cancel)).toBe(reason);
  expect(
    await database.query(
      'select id, waits_for, to_json(rows_behind) as behind from fulfilment.outbox_open order by id',
    ),
  ).toEqual([
    { id: head, waits_for: null, behind: [update, cancel] },
    { id: update, waits_for: head, behind: [cancel] },
    { id: cancel, waits_for: head, behind: [] },
  ]);
  expect(await readOutbox(database.db, head)).toMatchObject({ rowsBehind: [update, cancel] });
  expect(await readOutbox(database.db, other)).toMatchObject({ rowsBehind: [] });
  await outbox.replace(head, orderPayload('SO-1'));
  await outbox.push();
  expect(await outbox.statuses()).toEqual(['done', 'done', 'done', 'done']);
  const calls = (await sandbox.requests())
    .map(({ operation }) => operation)
    .filter((name) => name !== 'v3.orders.get');
  expect(calls.slice(-3)).toEqual(['v3.orders.create', 'v3.orders.update', 'v3.orders.cancel']);
  const history = await database.query(
    'select step, became from sync.outbox_attempts where outbox_id = $1 order by id',
    [head],
  );
  expect(history).toEqual([
    { step: 'checked', became: 'dead' },
    { step: 'replaced', became: 'pending' },
    { step: 'sent', became: 'done' },
  ]);
});

test('a cancelled row unblocks its lane at once', async () => {
  const { head, update } = await pushDeadOrder();
  await outbox.cancel(head);
  await outbox.push();
  // The service has no order to update. So the update is dead, and blocks the cancellation behind
  // it.
  expect(await outbox.statuses()).toEqual(['cancelled', 'dead', 'pending', 'done']);
  await expect(outbox.cancel(head)).rejects.toThrow('only pending and dead rows can be cancelled');
  await expect(database.query("select fulfilment.outbox_replace(999999, '{}')")).rejects.toThrow(
    'outbox row 999999 does not exist',
  );
  await expect(
    database.query('select fulfilment.outbox_replace($1, null)', [update]),
  ).rejects.toThrow('payload must not be null');
});

test('an attachment that a person has to decide holds only the rows that need it', async () => {
  await outbox.sendOrder('SO-1');
  const attachment = await outbox.insert('order_attachment.create', 'SO-1', {
    filename: 'a.pdf',
    content: 'bm8=',
  });
  await database.query(
    "update fulfilment.outbox set status = 'unknown', written_at = now() - interval '1 day', next_attempt_at = null where id = $1",
    [attachment],
  );
  const { id: update } = await outbox.send('order.update', 'SO-1', { reference: 'new' });
  await outbox.expectRow(update, { status: 'pending', attempts: 0 });
  await outbox.cancel(update);
  expect(await outbox.send('order.cancel', 'SO-1')).toMatchObject({
    status: 'done',
    result: { modified: true },
  });
});

test('a row that is marked as done unblocks its lane, and its follow-ups are inserted', async () => {
  const { writePage } = await import('../../../src/sandbox/rules/pdf.ts');
  const content = (await writePage(['x'])).toString('base64');
  const attachments = [
    { filename: 'a.pdf', content },
    { filename: 'b.pdf', content },
  ];
  const head = await outbox.insertOrder('SO-1', { locale: undefined, attachments });
  const { id: behind } = await outbox.send('order.cancel', 'SO-1');
  await outbox.expectRow(behind, { status: 'pending', attempts: 0 });
  expect(
    await actOnOutbox(database.db, 'done', { ids: [head] }, { by: 'test', result: { orderId: 1 } }),
  ).toEqual([head]);
  await outbox.push();
  const rows = (await outbox.rows()).map(({ kind, status }) => [kind, status]);
  // The row behind does not wait any more. It is dead, because the service has no such order.
  expect(rows).toEqual([
    ['order.create', 'done'],
    ['order.cancel', 'dead'],
    ['order_attachment.create', 'pending'],
  ]);
});

test('rows whose payloads cannot be read can be marked as done', async () => {
  const nested = `{"items": ${'['.repeat(2_500)}${']'.repeat(2_500)}}`;
  const payloads = [
    nested,
    '{"attachments": [{}, null, {"filename": "b.pdf"}]}',
    '{"attachments": 7}',
    '[]',
  ];
  const ids: number[] = [];
  for (const [index, payload] of payloads.entries())
    ids.push(await outbox.insert('order.create', `SO-${index}`, payload));
  await outbox.push();
  expect(new Set(await outbox.statuses())).toEqual(new Set(['dead']));
  expect(await actOnOutbox(database.db, 'done', { ids }, { by: 'test' })).toEqual(ids);
  const followUps = (await outbox.rows(`kind = 'order_attachment.create'`)).map(
    ({ reference, payload }) => [reference, payload],
  );
  expect(followUps).toEqual([
    ['SO-1', null],
    ['SO-1', { filename: 'b.pdf' }],
  ]);
});

test('a row that was tried since its lane was freed waits for its next try', async () => {
  const { id: create } = await outbox.sendOrder('SO-1', { onHold: true });
  await sandbox.faults({
    operation: 'v2.order.release',
    effect: { status: 503, retryAfter: '60' },
  });
  const { id: release } = await outbox.send('order.release', 'SO-1');
  const { next_attempt_at: nextTry } = await outbox.row(release);

  const lanes = await findFreedLanes(database.db, [create]);
  expect(lanes).toHaveLength(1);
  expect(await releaseLanes(database.db, lanes)).toMatchObject({ due: 0, released: 0 });
  expect((await outbox.row(release)).next_attempt_at).toEqual(nextTry);
});

test('a row that is inserted after a long blocked lane does not wait for it', async () => {
  await outbox.sendOrder('SO-1', { locale: undefined });
  await database.query(
    "insert into fulfilment.outbox (kind, reference) select 'order.cancel', 'SO-1' from generate_series(1, 1500)",
  );
  expect(await outbox.sendOrder('SO-2')).toMatchObject({ status: 'done' });
  const postponed =
    "fulfilment.outbox where status = 'pending' and next_attempt_at > now() + interval '9 minutes'";
  expect(await database.count(postponed)).toBe(1500);
});

test('later rows wait until an attempt that was cut off can no longer undo them', async () => {
  await outbox.sendOrder('SO-1');
  await sandbox.faults(once('v3.orders.update', { reset: true, effectAfterMs: 500 }));
  const first = await outbox.insert('order.update', 'SO-1', { reference: 'first' });
  const { id: second } = await outbox.send('order.update', 'SO-1', { reference: 'second' });
  await database.query(
    "update fulfilment.outbox set next_attempt_at = now() where status = 'pending' and attempts > 0",
  );
  await outbox.push();
  await outbox.expectRow(first, { status: 'done', attempts: 2 });
  const waiting = await database.query(
    "select status, next_attempt_at > now() + interval '55 seconds' as later from fulfilment.outbox where id = $1",
    [second],
  );
  expect(waiting).toEqual([{ status: 'pending', later: true }]);
  // A row that is inserted now waits too.
  const third = await outbox.insert('order.update', 'SO-1', { phoneNumber: '020' });
  const updates = (await sandbox.requests()).filter(
    ({ operation }) => operation === 'v3.orders.update',
  );
  expect(updates).toHaveLength(2);
  await waitFor(
    'the effect of the first attempt',
    () => Date.now() > (updates[0]?.atMs ?? 0) + 1_000,
  );
  await outbox.hurry();
  await outbox.push();
  await outbox.push();
  expect((await outbox.row(second)).status).toBe('done');
  expect((await outbox.row(third)).status).toBe('done');
  expect(await database.query('select reference, phone_number from fulfilment.orders')).toEqual([
    { reference: 'second', phone_number: '020' },
  ]);
});
