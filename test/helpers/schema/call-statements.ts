import { sql, type Transaction } from 'kysely';
import { migrateDatabase } from '../../../src/cli/commands/migrate.ts';
import { silentLogger } from '../../../src/core/logger.ts';
import { readSchemaDrift } from '../../../src/db/drift.ts';
import type { DB } from '../../../src/db/generated/tables.ts';
import { readInstallationName } from '../../../src/db/installation-name.ts';
import { findBlockers } from '../../../src/db/migrate.ts';
import type { Database } from '../../../src/db/pool.ts';
import { assertCodeFits, assertSchemaFits } from '../../../src/db/schema-fit.ts';
import { hasFullDisk, lockName, tryRunExclusively } from '../../../src/db/transaction.ts';
import { acceptIdentity } from '../../../src/operate/sql/accept-identity.ts';
import * as adminSessions from '../../../src/operate/sql/admin-sessions.ts';
import { readAdminSecret } from '../../../src/operate/sql/admin-sessions.ts';
import * as claims from '../../../src/operate/sql/claim-deliveries.ts';
import * as diagnosis from '../../../src/operate/sql/database-facts.ts';
import { readEventBody } from '../../../src/operate/sql/event-rows.ts';
import { readDatabaseClock, readJobStatus } from '../../../src/operate/sql/job-status.ts';
import * as makeEvents from '../../../src/operate/sql/make-events.ts';
import * as openAlerts from '../../../src/operate/sql/open-alerts.ts';
import { readOrderDetails } from '../../../src/operate/sql/order-details.ts';
import { listOrders, orderLists } from '../../../src/operate/sql/order-list.ts';
import * as orderSearch from '../../../src/operate/sql/order-search.ts';
import { readOrderTimeline } from '../../../src/operate/sql/order-timeline.ts';
import { readOutboxStatus } from '../../../src/operate/sql/outbox-status.ts';
import * as programReads from '../../../src/operate/sql/program-reads.ts';
import { deleteOrders } from '../../../src/operate/sql/prune-mirror.ts';
import { readFigures } from '../../../src/operate/sql/read-figures.ts';
import * as receivers from '../../../src/operate/sql/receivers.ts';
import { rollUpFigures } from '../../../src/operate/sql/roll-up.ts';
import { listRuns, readRecentRuns } from '../../../src/operate/sql/run-list.ts';
import { countRows, readTable } from '../../../src/operate/sql/stored-rows.ts';
import { readStreamStatus } from '../../../src/operate/sql/stream-status.ts';
import * as undelivered from '../../../src/operate/sql/undelivered.ts';
import { findAgedOrders } from '../../../src/privacy/sql/aged-orders.ts';
import * as agedRows from '../../../src/privacy/sql/aged-rows.ts';
import { eraseOrder } from '../../../src/privacy/sql/erase-orders.ts';
import { findErasableOrders } from '../../../src/privacy/sql/find-orders.ts';
import { hasAuthorization } from '../../../src/pull/sql/authorization-rows.ts';
import { maskErasedResources, recordErasures } from '../../../src/pull/sql/erasures.ts';
import { appendChanges, numberChanges, readFeedBacklog } from '../../../src/pull/sql/feed.ts';
import { countRowsInWindows } from '../../../src/pull/sql/listed-rows.ts';
import { maskAgedQuarantine } from '../../../src/pull/sql/mask-quarantine.ts';
import type { ResourceRows } from '../../../src/pull/sql/mirror-tables.ts';
import {
  findDueParcelReads,
  planParcelReads,
  postponeListedParcelReads,
  requestMissingParcelReads,
} from '../../../src/pull/sql/parcel-reads.ts';
import * as quarantine from '../../../src/pull/sql/quarantine.ts';
import {
  findLastWalked,
  readReconciledTimes,
  recordFindings,
  wakeJob,
} from '../../../src/pull/sql/rescans.ts';
import { readServiceLists, takeListsTurn } from '../../../src/pull/sql/service-lists.ts';
import { storeStock } from '../../../src/pull/sql/stock-rows.ts';
import { recordConfirmations } from '../../../src/pull/sql/stream-transaction.ts';
import {
  markChildrenUnlisted,
  markUnlisted,
  recordAbsences,
} from '../../../src/pull/sql/unlisted.ts';
import { upsertResources } from '../../../src/pull/sql/upsert.ts';
import * as waitingReads from '../../../src/pull/sql/waiting-reads.ts';
import { findStillOpen, requestMissingOrders } from '../../../src/pull/sql/waiting-reads.ts';
import { inbounds } from '../../../src/pull/streams/inbounds.ts';
import { shipments } from '../../../src/pull/streams/shipments.ts';
import {
  acceptDatabase,
  acceptFencedFailover,
  expectFailover,
} from '../../../src/push/sql/accept-database.ts';
import { sayAwake } from '../../../src/push/sql/awake-clients.ts';
import {
  markUnsendableRowsDead,
  renewClaims,
  returnClaims,
  stampSent,
  takeOverClaims,
} from '../../../src/push/sql/held-claims.ts';
import { insertRows, tryInsert } from '../../../src/push/sql/insert-rows.ts';
import { findFreedLanes, releaseLanes } from '../../../src/push/sql/lanes.ts';
import {
  bringLookUpsForward,
  findLastOrderSince,
  findLaterOrders,
  findStoredOrders,
  findUnclaimedIds,
  recordListLag,
  takeUnknownRows,
} from '../../../src/push/sql/look-ups.ts';
import * as actions from '../../../src/push/sql/operator-actions.ts';
import {
  delayTrackTrace,
  markEnded,
  noteDatabase,
  notePlace,
} from '../../../src/push/sql/push-database.ts';
import { listOutbox, outboxGroups, readOutbox } from '../../../src/push/sql/read-outbox.ts';
import {
  findRenameTo,
  findTargetIds,
  findUserOfNumber,
  readSentTarget,
} from '../../../src/push/sql/renames.ts';
import { findSequencesBehind } from '../../../src/push/sql/sequences.ts';
import { bringPollsForward, insertFollowUps } from '../../../src/push/sql/settle-rows.ts';
import { newTotals } from '../../../src/schedule/run.ts';
import { readAudit, recordAudit } from '../../../src/schedule/sql/audit.ts';
import * as dueJobs from '../../../src/schedule/sql/due-jobs.ts';
import { endRun } from '../../../src/schedule/sql/end-run.ts';
import { renewLeases } from '../../../src/schedule/sql/leases.ts';
import { recordProgress } from '../../../src/schedule/sql/ledger.ts';
import { pauseJob, readPauses, resumeJob } from '../../../src/schedule/sql/pauses.ts';
import { readDueRuns, readRefusal, startRun } from '../../../src/schedule/sql/start-runs.ts';
import * as turns from '../../../src/schedule/sql/turns.ts';
import { readClients } from '../../../src/service/sql/clients.ts';
import { takeRequests } from '../../../src/service/sql/request-budgets.ts';
import * as health from '../../../src/service/sql/service-health.ts';

