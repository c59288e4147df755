import { expect, test } from 'vitest';
import { openPusher } from '../../../src/cli/worker/open-pusher.ts';
import { createLogger } from '../../../src/operate/logging/create-logger.ts';
import { toClientIdentity } from '../../../src/schedule/runs.ts';
import { openWarehouses } from '../../../src/service/open-warehouses.ts';
import { registerClients } from '../../../src/service/sql/clients.ts';
import { useDatabase } from '../../helpers/database.ts';
import { insertOrders } from '../../helpers/order-payload.ts';
import { makeConfig } from '../../helpers/puller.ts';
import { quiet, useSandbox } from '../../helpers/sandbox.ts';

const database = useDatabase();
const sandbox = useSandbox(['default'], quiet);

test('the log line of a failed push has the operation and its HTTP status', async () => {
  await insertOrders(database, 1, 1);
  await sandbox.faults({ operation: 'v3.orders.create', effect: { status: 503, retryAfter: '9' } });
  const config = makeConfig(database, sandbox);
  await registerClients(database.db, config.clients.map(toClientIdentity));
  const lines: Record<string, unknown>[] = [];
  const log = createLogger('info', { write: (line) => lines.push(JSON.parse(line)) });
  const { warehouses, close: closeWarehouses } = openWarehouses(config);
  const numberFeed = () => Promise.resolve();
  const setup = { config, databaseUrl: database.url, warehouses, worker: 'test', log, numberFeed };
  const { pusher, close } = openPusher(setup);

  await pusher.drain();
  await Promise.all([close(), closeWarehouses()]);

  expect(lines).toContainEqual(
    expect.objectContaining({
      event: 'push_pending',
      kind: 'order.create',
      operation: 'v3.orders.create',
      httpStatus: 503,
    }),
  );
});
