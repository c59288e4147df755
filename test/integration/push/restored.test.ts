import { beforeEach, describe, expect, test } from 'vitest';
import {
  acceptDatabase,
  type OperatorAnswer,
  readPushDatabase,
} from '../../../src/push/sql/push-database.ts';
import { done } from '../../helpers/puller.ts';
import { usePushes } from '../../helpers/pusher.ts';
import { insertHealth } from '../../helpers/service-health.ts';
import { waitFor } from '../../helpers/wait.ts';

const { database, sandbox, outbox, pull } = usePushes();

const accept = (as: OperatorAnswer) => acceptDatabase(database.db, as, 'operator');
const slip = {
  expectedIn: 'AMS',
  expectedOn: '2026-06-01',
  items: [{ sku: 'MUG-BLUE', quantity: 5 }],
};

interface ResourceCounts {
  readonly orders: number;
  readonly returns: number;
  readonly slips: number;
}
/** Counts the resources that the service has. */
async function countAtService(): Promise<ResourceCounts> {
  const { clients } = await sandbox.call<{ clients: Record<string, unknown[]>[] }>(
    'GET',
    '/_sandbox/state',
  );
  const [lists = {}] = clients;
  return {
    orders: lists.orders?.length ?? 0,
    returns: lists.returnMerchandiseAuthorizations?.length ?? 0,
    slips: lists.inboundPackingSlips?.length ?? 0,
  };
}
/** Reads kind and status of the rows, in the order of their ids. */
const readStatuses = async () =>
  (await outbox.rows()).map(({ kind, status }) => `${kind} ${status}`);

/** Inserts one row for each way in which an unknown row is settled. */
async function insertRows(): Promise<void> {
  const [line] = await database.query<{ shipment_id: number; id: number }>(
    "select shipment_id, id from fulfilment.shipment_items where sku <> '' order by id limit 1",
  );
  await outbox.insertOrder('SO-1');
  await outbox.insert('return.create', 'RET-1', {
    shipmentId: line?.shipment_id,
    items: [{ shipmentItemId: line?.id, quantity: 1, reason: 'DAMAGED' }],
  });
  await outbox.insert('inbound_packing_slip.create', 'SLIP-1', slip);
}

describe('a database that was restored from a backup', () => {
  let before: ResourceCounts;
  beforeEach(async () => {
    await sandbox.seed(1);
    done(await pull('pull-shipments'));
    before = await countAtService();
    await insertRows();
    await database.backUp();
    await outbox.push();
    expect(await readStatuses()).toEqual([
      'order.create done',
      'return.create done',
      'inbound_packing_slip.create done',
    ]);
    await outbox.close();
    await database.restore();
  });
  const countsAfterOneSend = () => ({
    orders: before.orders + 1,
    returns: before.returns + 1,
    slips: before.slips + 1,
  });

  test('sends nothing until an operator says what it is; pulls continue', async () => {
    const place = await sandbox.lastPlace();
    await outbox.sendOrder('SO-2');
    expect((await sandbox.requests(place)).filter(({ method }) => method !== 'GET')).toEqual([]);
    expect(await readPushDatabase(database.db)).toMatchObject({
      change: 'database',
      changedAt: expect.any(Date),
    });
    const open = await database.query<{ because: string }>(
      'select distinct because from fulfilment.outbox_open',
    );
    expect(open).toEqual([{ because: expect.stringContaining('database accept') }]);
    done(await pull('pull-shipments'));
    expect(await countAtService()).toEqual(countsAfterOneSend());
  });

  test('restored: rows of the backup are looked up or left to the operator, later rows are sent', async () => {
    await outbox.push();
    const id = await outbox.insertOrder('SO-2');
    await insertHealth(database, { code: 'no_answer', sendWindow: 0 });
    expect(await accept('restored')).toEqual({ lookedUp: 2, toDecide: 1 });
    expect(await database.count('sync.service_health')).toBe(0);
    await outbox.pushRounds(4);
    expect(await readStatuses()).toEqual([
      'order.create done',
      'return.create unknown',
      'inbound_packing_slip.create done',
      'order.create done',
    ]);
    await outbox.expectRow(id, { attempts: 1 });
    expect(await countAtService()).toEqual({ ...countsAfterOneSend(), orders: before.orders + 2 });
  });

  test('restored: a row that the service does not know is sent after two look-ups', async () => {
    await outbox.sendOrder('SO-3');
    await accept('restored');
    await outbox.pushRounds(4);
    expect(await outbox.rows("reference = 'SO-3'")).toMatchObject([
      { status: 'done', attempts: 1 },
    ]);
    expect(await countAtService()).toEqual({ ...countsAfterOneSend(), orders: before.orders + 2 });
  });

  test('copy: nothing is ever sent from it', async () => {
    await outbox.push();
    await accept('copy');
    await outbox.sendOrder('SO-2');
    expect(new Set(await outbox.statuses())).toEqual(new Set(['pending']));
    expect(await countAtService()).toEqual(countsAfterOneSend());
    expect(await readPushDatabase(database.db)).toMatchObject({
      change: 'none',
      acceptedAs: 'copy',
    });
  });
});

test('restored, after copy: every open row becomes unknown, with what can be done about it', async () => {
  await outbox.insert('product.save', 'A', { name: 'A' });
  await outbox.insert('order.cancel', 'SO-1');
  await outbox.insert('return.create', 'RET-1');
  await accept('copy');
  expect(await accept('restored')).toEqual({ lookedUp: 0, toDecide: 3 });
  const why =
    'the former one may have sent this row after the backup. It may have been carried out';
  const again = `${why}. Retry it to send it again, which does no harm, or mark it as done`;
  expect(await outbox.rows()).toMatchObject([
    { status: 'unknown', last_error: expect.stringContaining(again) },
    { status: 'unknown', last_error: expect.stringContaining(again) },
    { status: 'unknown', last_error: expect.stringContaining(`${why}, and the service cannot`) },
  ]);
});

