import { sql, type Transaction } from 'kysely';
import { readSchemaDrift, recordSchemaParts } from '../../../src/db/drift.ts';
import type { DB } from '../../../src/db/generated/tables.ts';
import type { Database } from '../../../src/db/pool.ts';
import { acceptIdentity } from '../../../src/operate/sql/accept-identity.ts';
import { claimDeliveries } from '../../../src/operate/sql/claim-deliveries.ts';
import { makeEvents } from '../../../src/operate/sql/make-events.ts';
import { listOrders, orderLists } from '../../../src/operate/sql/order-list.ts';
import { searchOrders } from '../../../src/operate/sql/order-search.ts';
import { type EntityName, entities, readEntity } from '../../../src/operate/sql/program-reads.ts';
import { deleteOrders } from '../../../src/operate/sql/prune-mirror.ts';
import { readTrends } from '../../../src/operate/sql/read-trends.ts';
import { registerReceivers } from '../../../src/operate/sql/receivers.ts';
import { listRuns } from '../../../src/operate/sql/run-list.ts';
import { countRows } from '../../../src/operate/sql/stored-rows.ts';
import { listUndelivered } from '../../../src/operate/sql/undelivered.ts';
import { findAgedOrders } from '../../../src/privacy/sql/aged-orders.ts';
import { agedTableNames, maskAgedRows } from '../../../src/privacy/sql/aged-rows.ts';
import { eraseOrder } from '../../../src/privacy/sql/erase-orders.ts';
import { findErasableOrders } from '../../../src/privacy/sql/order-scope.ts';
import { appendChanges, numberChanges } from '../../../src/pull/sql/feed.ts';
import type { ResourceRows } from '../../../src/pull/sql/mirror-tables.ts';
import { storeStock } from '../../../src/pull/sql/stock-rows.ts';
import { markChildrenUnlisted, markUnlisted } from '../../../src/pull/sql/unlisted.ts';
import { upsertResources } from '../../../src/pull/sql/upsert.ts';
import { inbounds } from '../../../src/pull/streams/inbounds.ts';
import { shipments } from '../../../src/pull/streams/shipments.ts';
import { takeUnknownRows } from '../../../src/push/sql/look-ups.ts';
import { markUnsendableRowsDead } from '../../../src/push/sql/lost-rows.ts';
import { actOnOutbox } from '../../../src/push/sql/operator-actions.ts';
import { listOutbox, outboxGroups, readOutbox } from '../../../src/push/sql/read-outbox.ts';
import { findRenameTo, findUserOfNumber } from '../../../src/push/sql/renames.ts';
import { newTotals } from '../../../src/schedule/run.ts';
import { endRun } from '../../../src/schedule/sql/end-run.ts';
import { readRefusal, startRun } from '../../../src/schedule/sql/start-runs.ts';

const client = 'default';

/**
 * Calls functions in folders `sql` and in src/db, so that each template is executed that has more
 * than values, and that a day of polls and pushes does not execute.
 */
export async function callStatements(db: Database, outboxId: number): Promise<void> {
  const within = <T>(work: (trx: Transaction<DB>) => Promise<T>) => db.transaction().execute(work);
  await recordSchemaParts(db, async () => undefined);
  await readSchemaDrift(db);
  await within(callPulls);
  await callRun(db);
  await callOutbox(db, outboxId);
  await callEvents(db);
  await callReads(db);
  await callErasing(db);
  const account = { client, identity: 'another', baseUrl: 'http://x/' };
  await acceptIdentity(db, account, false, 'x');
}

async function callPulls(trx: Transaction<DB>): Promise<void> {
  const scope = { trx, client, stream: 'shipments' };
  const [line] = inbounds.tables.children;
  if (line === undefined) throw new Error('inbounds have no lines');
  await markUnlisted(scope, shipments, [-1], 1);
  await markChildrenUnlisted(scope, { parent: 'inbounds', table: line }, [-1], 1);
  await storeStock(trx, client, [{ sku: 'X', stock: 1 }]);

  const resource = (...lines: number[]): ResourceRows => ({
    parent: { id: -1, raw: { lines } },
    children: [
      {
        table: 'shipment_items',
        complete: true,
        rows: lines.map((id) => ({ id, raw: {}, shipment_id: -1, serial_numbers: [] })),
      },
    ],
  });
  for (const [readNo, read] of [resource(-1), resource()].entries())
    await upsertResources(scope, { compare: 'raw', readNo: 1e9 + readNo }, shipments.tables, [
      read,
    ]);
}

async function callRun(db: Database): Promise<void> {
  const account = { client: 'other', identity: 'x', baseUrl: 'x' };
  const request = { ...account, job: 'x', stream: null, worker: 'x', trigger: 'manual' } as const;
  const start = await startRun(db, request);
  if (start.kind !== 'started') throw new Error(start.because);

  // Its end is decided again, because somebody has written the row of the job meanwhile.
  const job = { ...start.run.job, version: '0' };
  await endRun(db, { ...start.run, job }, newTotals(), { status: 'done' });
  await readRefusal(db, { ...request, identity: 'y' });
}

async function callOutbox(db: Database, id: number): Promise<void> {
  await db.transaction().execute(async (trx) => {
    await findRenameTo(trx, { id, client, reference: 'X' }, 'order.update');
    await findUserOfNumber(trx, { id, client }, 'X');
    await takeUnknownRows(trx, client, 'order.create', 5);
  });
  await sql`insert into fulfilment.outbox (kind, reference) values ('no.such', 'X')`.execute(db);
  await markUnsendableRowsDead(db, 'x', null);
  await listOutbox(db, {}, 5);
  for (const group of outboxGroups) await listOutbox(db, { group }, 5, 'newest first');
  await readOutbox(db, id);
  await actOnOutbox(db, 'cancel', { ids: [id] }, { by: 'x' });
}

async function callEvents(db: Database): Promise<void> {
  const receiver = { name: 'all', kind: 'event', types: null, clients: null } as const;
  await registerReceivers(db, [receiver]);
  await makeEvents(db);
  const change = { entity: 'parcels', id: null, key: '1:A', operation: 'created' } as const;
  await db.transaction().execute((trx) => appendChanges(trx, client, [change], true));
  await numberChanges(db);
  await makeEvents(db);
  await claimDeliveries(db, { receiver: 'all', underWay: 0, lastTurn: '', leaseMs: 1_000 });
  await listUndelivered(db, 1);
}

async function callReads(db: Database): Promise<void> {
  await listRuns(db, { client }, 5);
  await countRows(db, ['shipments']);
  for (const [entity, { key }] of Object.entries(entities))
    await readEntity(db, client, entity as EntityName, key.map(() => '1').join(':'));
  await searchOrders(db, '7', { limit: 5, byEmail: true });
  for (const list of orderLists) await listOrders(db, { list, client }, { skip: 1, limit: 5 });
  await readTrends(db, '', new Date());
}

async function callErasing(db: Database): Promise<void> {
  const [order] = await findErasableOrders(db, null, { number: 'NEW' });
  if (order === undefined) throw new Error('there is no order NEW');
  const step = { client, by: 'x', days: 0, limit: 5 };
  await db.transaction().execute(async (trx) => {
    await findAgedOrders(trx, step, 0);
    await deleteOrders(trx, client, [-3]);
    for (const table of agedTableNames) await maskAgedRows(trx, step, table, -100);
  });
  await eraseOrder(db, order, 'x', false);
}
