import { setTimeout as wait } from 'node:timers/promises';
import pg from 'pg';
import { silentLogger } from '../../../src/core/logger.ts';
import { connectDatabase } from '../../../src/db/connect.ts';
import { actOnOutbox } from '../../../src/push/sql/operator-actions.ts';
import { acceptDatabase, readPushDatabase } from '../../../src/push/sql/push-database.ts';
import { waitFor } from '../../../test/helpers/wait.ts';
import type { OrderRow } from '../load.ts';
import type { Fault, Stage } from '../stage.ts';

/** Faults that need an operator: the database goes back to an older state (docs/operations.md). */
export const restoreFaults: readonly Fault[] = [
  {
    name: 'database-restored',
    about: 'the database is restored from a backup of some seconds ago, and an operator accepts it',
    strike: async (stage) => {
      const { servers, database } = stage.parts;
      const backUp = () => servers.backUpDatabase(database.name);
      await loseLaterRows(stage, backUp, () => servers.restoreDatabase(database.name));
    },
  },
  {
    name: 'postgres-failover',
    about: 'a standby that lags some seconds behind is promoted',
    strike: async (stage) => {
      const { postgres } = stage.parts.servers;
      await loseLaterRows(
        stage,
        () => postgres.backUp(),
        () => postgres.failOver(),
      );
    },
  },
];

const pause =
  "insert into sync.pauses (client, job, by) values ('', 'push-outbox', 'chaos') on conflict do nothing";
const resume =
  "with gone as (delete from sync.pauses where by = 'chaos') select pg_notify('fulfilment_outbox', '')";

async function loseLaterRows(
  stage: Stage,
  backUp: () => Promise<void>,
  restore: () => Promise<void>,
): Promise<void> {
  // With pushes paused, the backup holds rows that wait and that are sent only afterwards.
  await stage.retryQuery(pause);
  await wait(1_500);
  await backUp();
  await stage.retryQuery(resume);
  await wait(stage.random.between(1_000, 3_000));
  const booked = await restoreAfterLastOrder(stage, restore);
  await stage.retryQuery(resume);
  // By now, a worker has sent every row that it had claimed before the restore, or will never send
  // it.
  await wait(4_000);
  const { db, close } = connectDatabase(stage.parts.database.superUrl, silentLogger, {
    name: 'operator',
    max: 1,
  });
  try {
    const isHeld = await waitFor('the workers to notice', async () => {
      const found = await readPushDatabase(db).catch(() => null);
      if (found?.acceptedAs === 'failover' && found.change === 'none') return 'no';
      return found?.changedAt ? 'yes' : null;
    });
    if (isHeld === 'yes') {
      await acceptDatabase(db, 'restored', 'operator');
    }
    await bookAgain(stage, booked);
    // It does no harm to send a change of an order again, so the operator retries these rows.
    const undecided = { status: 'unknown', kind: 'order.update', dated: false } as const;
    await actOnOutbox(db, 'retry', undecided, { by: 'operator' });
  } finally {
    await close();
  }
}

/**
 * Locks the outbox against inserts, reads all rows that the ERP has inserted so far, and restores.
 */
async function restoreAfterLastOrder(
  stage: Stage,
  restore: () => Promise<void>,
): Promise<readonly OrderRow[]> {
  const client = new pg.Client(stage.parts.database.superUrl);
  // The restore ends this connection.
  client.on('error', () => undefined);
  await client.connect();
  await client.query('begin');
  await client.query('lock table fulfilment.outbox in exclusive mode');
  const { rows } = await client.query<OrderRow>(
    'select client, kind, reference, payload from fulfilment.outbox order by id',
  );
  await restore();
  return rows;
}

/**
 * Does what an ERP does after a restore: inserts the rows that the restored outbox lacks. An order
 * that the service already has is inserted as done.
 */
async function bookAgain(stage: Stage, booked: readonly OrderRow[]): Promise<void> {
  const { clients } = await stage.parts.sandbox.call<{
    clients: {
      client: string;
      orders: { resource: { attributes: { externalOrderNumber: string } } }[];
    }[];
  }>('GET', '/_sandbox/state?lists=orders');
  const there = clients.flatMap(({ client, orders }) =>
    orders.map(({ resource }) => `${client} ${resource.attributes.externalOrderNumber}`),
  );
  await stage.retryQuery(
    `insert into fulfilment.outbox (client, kind, reference, payload, status, next_attempt_at, finished_at, result)
     select r.client, r.kind, r.reference, r.payload, case when is_there then 'done' else 'pending' end,
       case when not is_there then now() end, case when is_there then now() end, case when is_there then '{}'::jsonb end
     from rows from (jsonb_to_recordset($1) as (client text, kind text, reference text, payload jsonb))
       with ordinality as r (client, kind, reference, payload, place)
     cross join lateral (select r.kind = 'order.create' and r.client || ' ' || r.reference = any($2)) as t (is_there)
     where not exists (select from fulfilment.outbox o where (o.client, o.kind, o.reference) = (r.client, r.kind, r.reference))
     order by r.place`,
    [JSON.stringify(booked), there],
  );
}
