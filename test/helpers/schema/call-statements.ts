import { sql, type Transaction } from 'kysely';
import { migrateDatabase } from '../../../src/cli/commands/migrate.ts';
import { silentLogger } from '../../../src/core/logger.ts';
import { readSchemaDrift } from '../../../src/db/drift.ts';
import type { DB } from '../../../src/db/generated/tables.ts';
import { readInstallationName } from '../../../src/db/installation-name.ts';
import { findBlockers } from '../../../src/db/migrate.ts';
import type { Database } from '../../../src/db/pool.ts';
import { assertSchemaFits } from '../../../src/db/schema-fit.ts';
import { acceptIdentity } from '../../../src/operate/sql/accept-identity.ts';
import * as claims from '../../../src/operate/sql/claim-deliveries.ts';
import * as diagnosis from '../../../src/operate/sql/database-facts.ts';
import * as makeEvents from '../../../src/operate/sql/make-events.ts';
import * as openAlerts from '../../../src/operate/sql/open-alerts.ts';
import { listOrders, orderLists } from '../../../src/operate/sql/order-list.ts';
import * as orderSearch from '../../../src/operate/sql/order-search.ts';
import { readOrderTimeline } from '../../../src/operate/sql/order-timeline.ts';
import { readOutboxStatus } from '../../../src/operate/sql/outbox-status.ts';
import * as programReads from '../../../src/operate/sql/program-reads.ts';
import { deleteOrders } from '../../../src/operate/sql/prune-mirror.ts';
import { readTrends } from '../../../src/operate/sql/read-trends.ts';
import * as receivers from '../../../src/operate/sql/receivers.ts';
import { listRuns } from '../../../src/operate/sql/run-list.ts';
import { countRows, isStored } from '../../../src/operate/sql/stored-rows.ts';
import { readStreamStatus } from '../../../src/operate/sql/stream-status.ts';
import * as undelivered from '../../../src/operate/sql/undelivered.ts';
import { findAgedOrders } from '../../../src/privacy/sql/aged-orders.ts';
import * as agedRows from '../../../src/privacy/sql/aged-rows.ts';
import { eraseOrder } from '../../../src/privacy/sql/erase-orders.ts';
import { findErasableOrders } from '../../../src/privacy/sql/order-scope.ts';
import { maskErasedResources, recordErasures } from '../../../src/pull/sql/erasures.ts';
import { appendChanges, numberChanges, readFeedBacklog } from '../../../src/pull/sql/feed.ts';
import type { ResourceRows } from '../../../src/pull/sql/mirror-tables.ts';
import { maskAgedQuarantine } from '../../../src/pull/sql/quarantine.ts';
import { recordFindings } from '../../../src/pull/sql/rescans.ts';
import { storeStock } from '../../../src/pull/sql/stock-rows.ts';
import {
  markChildrenUnlisted,
  markUnlisted,
  recordUnlistedReads,
} from '../../../src/pull/sql/unlisted.ts';
import { upsertResources } from '../../../src/pull/sql/upsert.ts';
import * as waitingReads from '../../../src/pull/sql/waiting-reads.ts';
import { inbounds } from '../../../src/pull/streams/inbounds.ts';
import { shipments } from '../../../src/pull/streams/shipments.ts';
import { insertRows } from '../../../src/push/sql/insert-rows.ts';
import {
  findLaterOrders,
  findStoredOrders,
  findUnclaimedSlips,
  takeUnknownRows,
} from '../../../src/push/sql/look-ups.ts';
import { markUnsendableRowsDead, takeOverClaims } from '../../../src/push/sql/lost-rows.ts';
import * as actions from '../../../src/push/sql/operator-actions.ts';
import {
  acceptDatabase,
  acceptFencedFailover,
  expectFailover,
  findSequencesBehind,
  noteDatabase,
  notePlace,
} from '../../../src/push/sql/push-database.ts';
import { listOutbox, outboxGroups, readOutbox } from '../../../src/push/sql/read-outbox.ts';
import { findRenameTo, findTargetId, findUserOfNumber } from '../../../src/push/sql/renames.ts';
import { newTotals } from '../../../src/schedule/run.ts';
import * as dueJobs from '../../../src/schedule/sql/due-jobs.ts';
import { endRun } from '../../../src/schedule/sql/end-run.ts';
import { renewLeases } from '../../../src/schedule/sql/leases.ts';
import { recordProgress } from '../../../src/schedule/sql/ledger.ts';
import { readRefusal, startRun } from '../../../src/schedule/sql/start-runs.ts';
import * as health from '../../../src/service/sql/service-health.ts';

