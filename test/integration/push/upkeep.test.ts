import { sql } from 'kysely';
import { expect, test } from 'vitest';
import { RecentSends } from '../../../src/push/send-row.ts';
import { Upkeep } from '../../../src/push/upkeep.ts';
import { registerClients } from '../../../src/service/sql/clients.ts';
import { useDatabase } from '../../helpers/database.ts';
import { waitFor } from '../../helpers/wait.ts';

const database = useDatabase();
const account = { client: 'default', identity: 'x', baseUrl: 'https://service.test/' };

test('claims are renewed even while the other upkeep waits for a lock', async () => {
  await registerClients(database.db, [account]);
  const [row] = await database.query<{ id: number; claimNo: number }>(`
    insert into fulfilment.outbox (kind, reference, payload, status, next_attempt_at, lease_until, claim_no, attempts)
    values ('order.cancel', 'SO-1', '{}', 'sending', null, now() + interval '10 seconds', nextval('sync.read_no'), 1)
    returning id, claim_no as "claimNo"`);
  const upkeep = new Upkeep({
    db: database.db,
    claimsDb: database.open(1),
    worker: 'test',
    clients: [account],
    rules: {},
    isFenced: false,
    claims: () => (row === undefined ? [] : [row]),
    sent: new RecentSends(1),
    events: {
      onDatabase: () => undefined,
      onTakenOver: () => undefined,
      onMarkedDead: () => undefined,
      onOutdated: () => undefined,
      onError: () => undefined,
    },
    wake: () => undefined,
  });
  const other = database.open(1);
  let waiting: Promise<void> | undefined;
  await other.transaction().execute(async (trx) => {
    await sql`select from sync.clients for update`.execute(trx);
    waiting = upkeep.once();
    await database.waitForBlocked('the upkeep to wait for the lock');
    await database.query("update fulfilment.outbox set lease_until = now() + interval '1 second'");
    void upkeep.once();
    await waitFor('the claim to be renewed', async () => {
      const renewed = await database.query(
        "select from fulfilment.outbox where lease_until > now() + interval '8 seconds'",
      );
      return renewed.length > 0;
    });
  });
  await waiting;
  await upkeep.stop();
  expect(await database.query('select served_at is not null as served from sync.clients')).toEqual([
    { served: true },
  ]);
});
