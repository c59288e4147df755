import { expect, test } from 'vitest';
import { usePushes } from '../../helpers/pusher.ts';

const { database, outbox } = usePushes();

test('a row is not sent before its not_before, whatever wakes it, and then without delay', async () => {
  const first = await outbox.insertOrder('SO-1');
  const [later] = await database.query<{ id: number; next_attempt_at: Date; not_before: Date }>(
    `insert into fulfilment.outbox (kind, reference, payload, not_before)
     values ('order.update', 'SO-1', '{"reference": "later"}', now() + interval '1 hour')
     returning id, next_attempt_at, not_before`,
  );
  const id = later?.id ?? 0;
  expect(later?.next_attempt_at).toEqual(later?.not_before);
  const behind = await outbox.insert('order.cancel', 'SO-1');
  // The settlement of the first row wakes the lane.
  await outbox.push();
  await outbox.expectRow(first, { status: 'done' });
  await outbox.expectRow(id, {
    status: 'pending',
    attempts: 0,
    next_attempt_at: later?.not_before,
  });
  await outbox.expectRow(behind, { status: 'pending', attempts: 0 });
  expect(await outbox.readBecause(id)).toMatch(/^it is not to be sent before \d{4}-/);
  await outbox.replace(id, { reference: 'still later' });
  await outbox.push();
  await outbox.expectRow(id, {
    status: 'pending',
    attempts: 0,
    next_attempt_at: later?.not_before,
  });
  await database.query(
    'update fulfilment.outbox set not_before = now(), next_attempt_at = now() where id = $1',
    [id],
  );
  await outbox.push();
  await outbox.expectRow(id, { status: 'done' });
});