const client = 'default';
const now = new Date();

/**
 * Calls functions in folders `sql` and in src/db, so that each template with a type is executed that
 * a day of polls and pushes does not execute.
 */
export async function callStatements(db: Database, url: string, outboxId: number): Promise<void> {
  const within = <T>(work: (trx: Transaction<DB>) => Promise<T>) => db.transaction().execute(work);
  await migrateDatabase(url, silentLogger);
  await readReports(db);
  await within(callPulls);
  await within(callUpsert);
  await callSchedules(db);
  await within((trx) => callOutbox(trx, outboxId));
  await callTakeover(db, outboxId);
  await sql`insert into fulfilment.outbox (kind, reference) values ('no.such', 'X')`.execute(db);
  await markUnsendableRowsDead(db, 'x', null);
  await callOperator(db, outboxId);
  await callAlerts(db);
  await callErasing(db);
}

async function callRun(db: Database): Promise<void> {
  const account = { client: 'other', identity: 'x', baseUrl: 'x' };
  const request = {
    ...account,
    job: 'x',
    stream: 'shipments',
    worker: 'x',
    trigger: 'manual',
  } as const;
  const schedule = { kind: 'cron', pattern: '0 3 * * *' } as const;
  const start = await startRun(db, { ...request, schedule });
  // A start that is refused changes the row of the job, so that the end of the run reads it again.
  await startRun(db, { ...request, schedule });
  if (start.kind !== 'started') throw new Error(start.because);
  await db
    .transaction()
    .execute((trx) => recordProgress({ trx, run: start.run }, { ...newTotals(), created: 1 }));
  // Its end is decided again, because somebody has written the row of the job meanwhile.
  const job = { ...start.run.job, version: '0' };
  await renewLeases(db, [start.run.lease]);
  await endRun(db, { ...start.run, job }, newTotals(), { status: 'done' });
  await readRefusal(db, { ...request, identity: 'y' });
}

async function readReports(db: Database): Promise<void> {
  await readStreamStatus(db);
  await readOutboxStatus(db);
  await listRuns(db, { client }, 5);
  await countRows(db, ['shipments']);
  await isStored(db, 'shipments', 'default', 1);
  await callProgramReads(db);
  await readSchemaDrift(db);
  await findBlockers(db);
  await assertSchemaFits(db);
  await readInstallationName(db);
  await diagnosis.readServerFacts(db);
  await diagnosis.readUnusableSchemas(db);
  await diagnosis.readMissingGrants(db);
  await diagnosis.readMissingRoles(db);
  await diagnosis.readNotifyQueue(db);
  await readFeedBacklog(db);
}

