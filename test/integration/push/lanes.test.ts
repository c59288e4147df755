import { expect, test } from 'vitest';
import { findFreedLanes, releaseLanes } from '../../../src/push/sql/lanes.ts';
import { actOnOutbox } from '../../../src/push/sql/operator-actions.ts';
import { readOutbox } from '../../../src/push/sql/read-outbox.ts';
import { useDatabase } from '../../helpers/database.ts';
import { orderPayload } from '../../helpers/order-payload.ts';
import { usePusher } from '../../helpers/pusher.ts';
import { quiet, useSandbox } from '../../helpers/sandbox.ts';
import { waitFor } from '../../helpers/wait.ts';

const database = useDatabase();
const sandbox = useSandbox(['default'], quiet);
const outbox = usePusher(database, sandbox);

/**
 * Pushes an order that cannot be sent, an update and a cancellation behind it, and an order of
 * another lane.
 */
async function pushDeadOrder() {
  const head = await outbox.insert(
    'order.create',
    'SO-1',
    orderPayload('SO-1', { locale: undefined }),
  );
  const update = await outbox.insert('order.update', 'SO-1', { reference: 'new' });
  const cancel = await outbox.insert('order.cancel', 'SO-1');
  const other = await outbox.insert('order.create', 'SO-2', orderPayload('SO-2'));
  await outbox.push();
  return { head, update, cancel, other };
}

/** Returns the ids of the rows behind each open row, by its id. */
async function readRowsBehind(): Promise<Record<number, number[]>> {
  const rows = await database.query<{ id: number; behind: number[] }>(
    'select id, to_json(rows_behind) as behind from fulfilment.outbox_open',
  );
  return Object.fromEntries(rows.map(({ id, behind }) => [id, behind]));
}

test('a row names at most 100 rows behind it', async () => {
  const head = await outbox.insert('order.cancel', 'SO-1');
  await database.query(`
    insert into fulfilment.outbox (kind, reference)
    select 'order.cancel', 'SO-1' from generate_series(1, 150)`);
  const { [head]: behind } = await readRowsBehind();
  expect(behind).toEqual(Array.from({ length: 100 }, (_, n) => head + 1 + n));
});

test('a dead row blocks the rows behind it until it is replaced, and is shown as the reason', async () => {
  const { head, update, cancel, other } = await pushDeadOrder();
  expect((await outbox.rows()).map(({ status }) => status)).toEqual([
    'dead',
    'pending',
    'pending',
    'done',
  ]);
  const open = await database.query(
    'select id, waits_for, because from fulfilment.outbox_open order by id',
  );
  const reason = `row ${head} (order.create) of the same reference comes first and is dead: the payload cannot be sent: locale: is missing`;
  expect(open).toEqual([
    { id: head, waits_for: null, because: 'the payload cannot be sent: locale: is missing' },
    { id: update, waits_for: head, because: reason },
    { id: cancel, waits_for: head, because: reason },
  ]);
  expect(await readRowsBehind()).toEqual({
    [head]: [update, cancel],
    [update]: [cancel],
    [cancel]: [],
  });
  expect(await readOutbox(database.db, head)).toMatchObject({ rowsBehind: [update, cancel] });
  expect(await readOutbox(database.db, other)).toMatchObject({ rowsBehind: [] });
  await database.query('select fulfilment.outbox_replace($1, $2)', [
    head,
    JSON.stringify(orderPayload('SO-1')),
  ]);
  await outbox.push();
  expect((await outbox.rows()).map(({ status }) => status)).toEqual([
    'done',
    'done',
    'done',
    'done',
  ]);
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
  expect(other).toBeGreaterThan(cancel);
});

test('a cancelled row unblocks its lane at once', async () => {
  const { head, update } = await pushDeadOrder();
  await database.query('select fulfilment.outbox_cancel($1)', [head]);
  await outbox.push();
  // The service has no order to update. So the update is dead, and blocks the cancellation behind
  // it.
  expect((await outbox.rows()).map(({ status }) => status)).toEqual([
    'cancelled',
    'dead',
    'pending',
    'done',
  ]);
  await expect(database.query('select fulfilment.outbox_cancel($1)', [head])).rejects.toThrow(
    `outbox row ${head} is cancelled: only pending and dead rows can be cancelled`,
  );
  await expect(database.query("select fulfilment.outbox_replace(999999, '{}')")).rejects.toThrow(
    'outbox row 999999 does not exist',
  );
  await expect(
    database.query('select fulfilment.outbox_replace($1, null)', [update]),
  ).rejects.toThrow('payload must not be null');
});