const client = 'default';
const kind = {
  table: 'shipments',
  stream: 'shipments',
  statuses: ['READY_TO_PICK'],
  closed: 'SHIPPED',
};
const now = new Date();
const followUps = { kinds: ['order.create'], of: () => [] };

/**
 * Calls the functions in folders `sql` and in src/db that a day of polls and pushes does not call,
 * so that each statement is executed.
 */
export async function callStatements(db: Database, url: string, outboxId: number): Promise<void> {
  const within = <T>(work: (trx: Transaction<DB>) => Promise<T>) => db.transaction().execute(work);
  await migrateDatabase(url, silentLogger);
  await readReports(db);
  await within(callPulls);
  await within(callUpsert);
  await within((trx) => callRuns(trx));
  await callSchedules(db);
  await within((trx) => callOutbox(trx, outboxId));
  await callTakeover(db, outboxId);
  await sql`insert into fulfilment.outbox (kind, reference) values ('no.such', 'X')`.execute(db);
  await markUnsendableRowsDead(db, 'x', null);
  await callOperator(db, outboxId);
  await callAlerts(db);
  await hasFullDisk(db);
  await readInstallationName(db);
  await within((trx) => lockName(trx, 'a name'));
  await tryRunExclusively(db, 'a name', async () => undefined);
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
  await startRun(db, { ...request, schedule });
  if (start.kind !== 'started') throw new Error(start.because);
  await db
    .transaction()
    .execute((trx) => recordProgress({ trx, run: start.run }, { ...newTotals(), created: 1 }));
  await endRun(db, start.run, newTotals(), { status: 'done' });
  await startRun(db, { ...request, job: 'another' });
  await readRefusal(db, { ...request, identity: 'y' });
}

