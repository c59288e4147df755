import { describe, expect, test } from 'vitest';
import { streams } from '../../../src/pull/streams/all-streams.ts';
import { useDatabase } from '../../helpers/database.ts';
import { done, usePuller } from '../../helpers/puller.ts';
import { quiet, useSandbox } from '../../helpers/sandbox.ts';

const database = useDatabase();

/** Number of open rows in these tests: two pages. */
const openRows = 200;

const job = (stream: string) => `pull-${stream}` as 'pull-shipments';

describe('the requests of a poll, without those for a token,', () => {
  const sandbox = useSandbox(['default'], quiet);
  const pull = usePuller(database, sandbox);
  const count = async (stream: string) => {
    const place = await sandbox.lastPlace();
    const totals = done(await pull(job(stream)));
    const asked = await sandbox.requests(place);
    return { requests: asked.filter(({ path }) => path !== '/token').length, totals };
  };

  test('are as documented for shipments', async () => {
    await sandbox.seed(openRows, { statuses: ['READY_TO_PICK'], spreadDays: 5 });
    await sandbox.seed(50, { spreadDays: 5 });
    done(await pull('pull-shipments'));
    done(await pull('pull-orders'));
    const changed = (await database.ids('fulfilment.shipments')).slice(0, 10);
    await sandbox.setStatus(changed, 'SHIPPED');
    const manyOpen = await count('shipments');
    expect(manyOpen.totals).toMatchObject({ created: 0, updated: 10 });
    const rest = await database.ids(`fulfilment.shipments where status <> 'SHIPPED'`);
    await sandbox.setStatus(rest, 'SHIPPED');
    done(await pull('pull-shipments'));
    const nothing = await count('shipments');
    expect(nothing.totals).toMatchObject({ created: 0, updated: 0 });
    await sandbox.seed(1, { spreadDays: 0 });
    const oneNew = await count('shipments');
    expect(oneNew.totals.created).toBeGreaterThanOrEqual(2);
    expect([nothing.requests, oneNew.requests, manyOpen.requests]).toEqual([2, 2, 4]);
  });

  test('are those of its date window for orders, whose window is read again', async () => {
    await sandbox.seed(openRows, { spreadDays: 5 });
    done(await pull('pull-orders'));
    const manyOpen = await count('orders');
    // Each poll reads the whole window, from its first page.
    for (let again = 1; again <= 2; again++) expect(await count('orders')).toEqual(manyOpen);
    await sandbox.call('POST', '/_sandbox/reset', { startMs: quiet.startMs(), ordersPerDay: 0 });
    await database.query(
      'truncate fulfilment.orders, fulfilment.order_items, fulfilment.order_addresses, sync.cursors',
    );
    await sandbox.seed(20, { spreadDays: 5 });
    done(await pull('pull-orders'));
    const nothing = await count('orders');
    await sandbox.seed(1, { spreadDays: 0 });
    const oneNew = await count('orders');
    expect(oneNew.totals.created).toBeGreaterThan(0);
    expect([nothing.requests, oneNew.requests, manyOpen.requests]).toEqual([1, 1, 2]);
  });

  test('are one for each pass if the stream has no resource', async () => {
    for (const stream of streams) {
      done(await pull(job(stream.name)));
      const passes = stream.name === 'orders' || stream.name === 'return-items' ? 1 : 2;
      expect({ stream: stream.name, ...(await count(stream.name)) }).toMatchObject({
        requests: passes,
      });
    }
  });
});
