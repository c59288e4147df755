import { describe, expect, test } from 'vitest';
import { readDeliveryBacklog } from '../../../src/operate/sql/undelivered.ts';
import { actOnOutbox } from '../../../src/push/sql/operator-actions.ts';
import { writePage } from '../../../src/sandbox/rules/pdf.ts';
import { numberFeed } from '../../helpers/feed.ts';
import { done } from '../../helpers/puller.ts';
import { usePushes } from '../../helpers/pusher.ts';

const { database, sandbox, outbox, pull } = usePushes();
const prune = () => pull('prune', { env: { RETENTION_DAYS: '30' } });
const countRows = (table: string, where = 'true') => database.count(`${table} where ${where}`);
const old = `now() - interval '31 days'`;
const young = `now() - interval '29 days'`;

test('the feed is pruned up to its first young entry; a reader that is too late gets an error', async () => {
  const append = (at: string, rows: number) =>
    database.query(`
      insert into fulfilment.changes (client, entity, id, operation, changed_at)
      select 'default', 'shipments', n, 'created', ${at} from generate_series(1, ${rows}) n`);
  await append(old, 4_500);
  await append(young, 2);
  // This transaction began long before the two and was committed after them.
  await append(old, 1);
  expect(done(await prune()).removed).toBe(4_500);
  expect(await countRows('fulfilment.changes')).toBe(3);
  expect(await database.query('select pruned_until from sync.feed_mark')).toEqual([
    { pruned_until: 4_500 },
  ]);
  expect(await database.query('select seq from fulfilment.changes_since(4500)')).toHaveLength(3);
  await expect(database.query('select * from fulfilment.changes_since(4499)')).rejects.toThrow(
    'no longer all kept',
  );
  expect(done(await prune()).removed).toBe(0);
});

test('done and cancelled outbox rows go with their history; all other rows stay, at any age', async () => {
  const insert = (id: number, status: string, at: string) =>
    database.query(`
      insert into fulfilment.outbox (client, kind, reference, status, finished_at, next_attempt_at, result, last_error, written_at)
      values ('default', 'order.create', 'SO-${id}', '${status}',
        ${['done', 'dead', 'cancelled'].includes(status) ? at : 'null'}, ${status === 'pending' ? 'now()' : 'null'},
        ${status === 'done' ? `'{}'` : 'null'}, ${status === 'dead' ? `'x'` : 'null'},
        ${status === 'unknown' ? 'now()' : 'null'})`);
  for (const [index, status] of ['done', 'cancelled', 'dead', 'pending', 'unknown'].entries())
    await insert(index + 1, status, old);
  await insert(6, 'done', young);
  await database.query(`
    insert into sync.outbox_attempts (outbox_id, step, by, became) select id, 'sent', 'w', 'done' from fulfilment.outbox`);
  expect(done(await prune()).removed).toBe(2);
  expect(
    (await database.query('select reference from fulfilment.outbox order by id')).map(
      (row) => row.reference,
    ),
  ).toEqual(['SO-3', 'SO-4', 'SO-5', 'SO-6']);
  expect(await countRows('sync.outbox_attempts')).toBe(4);
});

test('a receiver that no worker has had for 7 days goes with its deliveries, and is no problem', async () => {
  await database.query(`
    insert into sync.receivers (name, kind, seen_at)
    values ('left', 'event', now() - interval '8 days'),
      ('kept', 'event', now() - interval '6 days');
    insert into sync.deliveries (receiver, type, client, turn, lane, happened_at, tries,
      last_error_code, last_error, next_at)
    select name, 'stock.changed', 'default', '', 'a', now(), 3, 'http_500', 'it answered 500', now()
    from sync.receivers`);
  const readBacklog = async () =>
    (await readDeliveryBacklog(database.db)).map(({ receiver, waiting }) => [receiver, waiting]);

  // A worker that was stopped for long has them again soon after its start.
  done(await prune());
  expect(await readBacklog()).toHaveLength(2);

  await database.query(`
    insert into sync.runs (client, job, trigger, worker, lease_key, status, started_at, finished_at)
    select 'default', 'a', 'schedule', 'w', 1, 'done', at, at from (select now() - interval '2 hours' as at) t`);
  done(await prune());
  expect(await readBacklog()).toEqual([['kept', 1]]);
  expect(await countRows('sync.deliveries')).toBe(1);
});