test('an attachment that a person has to decide holds only the rows that need it', async () => {
  await outbox.insert('order.create', 'SO-1', orderPayload('SO-1'));
  await outbox.push();
  const attachment = await outbox.insert('order_attachment.create', 'SO-1', {
    filename: 'a.pdf',
    content: 'bm8=',
  });
  await database.query(
    "update fulfilment.outbox set status = 'unknown', written_at = now() - interval '1 day', next_attempt_at = null where id = $1",
    [attachment],
  );
  const update = await outbox.insert('order.update', 'SO-1', { reference: 'new' });
  await outbox.push();
  expect(await outbox.row(update)).toMatchObject({ status: 'pending', attempts: 0 });
  await database.query('select fulfilment.outbox_cancel($1)', [update]);
  const cancel = await outbox.insert('order.cancel', 'SO-1');
  await outbox.push();
  expect(await outbox.row(cancel)).toMatchObject({ status: 'done', result: { modified: true } });
});

test('a row that is marked as done unblocks its lane, and its follow-ups are inserted', async () => {
  const { writePage } = await import('../../../src/sandbox/rules/pdf.ts');
  const content = (await writePage(['x'])).toString('base64');
  const attachments = [
    { filename: 'a.pdf', content },
    { filename: 'b.pdf', content },
  ];
  const head = await outbox.insert(
    'order.create',
    'SO-1',
    orderPayload('SO-1', { locale: undefined, attachments }),
  );
  const behind = await outbox.insert('order.cancel', 'SO-1');
  await outbox.push();
  expect(await outbox.row(behind)).toMatchObject({ status: 'pending', attempts: 0 });
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
  expect(new Set((await outbox.rows()).map(({ status }) => status))).toEqual(new Set(['dead']));
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
  const create = await outbox.insert(
    'order.create',
    'SO-1',
    orderPayload('SO-1', { onHold: true }),
  );
  await outbox.push();
  await sandbox.faults({
    operation: 'v2.order.release',
    effect: { status: 503, retryAfter: '60' },
  });
  const release = await outbox.insert('order.release', 'SO-1');
  await outbox.push();
  const { next_attempt_at: nextTry } = await outbox.row(release);

  const lanes = await findFreedLanes(database.db, [create]);
  expect(lanes).toHaveLength(1);
  expect(await releaseLanes(database.db, lanes)).toMatchObject({ due: 0, released: 0 });
  expect((await outbox.row(release)).next_attempt_at).toEqual(nextTry);
});

test('a row that is inserted after a long blocked lane does not wait for it', async () => {
  await outbox.insert('order.create', 'SO-1', orderPayload('SO-1', { locale: undefined }));
  await outbox.push();
  await database.query(
    "insert into fulfilment.outbox (kind, reference) select 'order.cancel', 'SO-1' from generate_series(1, 1500)",
  );
  const other = await outbox.insert('order.create', 'SO-2', orderPayload('SO-2'));
  await outbox.push();
  expect(await outbox.row(other)).toMatchObject({ status: 'done' });
  const postponed =
    "fulfilment.outbox where status = 'pending' and next_attempt_at > now() + interval '9 minutes'";
  expect(await database.count(postponed)).toBe(1500);
});

test('later rows wait until an attempt that was cut off can no longer undo them', async () => {
  await outbox.insert('order.create', 'SO-1', orderPayload('SO-1'));
  await outbox.push();
  await sandbox.faults({
    operation: 'v3.orders.update',
    count: 1,
    effect: { reset: true, effectAfterMs: 500 },
  });
  const first = await outbox.insert('order.update', 'SO-1', { reference: 'first' });
  const second = await outbox.insert('order.update', 'SO-1', { reference: 'second' });
  await outbox.push();
  await database.query(
    "update fulfilment.outbox set next_attempt_at = now() where status = 'pending' and attempts > 0",
  );
  await outbox.push();
  expect(await outbox.row(first)).toMatchObject({ status: 'done', attempts: 2 });
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