async function callErasing(db: Database): Promise<void> {
  const step = { client, by: 'x', days: 0, limit: 5 };
  const [order] = await findErasableOrders(db, null, { number: 'NEW' });
  if (order === undefined) throw new Error('there is no order NEW');
  await agedRows.findClientsWithoutPrune(db, client);
  await db.transaction().execute(async (trx) => {
    await findAgedOrders(trx, step, 0);
    await deleteOrders(trx, client, [-3]);
    for (const table of agedRows.agedTableNames)
      await agedRows.maskAgedRows(trx, step, table, -100);
    await maskAgedQuarantine(trx, client, 0);
  });
  await eraseOrder(db, order, 'x', false);
  await orderSearch.searchOrders(db, '7', { limit: 5, byEmail: true });
  await readOrderTimeline(db, client, 'NEW', 50);
  for (const list of orderLists) await listOrders(db, { list, client }, { skip: 1, limit: 5 });
  await readTrends(db, '', now);
  // Readings are compared with erasures only if there are any.
  await db.transaction().execute(callUpsert);
  await db.transaction().execute(async (trx) => {
    await recordErasures(trx, client, 'x', [{ entity: 'outbox', id: 1, number: 'LOST' }]);
    const parent = { id: -3, order_id: -3, external_order_number: 'LOST', raw: {} };
    await maskErasedResources(trx, client, shipments.tables, [{ parent, children: [] }]);
  });
}

async function callEvents(db: Database): Promise<void> {
  await receivers.registerReceivers(db, [
    { name: 'all', kind: 'event', types: null, clients: null },
    { name: receivers.alertReceiver, kind: 'alert', types: null, clients: null },
  ]);
  await makeEvents.makeEvents(db);
  const change = { entity: 'parcels', id: null, key: '1:A', operation: 'created' } as const;
  await db.transaction().execute((trx) => appendChanges(trx, client, [change], true));
  await numberChanges(db);
  await makeEvents.makeEvents(db);
  await undelivered.listUndelivered(db, 1);
  await undelivered.retryDeliveries(db, null);
  await undelivered.readDeliveryBacklog(db);
}

async function callAlerts(db: Database): Promise<void> {
  await callEvents(db);
  const checks = await openAlerts.takeAlertChecks(db, [''], 1_000);
  const body = { type: 'problem.began', timestamp: now.toISOString(), data: { client: null } };
  const posts = [{ alertId: crypto.randomUUID(), body }];
  await openAlerts.storeAlertChecks(db, checks, { alerts: 1, posts: 1, perClient: 1 }, () => ({
    kept: [],
    removed: [],
    posts,
  }));
  const claim = { receiver: receivers.alertReceiver, underWay: 0, lastTurn: '', leaseMs: 1_000 };
  const [delivery] = await claims.claimDeliveries(db, claim);
  if (delivery === undefined) throw new Error('the post is not due');
  const failure = { code: 'timeout', error: 'x' };
  const attempt = {
    receiver: receivers.alertReceiver,
    delivery,
    end: { status: 'dead' } as const,
    failure,
  };
  await claims.settleAttempt(db, attempt, (state) => ({ ...state, isAway: true, delayMs: 0 }));
  await undelivered.retryDeliveries(db, null);
  await claims.claimDeliveries(db, claim);
}

async function callProgramReads(db: Database): Promise<void> {
  for (const [entity, { key }] of Object.entries(programReads.entities))
    await programReads.readEntity(
      db,
      client,
      entity as programReads.EntityName,
      key.map(() => '1').join(':'),
    );
  await programReads.readOrdersByNumber(db, client, 'NEW');
  await programReads.readNewestSeq(db);
  await programReads.readClientChanges(db, client, 0, 5);
}

async function callPulls(trx: Transaction<DB>): Promise<void> {
  const scope = { trx, client, stream: 'shipments' };
  const age = shipments.rescan;
  const [line] = inbounds.tables.children;
  if (line === undefined) throw new Error('inbounds have no lines');
  await recordUnlistedReads(scope, { pass: 'poll' }, [1]);
  await waitingReads.removeReads(scope, [{ id: 1, readNo: 1 }]);
  await recordFindings(scope, age, { finding: 'stale', ids: [1], serviceNow: now });
  await markUnlisted(scope, shipments, [-1], 1);
  await markChildrenUnlisted(scope, { parent: 'inbounds', table: line }, [-1], 1);
  await storeStock(trx, client, [{ sku: 'X', stock: 1 }]);
}

