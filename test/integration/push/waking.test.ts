import { sql } from 'kysely';
import pg from 'pg';
import { afterEach, describe, expect, test } from 'vitest';
import { silentLogger } from '../../../src/core/logger.ts';
import { openListener } from '../../../src/db/connect.ts';
import type { Database } from '../../../src/db/pool.ts';
import { awakeMs } from '../../../src/push/pusher.ts';
import { lastLookMs, sayAwake } from '../../../src/push/sql/due-work.ts';
import { insertOrders, orderPayload } from '../../helpers/order-payload.ts';
import { usePushes } from '../../helpers/pusher.ts';
import { waitFor } from '../../helpers/wait.ts';

const { database, outbox } = usePushes();
const closers: (() => Promise<unknown>)[] = [];
afterEach(() => Promise.all(closers.splice(0).map((close) => close())));

/** Listens as a worker does, and returns the notifications that come. */
async function listen() {
  const client = new pg.Client(database.url);
  await client.connect();
  closers.push(() => client.end());
  const named: string[] = [];
  let marks = 0;
  client.on('notification', ({ channel, payload = '' }) => {
    if (channel === 'mark') marks++;
    else named.push(payload);
  });
  await client.query('listen fulfilment_outbox; listen mark');

  const readNamed = async () => {
    const before = marks;
    // Notifications come in the order of their commits.
    await database.query("select pg_notify('mark', '')");
    await waitFor('the mark', () => marks > before);
    return named;
  };
  return { named: readNamed, count: async () => (await readNamed()).length };
}

const insertRow = (client = 'default') => outbox.insert('order.cancel', 'SO-1', {}, client);
const setAwake = (span: string) =>
  database.query(
    `insert into sync.awake_clients (client, awake_until) values ('default', clock_timestamp() + $1::interval)
     on conflict (client) do update set awake_until = excluded.awake_until`,
    [span],
  );

describe('an insert', () => {
  test('notifies, unless a worker has said that it looks by itself for this client', async () => {
    const heard = await listen();
    await insertRow();
    expect(await heard.count()).toBe(1);

    await setAwake('4 seconds');
    await insertRow();
    expect(await heard.count()).toBe(1);
    await insertRow('other');
    expect(await heard.named()).toEqual(['default', 'other']);

    await setAwake('-1 millisecond');
    await insertRow();
    expect(await heard.count()).toBe(3);
  });

  test('notifies if the clock was set back since a worker was awake', async () => {
    const heard = await listen();
    await setAwake('1 hour');
    await insertRow();
    expect(await heard.count()).toBe(1);
    // The next promise counts again. Other workers are notified of it.
    await sayAwake(database.db, ['default'], 4_000);
    expect(await heard.count()).toBe(2);
    await insertRow();
    expect(await heard.count()).toBe(2);
  });

  test('decides at its commit', async () => {
    const heard = await listen();
    await setAwake('4 seconds');
    await database.db.transaction().execute(async (erp) => {
      await sql`insert into fulfilment.outbox (kind, reference) values ('order.cancel', 'SO-1')`.execute(
        erp,
      );
      await setAwake('-1 millisecond');
    });
    expect(await heard.count()).toBe(1);
  });
});

/** Starts a pusher that hears notifications, as a worker does. */
async function startWorker() {
  const worker = await outbox.start();
  const listener = openListener(
    database.url,
    'fulfilment_outbox',
    (client) => worker.pusher.onNotification(client),
    silentLogger,
  );
  const stop = async () => {
    await listener.close();
    await worker.stop(1_000);
  };
  closers.push(stop);
  return worker.pusher;
}

const countDone = () => database.count("fulfilment.outbox where status = 'done'");
const readAwake = async () => {
  const [row] = await database.query<{ ms: number }>(
    `select (extract(epoch from awake_until - clock_timestamp()) * 1000)::float8 as ms
     from sync.awake_clients`,
  );
  return row?.ms ?? Number.NEGATIVE_INFINITY;
};

/** Inserts an order.create in a session or transaction of the ERP. */
const insertOrderIn = (erp: Database, number: string) =>
  sql`
    insert into fulfilment.outbox (kind, reference, payload)
    values ('order.create', ${number}, ${JSON.stringify(orderPayload(number))}::jsonb)`.execute(
    erp,
  );

/** Notifies a worker of more inserts than it looks. */
const crowd = (pusher: { readonly onNotification: (client: string) => void }) => {
  for (let count = 0; count < 10; count++) pusher.onNotification('');
};

