import { describe, expect, test } from 'vitest';
import { streams } from '../../../src/pull/streams/all-streams.ts';
import { useDatabase } from '../../helpers/database.ts';
import { compareWithSandbox } from '../../helpers/oracle.ts';
import { done, usePuller } from '../../helpers/puller.ts';
import { lively, quiet, useSandbox } from '../../helpers/sandbox.ts';

const database = useDatabase();
const day = 86_400;

const readFirstId = async (table: string) => (await database.ids(`fulfilment.${table}`))[0] ?? 0;

/**
 * Changes that an id cursor alone would miss, by the pass that finds them (docs/architecture.md).
 */
describe('a poll', () => {
  const sandbox = useSandbox(['default'], quiet);
  const pull = usePuller(database, sandbox);
  const differences = (stream: string) => compareWithSandbox(database.db, sandbox.url, [stream]);

  /** Hides the first row of a list for some seconds, while a poll reads the rows after it. */
  async function hideFirst(operation: string, seconds: number): Promise<void> {
    await sandbox.faults({ operation, count: 1, effect: { hideRow: { index: 0, seconds } } });
  }

  test('finds a shipment with a low id that becomes visible late, by its open pass', async () => {
    await sandbox.seed(150, { statuses: ['READY_TO_PICK'] });
    await hideFirst('v3.shipments.list', day);
    done(await pull('pull-shipments'));
    const second = await readFirstId('shipments');
    await sandbox.advance(2 * day);
    const place = await sandbox.lastPlace();
    expect(done(await pull('pull-shipments'))).toMatchObject({ created: 2 });
    const lowest = await readFirstId('shipments');
    expect(lowest).toBeLessThan(second);
    done(await pull('pull-orders'));
    expect(await differences('shipments')).toEqual([]);
    // The walk continued from its cursor, so it did not read the page that holds the shipment.
    const asked = await sandbox.requestsTo('/v3/shipments', place);
    expect(
      asked
        .filter(({ query }) => !query.includes('filter'))
        .every(({ query }) => query.includes('cursor')),
    ).toBe(true);
  });
});

describe('a daemon that was off for 95 days', () => {
  const sandbox = useSandbox(['default'], { ...lively, ordersPerDay: 4 });
  const pull = usePuller(database, sandbox);

  test('reads all that is listed, settles open rows, and records the unreadable span as a gap', async () => {
    await sandbox.advance(20 * day);
    for (const { name } of streams) done(await pull(`pull-${name}` as Parameters<typeof pull>[0]));
    expect(await compareWithSandbox(database.db, sandbox.url)).toEqual([]);
    await sandbox.advance(95 * day);
    for (const { name } of streams) done(await pull(`pull-${name}` as Parameters<typeof pull>[0]));
    const differences = await compareWithSandbox(database.db, sandbox.url);
    // Only shipments of days that the service no longer lists are missing, with their items.
    expect(new Set(differences.map((line) => line.replace(/\d+/g, 'n')))).toEqual(
      new Set(['default: shipments n is missing', 'default: shipment_items n is missing']),
    );
    const gaps = await database.query<{ stream: string; days: number }>(
      `select stream, round(extract(epoch from to_at - from_at) / 86400)::int as days from sync.gaps order by 1`,
    );
    expect(gaps).toEqual([
      { stream: 'inbound-packing-slips', days: 5 },
      { stream: 'shipments', days: 5 },
    ]);
  });
});
