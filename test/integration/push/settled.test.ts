import { sql } from 'kysely';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { Listener } from '../../../src/db/listener.ts';
import { appendChanges } from '../../../src/pull/sql/feed.ts';
import { takeOverClaims } from '../../../src/push/sql/lost-rows.ts';
import { numberFeed } from '../../helpers/feed.ts';
import { once, usePushes } from '../../helpers/pusher.ts';
import { waitFor } from '../../helpers/wait.ts';

const { database, sandbox, outbox } = usePushes();

/**
 * What a session heard on `fulfilment_outbox_settled`. The first text is empty: the listener is
 * connected.
 */
let heard: string[] = [];
let listener: Listener;
const readHeard = () => heard.slice(1).map(Number);
beforeEach(async () => {
  heard = [];
  listener = new Listener({
    databaseUrl: database.url,
    channel: 'fulfilment_outbox_settled',
    onNotify: (payload) => heard.push(payload),
    onError: () => undefined,
  });
  await waitFor('the listener', () => heard.length > 0);
});
afterEach(() => listener.close());

const readEntries = () =>
  database.query<{ id: number }>(
    `select client, id, key, operation from fulfilment.changes where entity = 'outbox' order by seq`,
  );
const entryOf = (id: number) => ({ client: 'default', id, key: null, operation: 'updated' });

/** Inserts a row in the state that the columns say. */
async function insertAs(
  reference: string,
  columns: Readonly<Record<string, string>>,
): Promise<number> {
  const names = Object.keys(columns).map((name) => `, ${name}`);
  const values = Object.values(columns).map((value) => `, ${value}`);
  const [row] = await database.query<{ id: number }>(
    `insert into fulfilment.outbox (kind, reference, payload${names.join('')})
     values ('return_label.create', $1, '{}'${values.join('')}) returning id`,
    [reference],
  );
  return row?.id ?? 0;
}
/** Columns of a row whose worker was lost. */
const lost = {
  status: `'sending'`,
  next_attempt_at: 'null',
  lease_until: `now() - interval '1 second'`,
  claim_no: `nextval('sync.read_no')`,
  attempts: '1',
};

describe('an entry of the feed and a notification', () => {
  test('are written when a push settles a row, and not while it is pending or being sent', async () => {
    await sandbox.faults(once('v3.orders.create', { status: 500 }));
    const unknown = await outbox.insertOrder('SO-1');
    await outbox.push({ HTTP_TIMEOUT_MS: '300' });
    const { id: done } = await outbox.sendOrder('SO-2');
    const { id: dead } = await outbox.sendOrder('SO "3"', { locale: undefined });
    expect(await readEntries()).toEqual([unknown, done, dead].map(entryOf));
    expect(
      await database.query(
        'select changed_columns as columns from fulfilment.changes where id = $1',
        [done],
      ),
    ).toEqual([{ columns: ['status', 'result', 'finished_at'] }]);
    await waitFor('three notifications', () => readHeard().length === 3);
    expect(readHeard()).toEqual([unknown, done, dead]);
  });

  test('are written for what the ERP cancels, and for a replaced row once it is settled', async () => {
    const [cancelled, replaced] = [
      await outbox.insert('order.cancel', 'A'),
      await outbox.insert('order.cancel', 'B'),
    ];
    await database.db.transaction().execute(async (trx) => {
      await sql`set local role fulfilment_writer`.execute(trx);
      await sql`select fulfilment.outbox_cancel(${cancelled})`.execute(trx);
      await sql`select fulfilment.outbox_replace(${replaced}, '{"wrong": 1}')`.execute(trx);
    });
    await numberFeed(database.db);
    expect(await readEntries()).toEqual([entryOf(cancelled)]);
    await outbox.push();
    expect(await readEntries()).toEqual([cancelled, replaced].map(entryOf));
    await waitFor('two notifications', () => readHeard().length === 2);
    expect(readHeard()).toEqual([cancelled, replaced]);
  });

  test('are written when a claim is taken over and the row becomes unknown or dead', async () => {
    const unknown = await insertAs('A', { ...lost, sent_at: 'now()' });
    const [dead, pending] = [await insertAs('B', lost), await insertAs('C', lost)];
    await database.query(
      `insert into sync.outbox_attempts (outbox_id, step, by, became)
       select $1, 'taken over', 'test', 'pending' from generate_series(1, 4)`,
      [dead],
    );
    await takeOverClaims(database.db, 'test', { 'return_label.create': 'ask operator' });
    expect((await outbox.row(pending)).status).toBe('pending');
    await numberFeed(database.db);
    const entries = await readEntries();
    expect(entries.map(({ id }) => id).sort()).toEqual([unknown, dead]);
    expect(
      await database.query('select changed_columns from fulfilment.changes where id = $1', [dead]),
    ).toEqual([{ changed_columns: ['status', 'attempts', 'last_error', 'finished_at'] }]);
  });
});

test('an ERP that cancels a row and stays in its transaction holds up no entry of others', async () => {
  const id = await outbox.insert('order.cancel', 'A');
  const erp = await database.open(1).startTransaction().execute();
  await sql`select fulfilment.outbox_cancel(${id})`.execute(erp);
  const change = {
    entity: 'shipments',
    id: 7,
    operation: 'updated',
    changedColumns: ['status'],
  } as const;
  await database.db.transaction().execute((trx) => appendChanges(trx, 'default', [change]));
  await numberFeed(database.db);
  await erp.commit().execute();
  await numberFeed(database.db);
  expect(await database.query('select entity, id from fulfilment.changes order by seq')).toEqual([
    { entity: 'shipments', id: 7 },
    { entity: 'outbox', id },
  ]);
});