test('moved: rows are sent as before', async () => {
  await outbox.insertOrder('SO-1');
  await database.backUp();
  await database.restore();
  await outbox.push();
  expect(await readStatuses()).toEqual(['order.create pending']);
  await accept('moved');
  await outbox.push();
  expect(await readStatuses()).toEqual(['order.create done']);
});

test('a row that was sending in the backup is not sent again', async () => {
  await outbox.insert('inbound_packing_slip.create', 'SLIP-1', slip);
  await database.query(`
    update fulfilment.outbox set status = 'sending', next_attempt_at = null, lease_until = now(), attempts = 1,
      claim_no = nextval('sync.read_no')`);
  await database.backUp();
  await database.restore();
  await outbox.push();
  await accept('restored');
  expect(await outbox.rows()).toMatchObject([{ status: 'unknown', written_at: expect.any(Date) }]);
});

test('restored: an order that is looked up already is not believed absent soon', async () => {
  const id = await outbox.insertOrder('SO-1');
  await database.query(`
    update fulfilment.outbox set status = 'unknown', attempts = 1, absences = 1,
      claim_no = nextval('sync.read_no'), written_at = now() - interval '1 hour',
      absent_at = now() - interval '1 minute'`);
  await database.backUp();
  await database.restore();
  await outbox.push();
  await accept('restored');
  await outbox.push();
  await outbox.expectRow(id, { status: 'unknown', attempts: 1, absences: 0 });
});

test.each([
  ['pending', ''],
  ['dead', ", next_attempt_at = null, finished_at = now(), last_error = 'x'"],
])(
  'restored: an attempt with a former payload is still told apart in a %s row',
  async (status, columns) => {
    await outbox.insertOrder('SO-1');
    await outbox.insertOrder('SO-2');
    await database.query(`
    update fulfilment.outbox
    set status = '${status}', written_at = now() - interval '1 hour', replaced_at = now() ${columns}
    where reference = 'SO-1'`);
    await database.backUp();
    await database.restore();
    await outbox.push();
    await accept('restored');
    const isReplaced =
      'select replaced_at > written_at as replaced from fulfilment.outbox order by id';
    expect(await database.query(isReplaced)).toEqual([{ replaced: true }, { replaced: null }]);
  },
);

test('restored, with the same database mark: every open row counts as a row of the backup', async () => {
  await outbox.insert('order.cancel', 'SO-1');
  await database.query(
    `insert into sync.push_database (mark, accepted_as, accepted_by) values (sync.database_mark(), 'first', 'w')`,
  );
  expect(await accept('restored')).toEqual({ lookedUp: 0, toDecide: 1 });
  expect(await readStatuses()).toEqual(['order.cancel unknown']);
});

test('restored: a dead row of the backup says that it may have been sent', async () => {
  const id = await outbox.insert('return.create', 'RET-1');
  await database.query(
    `update fulfilment.outbox set status = 'dead', next_attempt_at = null, finished_at = now(), last_error = 'refused'`,
  );
  await outbox.insert('order.cancel', 'SO-1');
  await database.backUp();
  await database.restore();
  await outbox.push();
  await accept('restored');
  await accept('restored');
  await outbox.expectRow(id, {
    status: 'dead',
    written_at: expect.any(Date),
    last_error: expect.stringMatching(/^refused; the database was restored[^;]*$/),
  });
});

test('a restored database without outbox rows sends without being accepted', async () => {
  await database.backUp();
  await database.restore();
  await outbox.sendOrder('SO-1');
  expect(await readStatuses()).toEqual(['order.create done']);
});

test('track-trace is not requested within an hour after the restore', async () => {
  await outbox.insertOrder('SO-1');
  await database.query(`
    insert into sync.turns (name, scope, client, next_at, taken_at) values ('track-trace', 'x', 'default', now(), now())`);
  await database.backUp();
  await database.restore();
  await outbox.push();
  const [gate] = await database.query(
    "select next_at > now() + interval '59 minutes' as waits from sync.turns",
  );
  expect(gate).toEqual({ waits: true });
});

test('a worker that misses what it has sent does not let the new primary be accepted', async () => {
  await outbox.insertOrder('SO-1');
  const worker = await outbox.start();
  try {
    await waitFor(
      'the order to be sent',
      async () => (await outbox.rows("status = 'done'")).length > 0,
    );
    // As on a standby that was promoted before the claim of the row had reached it.
    await database.query(`
      update sync.push_database set mark = regexp_replace(mark, '[^/]*$', '00000000');
      update fulfilment.outbox set status = 'pending', attempts = 0, claim_no = null, result = null,
        finished_at = null, next_attempt_at = now() + interval '1 hour'`);
    const readState = async () =>
      (
        await database.query<{ as: string; changed: boolean; missing: boolean }>(`
          select accepted_as as "as", changed_at is not null as changed, exists (
            select from sync.push_workers where seen_at > d.changed_at and confirmed_mark is null
          ) as missing
          from sync.push_database d`)
      )[0];
    await waitFor('the change to be found', async () => (await readState())?.changed === true);
    await database.query(
      "update sync.push_database set changed_at = now() - interval '11 seconds'",
    );
    await database.query("update sync.push_workers set seen_at = now() - interval '20 seconds'");
    await waitFor('the worker to report', async () => {
      const state = await readState();
      return state?.missing === true || state?.as === 'failover';
    });
    expect(await readState()).toMatchObject({ as: 'first', changed: true });
  } finally {
    await worker.stop(1_000);
  }
});