/** Moves a line of one shipment to another, and removes it. */
async function callUpsert(trx: Transaction<DB>): Promise<void> {
  const resource = (id: number, ...lines: number[]): ResourceRows => ({
    parent: { id, raw: { lines } },
    children: [
      {
        table: 'shipment_items',
        complete: true,
        rows: lines.map((line) => ({ id: line, raw: {}, shipment_id: id, serial_numbers: [] })),
      },
    ],
  });
  const scope = { trx, client, stream: 'shipments' };
  await upsertResources(scope, { compare: 'raw', readNo: 1e9 }, shipments.tables, [
    resource(-1, -1),
    resource(-2),
  ]);
  await upsertResources(scope, { compare: 'raw', readNo: 2e9 }, shipments.tables, [
    resource(-2, -1),
  ]);
  await upsertResources(scope, { compare: 'raw', readNo: 3e9 }, shipments.tables, [resource(-2)]);
}

async function callSchedules(db: Database): Promise<void> {
  await callRun(db);
  await dueJobs.reviveAbandoned(db);
}

async function callOutbox(trx: Transaction<DB>, id: number): Promise<void> {
  await findStoredOrders(trx, [id]);
  await findTargetId(trx, id);
  await findRenameTo(trx, { id, client, reference: 'X' }, 'order.update');
  await findUserOfNumber(trx, { id, client }, 'X');
  await findLaterOrders(trx, [id]);
  await takeUnknownRows(trx, client, 'order.create', 5);
  await findUnclaimedSlips(trx, { id, client }, [1]);
  await health.takeTrial(trx, { client, worker: 'x' });
}

async function callTakeover(db: Database, id: number): Promise<void> {
  await sql`
    update fulfilment.outbox
    set status = 'sending', claim_no = 1, next_attempt_at = null, attempts = attempts + 1,
      lease_until = now() - interval '1 second'
    where id = ${id}`.execute(db);
  await takeOverClaims(db, 'x', { 'order.create': 'look up' });
}

async function callOperator(db: Database, id: number): Promise<void> {
  await listOutbox(db, {}, 5);
  for (const group of outboxGroups) await listOutbox(db, { group }, 5, 'newest first');
  await readOutbox(db, id);
  const rows = JSON.stringify([{ place: 0, kind: 'order.cancel', reference: 'API', payload: {} }]);
  await insertRows(db, client, rows, null);
  await db
    .transaction()
    .execute((trx) =>
      sql`update fulfilment.outbox set status = 'dead', finished_at = now(), next_attempt_at = null, lease_until = null, last_error = 'x' where id = ${id}`.execute(
        trx,
      ),
    );
  await actions.replaceOutbox(db, id, '{}', 'x');
  await actions.actOnOutbox(db, 'done', { ids: [id] }, { by: 'x' });
  await sql`update sync.push_database set changed_at = now()`.execute(db);
  await noteDatabase(db, 'x', []);
  // As after a failover: first a worker misses a row, then no row is missing.
  await sql`update sync.push_database set mark = regexp_replace(mark, '[0-9]+$', '0')`.execute(db);
  await noteDatabase(db, 'x', [{ id: -1, claimNo: 1, attempts: 1 }]);
  await noteDatabase(db, 'x', []);
  await expectFailover(db, 60_000, 'x');
  await sql`update sync.push_database set changed_at = now() - interval '31 seconds'`.execute(db);
  await acceptFencedFailover(db, true, 'x');
  await acceptDatabase(db, 'restored', 'x');
  await sql`insert into sync.push_places (place, asked_at) values ('x', now())`.execute(db);
  await notePlace(db, 'x', await noteDatabase(db, 'x', []));
  await findSequencesBehind(db);
  await acceptIdentity(db, { client, identity: 'another', baseUrl: 'http://x/' }, true, 'x');
  await acceptIdentity(db, { client, identity: 'a third', baseUrl: 'http://x/' }, false, 'x');
}