test('old runs, events, gaps, findings and quarantine go; the last reconciliation and open work stay', async () => {
  await database.query(`
    insert into sync.runs (client, job, trigger, worker, lease_key, status, started_at, finished_at)
    values ('default', 'a', 'schedule', 'w', 1, 'done', ${old}, ${old}), ('default', 'a', 'schedule', 'w', 2, 'done', ${old}, ${young}),
      ('default', 'a', 'schedule', 'w', 3, 'running', ${old}, null), ('other', 'a', 'schedule', 'w', 1, 'done', ${old}, ${old})`);
  await database.query(`
    insert into fulfilment.track_trace_events (client, shipment_id, raw, seen_at)
    values ('default', 1, '{}', ${old}), ('default', 1, '{}', ${young});
    insert into fulfilment.shipment_events (client, shipment_id, seen_at) values ('default', 1, ${old}), ('default', 1, ${young});
    insert into fulfilment.inbound_events (client, inbound_id, seen_at) values ('default', 1, ${old}), ('default', 1, ${young});
    insert into fulfilment.inbound_packing_slip_events (client, inbound_packing_slip_id, seen_at)
    values ('default', 1, ${old}), ('default', 1, ${young});
    insert into fulfilment.order_line_events (client, order_item_id, seen_at) values ('default', 1, ${old}), ('default', 1, ${young});
    insert into fulfilment.stock_events (client, sku, seen_at) values ('default', 'A', ${old}), ('default', 'A', ${young})`);
  await database.query(`
    insert into sync.quarantine (client, stream, resource_key, member_path, reason, document, run_worker, last_seen_at)
    values ('default', 'orders', '1', '', 'x', '{}', 'w', ${old}), ('default', 'orders', '2', '', 'x', '{}', 'w', ${young})`);
  await database.query(`
    insert into sync.gaps (client, stream, from_at, to_at, noticed_at) values ('default', 'orders', ${old}, ${old}, ${old});
    insert into sync.findings (client, stream, finding, id, found_at)
    values ('other', 'orders', 'stale', 1, ${old}), ('other', 'orders', 'stale', 1, ${young})`);
  await database.query(`
    insert into sync.waiting_reads (client, resource, id, tries, next_at, reason, since)
    values ('default', 'shipments', 1, 1, ${old}, 'not_found', ${old}), ('default', 'shipments', 2, 4, ${old}, 'read_failed', ${old}),
      ('default', 'shipments', 3, 1, ${young}, 'not_found', ${old}), ('default', 'orders', 1, 0, ${old}, 'quarantined', ${old}),
      ('default', 'orders', 2, 0, ${old}, 'quarantined', ${old})`);
  await database.query(`
    insert into sync.rescans (client, stream, kind, finished_at, outcome)
    values ('default', 'orders', 'reconcile', ${old}, 'done'), ('default', 'orders', 'reconcile', ${old}, 'done'),
      ('default', 'orders', 'backfill', null, null)`);
  expect(done(await prune())).toMatchObject({
    removed: 14,
    warnings: ['removed 1 resources from quarantine that were not met for 30 days'],
  });
  expect(await countRows('sync.runs', `client = 'default' and job = 'a'`)).toBe(2);
  // Runs of a client that is no longer configured are pruned as well.
  expect(await countRows('sync.runs', `client = 'other'`)).toBe(0);
  expect(await countRows('sync.findings', `client = 'other'`)).toBe(1);
  expect(await countRows('fulfilment.track_trace_events')).toBe(1);
  expect(await database.query('select id from sync.rescans order by id')).toEqual([
    { id: 2 },
    { id: 3 },
  ]);
  expect(await database.query('select resource, id from sync.waiting_reads order by 1, 2')).toEqual(
    [
      { resource: 'orders', id: 2 },
      { resource: 'shipments', id: 2 },
      { resource: 'shipments', id: 3 },
    ],
  );
  expect(await database.query(`select detail from sync.audit where action = 'pruned'`)).toEqual([
    { detail: expect.stringContaining('fulfilment.stock_events 1, sync.quarantine 1') },
  ]);
});

