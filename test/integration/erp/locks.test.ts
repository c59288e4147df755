import { sql } from 'kysely';
import { expect, test } from 'vitest';
import { tryRunExclusively } from '../../../src/erp/connection/transaction.ts';
import { acceptIdentity } from '../../../src/erp/maintenance/accept-identity.ts';
import { isAcceptedUntilCommit } from '../../../src/erp/runs/clients.ts';
import { useDatabase } from '../../helpers/database.ts';
import { orderPayload } from '../../helpers/order-payload.ts';
import { done, usePuller } from '../../helpers/puller.ts';
import { usePusher } from '../../helpers/pusher.ts';
import { quiet, useSandbox } from '../../helpers/sandbox.ts';

const database = useDatabase();
const sandbox = useSandbox(['default'], quiet);
const pull = usePuller(database, sandbox);
const { insert, push, row } = usePusher(database, sandbox);

/** Keys of advisory locks that earlier versions waited for. Any role that can connect may take them. */
const keys = [
  "hashtext('fulfilment.changes')",
  "hashtext('fulfilment-sync prune feed')",
  "hashtext('fulfilment-sync migrate')",
  "hashtext('fulfilment-sync rows'), hashtext('default shipments')",
  "hashtext('fulfilment-sync rows'), hashtext('default orders')",
  "hashtext('fulfilment-sync settings'), hashtext('default')",
  "hashtext('fulfilment-sync identity'), hashtext('default')",
  "hashtext('fulfilment-sync'), hashtext('schedulers')",
];

test('a role that may only connect cannot prevent any write', async () => {
  await sandbox.seed(3);
  const stranger = await database.open(1).startTransaction().execute();
  await sql`set local idle_in_transaction_session_timeout = 0`.execute(stranger);
  for (const key of keys) await sql`select pg_advisory_xact_lock(${sql.raw(key)})`.execute(stranger);
  for (const job of ['refresh-settings', 'pull-shipments', 'prune'] as const) done(await pull(job));
  const id = await insert('order.create', 'SO-1', orderPayload('SO-1'));
  await push();
  expect((await row(id)).status).toBe('done');
  expect(await tryRunExclusively(database.db, 'schedulers', async () => {})).toBe(true);
  await stranger.rollback().execute();
});

test('an account is not accepted while a run with the former account begins', async () => {
  const former = { client: 'default', identity: 'former', baseUrl: 'https://former.test/' };
  await acceptIdentity(database.db, former, true, 'test');
  const beginning = await database.db.startTransaction().execute();
  expect(await isAcceptedUntilCommit(beginning, former)).toBe(true);
  const accepting = acceptIdentity(database.db, { ...former, identity: 'next' }, true, 'test');
  await database.waitForBlocked('the acceptance to wait');
  await beginning.commit().execute();
  expect(await accepting).toMatchObject({ accepted: true });
});