async function readReports(db: Database): Promise<void> {
  await readJobStatus(db);
  await readDatabaseClock(db);
  await readStreamStatus(db);
  await readOutboxStatus(db);
  await readRecentRuns(db, 5);
  await listRuns(db, {}, 5);
  await listRuns(db, { client }, 5);
  await readTable(db, client, 'shipments');
  await countRows(db, ['shipments']);
  await callProgramReads(db);
  await readClients(db);
  await turns.readTurns(db, 'track-trace');
  await readPauses(db);
  await sayAwake(db, [client], 1_000);
  await readAudit(db, {}, 5);
  await readAudit(db, { by: 'x', action: 'paused' }, 5);
  await takeRequests(db, { identity: 'x', perSecond: 1 }, 1);
  await readServiceLists(db, client);
  await readAdminSecret(db, 'a purpose');
  await adminSessions.beginSession(db, 'a', 1_000);
  await adminSessions.isSessionOpen(db, 'a');
  await adminSessions.markSessionUsed(db, 'a');
  await adminSessions.endSession(db, 'a');
  await readSchemaDrift(db);
  await findBlockers(db);
  await assertSchemaFits(db);
  await assertCodeFits(db);
  await readInstallationName(db);
  await diagnosis.readServerFacts(db);
  await diagnosis.readUnusableSchemas(db);
  await diagnosis.readMissingGrants(db);
  await diagnosis.readMissingRoles(db);
  await diagnosis.countWatchedArticles(db, ['default']);
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
  await sql`update sync.figure_marks set at = at - interval '1 hour'`.execute(db);
  await rollUpFigures(db, 0);
  await orderSearch.searchOrders(db, '7', { limit: 5, byEmail: true });
  await readOrderTimeline(db, client, 'NEW', 50);
  await readOrderDetails(db, { client, number: 'NEW', ids: [1] });
  for (const list of orderLists) await listOrders(db, { list, client }, 5);
  await readFigures(db, '', { stepMinutes: 15, from: now });
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
  await receivers.touchReceivers(db, ['all']);
  await makeEvents.makeEvents(db);
  await makeEvents.skipToNewest(db);
  const change = { entity: 'parcels', id: null, key: '1:A', operation: 'created' } as const;
  await db.transaction().execute((trx) => appendChanges(trx, client, [change], true));
  await numberChanges(db);
  await makeEvents.makeEvents(db);
  for (const personalData of [true, false]) await readEventBody(db, '1', personalData);
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
  await claims.returnDelivery(db, delivery);
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
  await recordAbsences(scope, { pass: 'poll' }, [1]);
  await findStillOpen(trx, client, kind, [1]);
  await quarantine.releaseQuarantined(scope, [{ id: 1, readNo: 1 }]);
  await quarantine.releaseOlderQuarantined(scope, 1);
  await quarantine.releaseQuarantineRow(trx, 1);
  await quarantine.listQuarantined(trx, {});
  await quarantine.readQuarantined(trx, 1);
  await quarantine.readNextQuarantined(trx, client, 'shipments', { afterId: 0, limit: 5 });
  await waitingReads.postponeReads(scope, [1], 'still_open', 1);
  await waitingReads.requestReads(scope, [1], 'pushed');
  await waitingReads.addQuarantinedReads(scope, [1]);
  await waitingReads.findDueReads(trx, client, 'shipments', { limit: null });
  await waitingReads.findDueReads(trx, client, 'shipments', { limit: 1, order: 'newest' });
  await waitingReads.findWaiting(trx, client, 'shipments', [1]);
  await waitingReads.removeReads(scope, [{ id: 1, readNo: 1 }]);
  await findDueParcelReads(trx, client, 1);
  await postponeListedParcelReads(trx, client, [1]);
  const plan = { reason: 'aging', problem: null, nextInSeconds: 1 } as const;
  await planParcelReads(trx, client, [{ ...plan, shipmentId: 1, readNo: 1 }]);
  await recordFindings(scope, age, { finding: 'stale', ids: [1], serviceNow: now });
  await findLastWalked(trx, client, 'shipments');
  await readReconciledTimes(trx, client);
  await wakeJob(trx, client, 'backfill');
  const rows = { age, serviceNow: now };
  await countRowsInWindows(trx, client, rows, [{ after: null, before: null }]);
  await markUnlisted(scope, shipments, [-1], 1);
  await markChildrenUnlisted(scope, { parent: 'inbounds', table: line }, [-1], 1);
  await hasAuthorization(trx, client, 1);
  await requestMissingOrders({ trx, client }, [1]);
  await requestMissingOrders({ trx, client }, null);
  await waitingReads.requestParcelReads(trx, client, [1]);
  await requestMissingParcelReads(trx, client, 0, now);
  await storeStock(trx, client, [{ sku: 'X', stock: 1 }]);
  await takeListsTurn(trx, client, 0);
  await takeListsTurn(trx, client, 60_000);
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

async function callRuns(trx: Transaction<DB>): Promise<void> {
  await health.endHoldWaits(trx, [client]);
  await recordConfirmations({ trx, client, stream: 'shipments' }, [{ id: 1, readNo: 1 }]);
  await recordAudit(trx, { by: 'x', action: 'pruned', client: null, detail: 'x' });
  const key = { name: 'track-trace', scope: 'x', client } as const;
  await turns.takeTurn(trx, key, 60_000);
  await turns.takeTurn(trx, key, 60_000);
  await turns.finishTurns(trx, 'track-trace', [{ scope: 'x', number: 1 }], 60_000);
}

async function callSchedules(db: Database): Promise<void> {
  const job = { client, job: 'prune' };
  const clients = [{ client, identity: 'x' }];
  await readDueRuns(db, { jobs: ['prune'], clients, worker: 'x', local: [], aheadMs: 0 });
  await callRun(db);
  await dueJobs.readScheduleClock(db);
  await dueJobs.ensureJobs(db, [{ ...job, stream: null, due: now, latest: now }]);
  await db.transaction().execute((trx) => bringPollsForward(trx, client, ['shipments']));
  await dueJobs.requestRun(db, job, 'x');
  await dueJobs.reviveAbandoned(db);
  await db.transaction().execute((trx) => dueJobs.recordAbandonedRuns(trx, [job]));
  await pauseJob(db, 'prune', client, 'x');
  await resumeJob(db, 'prune', client, 'x');
  await renewLeases(db, [{ client, name: 'prune', key: 1 }]);
}

async function callOutbox(trx: Transaction<DB>, id: number): Promise<void> {
  const lane = { client, family: 'order', reference: 'X' };
  const claimed = { id, claimNo: 1, dueAt: now.toISOString() };
  await returnClaims(trx, [claimed]);
  await stampSent(trx, claimed, { id: 7, present: ['reference'] });
  await readSentTarget(trx, id);
  await findStoredOrders(trx, [id]);
  await findLastOrderSince(trx, client, '2026-05-04');
  await findTargetIds(trx, [id]);
  await findRenameTo(trx, { id, client, reference: 'X' }, 'order.update');
  await findUserOfNumber(trx, { id, client }, 'X');
  await findLaterOrders(trx, [id]);
  await bringLookUpsForward(trx, [client], ['order.create']);
  await recordListLag(trx, client, 1);
  await renewClaims(trx, [claimed]);
  await takeUnknownRows(trx, client, 'order.create', 5);
  const mirror = { table: 'inbound_packing_slips', resultMember: 'inboundPackingSlipId' };
  await findUnclaimedIds(trx, { id, client }, [1], mirror);
  await insertFollowUps(trx, [{ client, kind: 'order.cancel', reference: 'X', payload: {} }]);
  await releaseLanes(trx, [lane]);
  await findFreedLanes(trx, [id]);
  await health.readHealth(trx);
  await health.takeTrial(trx, { client, worker: 'x' });
  await health.recordProof(trx, { client, kind: 'order.create', method: 'POST', path: '/' });
  await health.isProven(trx, { client, kind: 'order.create', method: 'POST', path: '/' });
  await delayTrackTrace(trx);
}

async function callTakeover(db: Database, id: number): Promise<void> {
  await sql`
    update fulfilment.outbox
    set status = 'sending', claim_no = 1, next_attempt_at = null, attempts = attempts + 1,
      lease_until = now() - interval '1 second'
    where id = ${id}`.execute(db);
  await takeOverClaims(db, 'x', { 'order.create': 'look up' }, 'x');
}

async function callOperator(db: Database, id: number): Promise<void> {
  const cause = { code: 'timeout', httpStatus: null, operation: null, words: 'x' };
  const failure = { seen: 'failure', failure: cause, isNew: true } as const;
  const place = { client, scope: 'order.create', worker: 'x' };
  for (let times = 0; times < 4; times++) await health.noteEvidence(db, place, failure);
  await health.noteEvidence(db, place, { seen: 'success' });
  await listOutbox(db, {}, 5);
  for (const group of outboxGroups) await listOutbox(db, { group }, 5, 'newest first');
  await readOutbox(db, id);
  const rows = JSON.stringify([{ place: 0, kind: 'order.cancel', reference: 'API', payload: {} }]);
  await insertRows(db, client, rows, null);
  await actions.countOutbox(db, { ids: [id] }, 'retry');
  await db
    .transaction()
    .execute((trx) =>
      sql`update fulfilment.outbox set status = 'dead', finished_at = now(), next_attempt_at = null, lease_until = null, last_error = 'x' where id = ${id}`.execute(
        trx,
      ),
    );
  await actions.replaceOutbox(db, id, '{}', 'x');
  await actions.actOnOutbox(db, 'done', { ids: [id] }, { by: 'x', followUps });
  await sql`update sync.push_database set changed_at = now()`.execute(db);
  await noteDatabase(db, 'x', []);
  // As after a failover: first a worker misses a row, then no row is missing.
  await sql`update sync.push_database set mark = regexp_replace(mark, '[0-9]+$', '0')`.execute(db);
  await noteDatabase(db, 'x', [{ id: -1, claimNo: 1, attempts: 1 }]);
  await noteDatabase(db, 'x', []);
  const accepting = { by: 'x', lookedUp: [], advice: 'x' };
  await expectFailover(db, 60_000, 'x');
  await sql`update sync.push_database set changed_at = now() - interval '31 seconds'`.execute(db);
  await acceptFencedFailover(db, true, accepting);
  await acceptDatabase(db, { ...accepting, as: 'restored' });
  await markEnded(db, 'x');
  await sql`insert into sync.push_places (place, asked_at) values ('x', now())`.execute(db);
  await notePlace(db, 'x', await noteDatabase(db, 'x', []));
  await sql`delete from sync.push_places where place <> 'x'`.execute(db);
  await notePlace(db, 'x', await noteDatabase(db, 'x', []));
  await findSequencesBehind(db);
  await tryInsert(db);
  await acceptIdentity(db, { client, identity: 'another', baseUrl: 'http://x/' }, true, 'x');
  await acceptIdentity(db, { client, identity: 'a third', baseUrl: 'http://x/' }, false, 'x');
}