describe('documents', () => {
  const readDocuments = () => database.query('select * from fulfilment.documents order by id');
  const readEntries = async () => {
    await numberFeed(database.db);
    return database.query(
      `select id, operation from fulfilment.changes where entity = 'documents' order by seq`,
    );
  };
  const pruneOutbox = async () => {
    await database.query(`update fulfilment.outbox set finished_at = ${old}`);
    done(await prune());
    expect(await countRows('fulfilment.outbox')).toBe(0);
  };

  test('keep the label and the attachment of rows that are pruned; deleting them is in the feed', async () => {
    const order = await outbox.insertOrder('SO-1');
    const content = (await writePage(['Manual'])).toString('base64');
    const attachment = await outbox.insert('order_attachment.create', 'SO-1', {
      filename: 'manual.pdf',
      content,
    });
    await outbox.push();
    const orderId = (await outbox.row(order)).result?.orderId;
    await sandbox.advance(2 * 86_400);
    await pull('pull-shipments');
    const [shipment] = await database.query('select id from fulfilment.shipments');
    const label = await outbox.insert('return_label.create', 'SO-1', {
      shipmentId: shipment?.id,
      paperless: true,
    });
    await outbox.push();
    const [{ result: attached }, { result: labelled }] = [
      await outbox.row(attachment),
      await outbox.row(label),
    ];
    await pruneOutbox();
    const about = { reference: 'SO-1', order_id: orderId, mime_type: 'application/pdf' };
    expect(await readDocuments()).toMatchObject([
      {
        ...about,
        id: attachment,
        kind: 'order_attachment',
        order_attachment_id: attached?.orderAttachmentId,
      },
      {
        ...about,
        id: label,
        kind: 'return_label',
        shipment_id: shipment?.id,
        package_number: labelled?.packageNumber,
        result: labelled,
      },
    ]);
    await database.query('delete from fulfilment.documents where id = $1', [label]);
    expect(await readEntries()).toEqual([
      { id: attachment, operation: 'created' },
      { id: label, operation: 'created' },
      { id: label, operation: 'removed' },
    ]);
  });

  test('have the first attachment of an order, which goes with it, as well as the later ones', async () => {
    const content = (await writePage(['Manual'])).toString('base64');
    const attachments = ['first.pdf', 'second.pdf'].map((filename) => ({ filename, content }));
    const order = await outbox.insertOrder('SO-1', { attachments });
    await outbox.insertOrder('SO-2', { attachments: [] });
    await outbox.push();
    await outbox.push();
    const orderId = (await outbox.row(order)).result?.orderId;
    expect(await readDocuments()).toMatchObject([
      { order_id: orderId, file_name: 'first.pdf', state: 'sent', order_attachment_id: null },
      { order_id: orderId, file_name: 'second.pdf', state: 'stored' },
    ]);
    expect(await readEntries()).toHaveLength(2);
  });

  test('keep what an operator gives as result, whatever its form', async () => {
    const results = [
      { packageNumber: '3SRET1', shippingMethodId: 'x' },
      'sent by mail',
      { isPaperlessReturnShippingMethod: 'perhaps' },
      {},
    ];
    for (const result of results) {
      const id = await outbox.insert('return_label.create', 'SO-1', { shipmentId: 7 });
      await actOnOutbox(database.db, 'done', { ids: [id] }, { by: 'test', result });
    }
    await pruneOutbox();
    const rows = await readDocuments();
    expect(rows.map(({ result }) => result)).toEqual(results.slice(0, 3));
  });
});

test('idempotency keys of the API go after 7 days, whatever is kept of the rest', async () => {
  await database.query(`
    insert into sync.api_keys (client, token, key, body_hash, ids, created_at)
    values ('default', 'erp', 'old', 'x', '{1}', now() - interval '8 days'), ('default', 'erp', 'new', 'x', '{1}', now() - interval '6 days')`);
  done(await prune());
  expect(await database.query('select key from sync.api_keys')).toEqual([{ key: 'new' }]);
});