describe('a worker', () => {
  test('falls asleep although a row is due that the ERP has locked', async () => {
    const id = await insertRow();
    await database.db.transaction().execute(async (erp) => {
      await sql`select from fulfilment.outbox where id = ${id} for update`.execute(erp);
      const pusher = await startWorker();
      // On a slow machine the promise may be over before it is read.
      const neverAwake = Number.NEGATIVE_INFINITY;
      await waitFor('a promise to be awake', async () => {
        crowd(pusher);
        return (await readAwake()) > neverAwake;
      });
      await waitFor('the worker to sleep', async () => (await readAwake()) < -500, 10_000);
    });
  });

  test('looks by itself while many rows come, and hears the ERP again when it has fallen asleep', async () => {
    await startWorker();
    let inserted = 0;
    const sessions = Array.from({ length: 8 }, () => database.open(1));
    await waitFor('the worker to be awake', async () => {
      const first = inserted;
      inserted += 8 * 20;
      await Promise.all(
        sessions.map(async (db, session) => {
          for (let n = 0; n < 20; n++) await insertOrderIn(db, `SO-${first + session * 20 + n}`);
        }),
      );
      return (await readAwake()) > 0;
    });
    expect(await readAwake()).toBeLessThanOrEqual(awakeMs);

    // An ERP transaction stays open across the moment at which the worker falls asleep.
    await database.db.transaction().execute(async (erp) => {
      await insertOrderIn(erp, 'LATE');
      await waitFor('all other rows', async () => (await countDone()) === inserted);
      await waitFor(
        'the worker to have looked for the last time',
        async () => (await readAwake()) < -2 * lastLookMs,
      );
    });
    await waitFor('the late row', async () => (await countDone()) === inserted + 1, 10_000);
  });

  test('sends a row at its time that was inserted beside one that is due', async () => {
    await startWorker();
    // It looks again a second after a look that found a row.
    await insertOrders(database, 1, 1);
    await waitFor('the first row', async () => (await countDone()) === 1);
    await waitFor('the looks for it to be over', async () => {
      const looks = await database.count(`pg_stat_activity
        where datname = current_database() and query like '%soon as materialized%'
          and pid <> pg_backend_pid() and state_change > now() - interval '2 seconds'`);
      return looks === 0;
    });

    await database.query(
      `insert into fulfilment.outbox (kind, reference, payload, not_before)
       select 'order.create', v.reference, v.payload, v.not_before
       from (values ('NOW', $1::jsonb, null), ('LATER', $2::jsonb, now() + interval '2 seconds'))
         as v (reference, payload, not_before)`,
      [JSON.stringify(orderPayload('NOW')), JSON.stringify(orderPayload('LATER'))],
    );
    await waitFor('both rows', async () => (await countDone()) === 3, 30_000);
  });

  test('finds a row that nobody was notified of, because the worker that was awake is lost', async () => {
    await startWorker();
    await insertOrders(database, 1, 1);
    await waitFor('the first row', async () => (await countDone()) === 1);

    const id = await waitFor('an insert that notifies nobody', async () => {
      // This notifies the worker, which looks at once. It must have slept again before the insert.
      await sayAwake(database.db, ['default'], 4_000);
      await waitFor('the worker to have looked', async () => (await readAwake()) < 2_500);
      const inserted = await outbox.insertOrder('SO-2');
      if ((await readAwake()) > 0) return inserted;

      await database.query('delete from fulfilment.outbox where id = $1', [inserted]);
      return null;
    });
    await waitFor('the row', async () => (await outbox.row(id)).status === 'done', 10_000);
  });

  test('finds a row whose transaction decided that it is awake, and was committed soon after', async () => {
    await startWorker();
    await waitFor('a commit in time', async () => {
      const before = await countDone();
      await sayAwake(database.db, ['default'], 300);
      await database.db.transaction().execute(async (erp) => {
        await insertOrderIn(erp, 'SO-1');
        await sql`set constraints all immediate`.execute(erp);
        await waitFor('the worker to fall asleep', async () => (await readAwake()) < -200);
      });
      if ((await readAwake()) < -lastLookMs + 300) {
        await database.query("delete from fulfilment.outbox where status = 'pending'");
        return false;
      }
      await waitFor('the row', async () => (await countDone()) > before, 10_000);
      return true;
    });
  });
});
