import { describe, expect, test } from 'vitest';
import { done, usePulls } from '../../helpers/puller.ts';
import { emptyList } from '../../helpers/sandbox.ts';

const { database, sandbox, pull, findDifferences } = usePulls({ ordersPerDay: 15 });

const differences = () => findDifferences(['orders', 'shipments']);
const listIds = (status: string) => database.ids(`fulfilment.shipments where status = '${status}'`);

/** Counts the row versions ever written in schema fulfilment, by Postgres' statistics. */
async function countRowVersions(): Promise<number> {
  // A session reports its statistics at its end at the latest.
  await database.endRuns();
  const [row] = await database.query<{ written: number }>(`
    select sum(n_tup_ins + n_tup_upd + n_tup_del)::int as written from pg_stat_user_tables where schemaname = 'fulfilment'`);
  return row?.written ?? 0;
}

test('a full page of open shipments is no warning if other lists of the service gave next links', async () => {
  await sandbox.seed(250);
  await pull('pull-shipments');
  const open = await database.count(
    `fulfilment.shipments where status not in ('SHIPPED', 'ERROR')`,
  );
  await sandbox.seed(100 - open, { statuses: ['READY_TO_PICK'] });
  const place = await sandbox.lastPlace();
  expect(done(await pull('pull-shipments'))).toMatchObject({ warnings: [] });
  const lists = (await sandbox.requests(place)).filter(({ query }) => query.includes('status'));
  expect(lists).toHaveLength(1);
});

describe('many shipments', () => {
  test('equal the sandbox; a second poll reads 1 page of the new pass and writes 0 row versions', async () => {
    await sandbox.seed(350, {
      statuses: ['SHIPPED', 'SHIPPED', 'SHIPPED', 'READY_TO_PICK', 'READY_TO_SHIP', 'ERROR'],
    });
    const first = done(await pull('pull-shipments'));
    expect(first.fetched).toBeGreaterThanOrEqual(350);
    done(await pull('pull-orders'));
    expect(await differences()).toEqual([]);

    const [before, place] = [await countRowVersions(), await sandbox.lastPlace()];
    expect(before).toBeGreaterThan(700);
    expect(done(await pull('pull-shipments'))).toMatchObject({
      created: 0,
      updated: 0,
      removed: 0,
    });
    const asked = await sandbox.requestsTo('/v3/shipments', place);
    expect(asked.filter(({ query }) => !query.includes('filter'))).toHaveLength(1);
    expect((await countRowVersions()) - before).toBe(0);
  });
});

describe('a shipment that moves on after it was pulled', () => {
  test('is read by id if the lists no longer show it, and postponed if it stays open', async () => {
    await sandbox.seed(2, { statuses: ['READY_TO_PICK'], spreadDays: 0 });
    done(await pull('pull-orders'));
    done(await pull('pull-shipments'));
    const [shipped = 0, stuck = 0] = await listIds('READY_TO_PICK');
    await sandbox.advance(95 * 86_400);
    await sandbox.setStatus([shipped], 'SHIPPED');
    done(await pull('pull-shipments'));
    expect(await listIds('SHIPPED')).toContain(shipped);
    expect(await listIds('READY_TO_PICK')).toContain(stuck);
    const place = await sandbox.lastPlace();
    done(await pull('pull-shipments'));
    expect(await sandbox.count('v3.shipments.get', place)).toBe(0);
    expect(
      await database.query("select id, tries from sync.waiting_reads where resource = 'shipments'"),
    ).toEqual([{ id: stuck, tries: 1 }]);
  });
});

describe('an unusual shipment', () => {
  test('with an unknown status is stored, counts as open and is read again', async () => {
    await sandbox.seed(1, { statuses: ['READY_TO_PICK'] });
    const set = [{ path: ['data', 0, 'attributes', 'status'], value: 'AWAITING_MOON' }];
    await sandbox.faults({ operation: 'v3.shipments.list', count: 2, effect: { set } });
    done(await pull('pull-shipments'));
    expect(await listIds('AWAITING_MOON')).toHaveLength(1);
    await sandbox.clearFaults();
    done(await pull('pull-shipments'));
    expect(await listIds('READY_TO_PICK')).toHaveLength(1);
  });

  test('that the service no longer knows is marked, kept, and entered in the feed', async () => {
    await sandbox.seed(1, { statuses: ['READY_TO_PICK'] });
    done(await pull('pull-shipments'));
    await sandbox.faults(
      { operation: 'v3.shipments.list', effect: emptyList },
      { operation: 'v3.shipments.get', effect: { status: 404 } },
    );
    expect(done(await pull('pull-shipments'))).toMatchObject({ updated: 1 });
    expect(await database.count('fulfilment.shipments where unlisted_since is not null')).toBe(1);
    expect(
      await database.query(
        `select operation from fulfilment.changes where entity = 'shipments' order by seq`,
      ),
    ).toEqual([{ operation: 'created' }, { operation: 'unlisted' }]);
  });
});
