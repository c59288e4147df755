import pg from 'pg';
import { expect, test } from 'vitest';
import { postWebhook } from '../../../src/operate/deliveries/post-webhook.ts';
import { openDispatcher } from '../../../src/service/transport/dispatcher.ts';
import { useDatabase } from '../../helpers/database.ts';
import {
  insertShipments,
  startReceiver,
  subscribe,
  usePosting,
} from '../../helpers/event-receiver.ts';
import { useServices } from '../../helpers/processes/service.ts';
import { makeConfig } from '../../helpers/puller.ts';
import { quiet, useSandbox } from '../../helpers/sandbox.ts';
import { waitFor } from '../../helpers/wait.ts';

const database = useDatabase();
const sandbox = useSandbox(['default'], quiet);
const services = useServices();
const startPosting = usePosting(database, sandbox);

test('a writer neither repeats nor steals events, and its open transaction holds up none', async () => {
  const receiver = await startReceiver(services);
  await startPosting(subscribe(receiver.url));
  await insertShipments(database, 1, 3);
  await waitFor('the first events', () => receiver.taken().length === 3);
  const names = (
    await database.query<{ name: string }>('select name from fulfilment.consumers')
  ).map(({ name }) => name);
  const asWriter = (statements: string) =>
    database.query(`begin; set local role fulfilment_writer; ${statements}; commit`);
  for (const name of [...names, 'fulfilment-sync events']) {
    await asWriter(`select fulfilment.start_consumer('${name}', 0, true)`);
    await asWriter(`select count(*) from fulfilment.consume_changes('${name}', 2)`);
  }
  await insertShipments(database, 4, 4);
  await waitFor('the next event', () => receiver.taken().some(({ data }) => data.id === 4));
  expect(
    receiver
      .taken()
      .map(({ data }) => data.id)
      .sort(),
  ).toEqual([1, 2, 3, 4]);
});

test('an event that the receiver always fails with 500 holds no other', async () => {
  const receiver = await startReceiver(services, ({ data }) => (data.id === 1 ? 500 : 204));
  await startPosting(subscribe(receiver.url));
  await insertShipments(database, 1, 1);
  await waitFor('three failures', () => receiver.attempts.length >= 3);
  for (let n = 2; n <= 10; n++) {
    await insertShipments(database, n, n);
    await waitFor('the next one', () => receiver.taken().length === n - 1);
  }
  const [state] = await database.query('select away_since, places from sync.receivers');
  expect(state).toEqual({ away_since: null, places: 8 });
});

test('a lock of the writer on carrier_links holds up no event', async () => {
  const receiver = await startReceiver(services);
  await startPosting(subscribe(receiver.url, { personalData: true }));
  const session = new pg.Client({ connectionString: database.url });
  await session.connect();
  try {
    await session.query(
      'begin; set local role fulfilment_writer; lock table fulfilment.carrier_links in access exclusive mode',
    );
    await insertShipments(database, 1, 1);
    await database.query(`
      begin;
      insert into fulfilment.outbox (kind, reference, status, finished_at, next_attempt_at, attempts, last_error)
      values ('order.create', 'SO-2', 'dead', now(), null, 1, 'no');
      insert into fulfilment.changes (client, entity, id, operation, changed_columns)
      select 'default', 'outbox', id, 'updated', '{status,finished_at}' from fulfilment.outbox;
      commit`);
    await waitFor('both events', () => receiver.taken().length === 2);
  } finally {
    await session.end();
  }
});

test('a receiver that does not answer in time has a code of its own', async () => {
  const { url } = await services.start(() => undefined);
  const dispatcher = openDispatcher(makeConfig(database, sandbox), 10_000);
  const never = new AbortController().signal;
  const webhook = { url: url.href, secret: undefined, dispatcher, timeoutMs: 200 };
  expect(await postWebhook(webhook, 'id', '{}', never)).toEqual({
    ...{ kind: 'away', code: 'timeout', error: 'the receiver did not answer within 200 ms' },
  });
  await dispatcher.destroy();
});
