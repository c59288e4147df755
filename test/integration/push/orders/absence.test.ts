import { describe, expect, test } from 'vitest';
import { orderBody, useClient } from '../../../helpers/client.ts';
import { lostAnswer, lostRequest, once, short, usePushes } from '../../../helpers/pusher.ts';

const { database, sandbox, outbox, pull } = usePushes();
const client = useClient(sandbox);
const loseAnswer = () => sandbox.faults(once('v3.orders.create', lostAnswer));
const loseRequest = () => sandbox.faults(once('v3.orders.create', lostRequest));
/** A service whose filter finds no number with a comma, and which takes a number twice. */
const careless = { decodesBeforeSplit: true, repeatedNumbers: true };

const countPosts = () => sandbox.count('v3.orders.create');

describe('an order that the filter of the service cannot find', () => {
  test.each([
    ['of its days', {}],
    ['of the day that its row names', { orderedOn: '2020-02-29' }],
  ])('is found in the list %s, and not sent again', async (_which, changes) => {
    await sandbox.switches(careless);
    await loseAnswer();
    const id = await outbox.insertOrder('A,1', changes);
    await outbox.pushRounds(5);
    await outbox.expectRow(id, { status: 'done', attempts: 1 });
    expect(await sandbox.orderNumbers()).toEqual(['A,1']);
  });

  test('is found after the service refuses the next attempt because the number is taken', async () => {
    await sandbox.switches({ decodesBeforeSplit: true });
    await loseAnswer();
    const { id } = await outbox.sendOrder('A,1', {}, short);
    // Simulates two absences that were believed.
    await outbox.believeAbsent(id);
    await outbox.push(short);
    expect(await countPosts()).toBe(2);
    await outbox.pushRounds(5);
    await outbox.expectRow(id, { status: 'done', attempts: 2, last_error: null });
    expect(await sandbox.orderNumbers()).toEqual(['A,1']);
  });

  test('is read by its id, until the service does not answer for one of them', async () => {
    await sandbox.switches(careless);
    await sandbox.faults({ operation: 'v3.orders.create', count: 3, effect: lostAnswer });
    for (const number of ['A,1', 'A,2', 'A,3']) await outbox.insertOrder(number);
    await outbox.push(short);
    await pull('pull-orders');
    await sandbox.faults({ operation: 'v3.orders.get', effect: { noAnswer: true } });
    const before = await sandbox.count('v3.orders.get');
    await outbox.hurry();
    await outbox.push(short);
    expect((await sandbox.count('v3.orders.get')) - before).toBe(1);
    await sandbox.clearFaults();
    await outbox.hurry();
    await outbox.push(short);
    expect(await outbox.statuses()).toEqual(['done', 'done', 'done']);
  });

  test('is dead if another program made it otherwise, and done if it made the same', async () => {
    await sandbox.switches({ decodesBeforeSplit: true });
    const rows = [];
    for (const number of ['A,1', 'A,2']) rows.push(await outbox.insertOrder(number));
    await outbox.push(short);
    await database.query('truncate fulfilment.orders cascade');
    await database.query("update fulfilment.outbox set status = 'cancelled', result = null");
    const same = await outbox.insertOrder('A,1');
    const other = await outbox.insertOrder('A,2', { items: [{ sku: 'MUG-BLUE', quantity: 5 }] });
    await outbox.pushRounds(2);
    await outbox.expectRow(same, {
      status: 'done',
      result: { note: expect.stringContaining('only articles and quantities were compared') },
    });
    await outbox.expectRow(other, {
      status: 'dead',
      last_error: expect.stringContaining('it has 2 x MUG-BLUE, but the row asks for 5 x MUG-BLUE'),
    });
  });
});

describe('a number that the service may have stored in another form', () => {
  test.each([
    ['so-1', 'SO-1'],
    ['SO 1', 'SO1'],
    ['Cafe\u0301', 'CAF\u00c9'],
  ])('%j is not sent again while the list of its days shows %j', async (asked, stored) => {
    await sandbox.switches(careless);
    await loseRequest();
    const { id } = await outbox.sendOrder(asked, {}, short);
    await client.ask('v3.orders.create', { body: orderBody(stored) });
    await outbox.hurry();
    await outbox.pushRounds(5);
    await outbox.expectRow(id, {
      status: 'unknown',
      attempts: 1,
      next_attempt_at: null,
      last_error: expect.stringContaining(`has the number «${stored}»`),
    });
    expect(await sandbox.orderNumbers()).toEqual([stored]);
  });
});

describe('an order that was not carried out', () => {
  test('is sent again although the list has a number that is too long to be compared', async () => {
    await client.ask('v3.orders.create', { body: orderBody('SO-9') });
    await sandbox.switches(careless);
    await loseRequest();
    const id = await outbox.insertOrder('A,1');
    await outbox.pushRounds(2);
    const tooLong = `A,1${' '.repeat(1_000)}`;
    await sandbox.faults({
      operation: 'v3.orders.list',
      effect: {
        set: [{ path: ['data', 0, 'attributes', 'externalOrderNumber'], value: tooLong }],
      },
    });
    await outbox.pushRounds(4);
    await outbox.expectRow(id, { status: 'done', attempts: 2 });
  });

  test('is sent again once neither its number nor the list of its days shows it', async () => {
    await sandbox.switches(careless);
    await loseRequest();
    const id = await outbox.insertOrder('A,1');
    await outbox.pushRounds(2);
    await outbox.expectRow(id, { status: 'unknown', attempts: 1 });
    await outbox.pushRounds(2);
    await outbox.expectRow(id, { status: 'done', attempts: 2 });
    const walks = (await sandbox.requests()).filter(({ query }) => query?.includes('orderedOn'));
    expect(walks).toHaveLength(1);
  });

  test('waits with a reason while the list of its days cannot be read', async () => {
    await sandbox.faults(once('v3.orders.create', lostRequest), {
      operation: 'v3.orders.list',
      after: 2,
      count: 9,
      effect: { status: 404 },
    });
    const id = await outbox.insertOrder('SO-1');
    await outbox.pushRounds(2);
    // The third look-up finds nothing by the number, and cannot read the list.
    await sandbox.clearFaults();
    await sandbox.faults({
      operation: 'v3.orders.list',
      after: 1,
      count: 9,
      effect: { status: 404 },
    });
    await outbox.push(short);
    await outbox.expectRow(id, {
      status: 'unknown',
      attempts: 1,
      last_error: expect.stringMatching(
        /^not found by its number, which proves nothing yet; .*404/,
      ),
    });
    await sandbox.clearFaults();
    await outbox.hurry();
    await outbox.pushRounds(1);
    await outbox.expectRow(id, { status: 'done', attempts: 2 });
  });

  test('is not believed absent by a list of days that lacks an order of the tables', async () => {
    await outbox.sendOrder('SO-0', {}, short);
    await loseRequest();
    const id = await outbox.insertOrder('SO-1');
    await outbox.pushRounds(2);
    await sandbox.faults({
      operation: 'v3.orders.list',
      count: 9,
      effect: { set: [{ path: ['data'], value: [] }] },
    });
    await outbox.push(short);
    await outbox.expectRow(id, {
      status: 'unknown',
      last_error: expect.stringMatching(/lacks order \d+; the look-up is tried again$/),
    });
  });
});

test('an order that our tables had before the first send is compared with the row', async () => {
  await outbox.sendOrder('SO-1', {}, short);
  await database.query("update fulfilment.outbox set status = 'cancelled', result = null");
  await database.query("update fulfilment.orders set first_seen_at = now() - interval '1 day'");
  await sandbox.switches({ repeatedNumbers: true });
  await loseRequest();
  const items = [{ sku: 'MUG-BLUE', quantity: 5 }];
  const id = await outbox.insertOrder('SO-1', { items });
  await outbox.pushRounds(2);
  await outbox.expectRow(id, {
    status: 'dead',
    last_error: expect.stringContaining(
      'the service already has one that no attempt of this row created',
    ),
  });
});
