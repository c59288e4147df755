/**
 * Measures how fast shipments with two items each are pulled from the sandbox into Postgres, and
 * compares that with four other ways to do the same or a part of it: `npm run --silent bench:pull
 * -- [--shipments 200000] [--rounds 5]`. They run by turns, on one Postgres.
 */
import { parseArgs } from 'node:util';
import { waitFor } from '../test/helpers/wait.ts';
import { measureLoads, rowsEach, seedShipments } from './stand/loads.ts';
import {
  measureByTurns,
  median,
  medianRatio,
  printLine,
  round,
  saveResults,
} from './stand/measure.ts';
import { openStand, readLastRate, type Stand } from './stand/stand.ts';

const { values } = parseArgs({
  options: {
    // Of all rounds together.
    shipments: { type: 'string', default: '200000' },
    rounds: { type: 'string', default: '5' },
  },
});
const [total, rounds] = [Number(values.shipments), Number(values.rounds)];
const slice = Math.round(total / rounds);

/** Counts the row versions that have been written in schema fulfilment. */
async function countRowVersions({ query }: Stand): Promise<number> {
  // Sessions report their writes to the statistics when they end.
  const sessions = `select from pg_stat_activity where application_name like 'fulfilment-sync%'`;
  await waitFor('the sessions to end', async () => (await query(sessions)).length === 0);
  const [row] = await query<{ n: number }>(
    `select sum(n_tup_ins + n_tup_upd + n_tup_del)::int as n from pg_stat_user_tables where schemaname = 'fulfilment'`,
  );
  return row?.n ?? 0;
}

/** Reads all shipments again. */
async function measureRescan(
  stand: Stand,
): Promise<{ rowsPerSecond: number; rowVersions: number }> {
  const before = await countRowVersions(stand);
  await stand.run(['backfill', 'shipments']);
  return {
    rowsPerSecond: await readLastRate(stand, 'rescans', rowsEach),
    rowVersions: (await countRowVersions(stand)) - before,
  };
}

/** Changes the return label of every hundredth shipment. */
async function changeOneInAHundred({ query, sandbox }: Stand, turn: number): Promise<void> {
  const found = await query<{ id: number }>(
    'select id::int from fulfilment.shipments where id % 100 = 0',
  );
  const shipmentIds = found.map(({ id }) => id);
  await sandbox.call('POST', '/_sandbox/edit', {
    client: 'default',
    shipmentIds,
    returnLabel: `RL-${turn}`,
  });
}

async function measureRescans(stand: Stand) {
  const unchanged: number[] = [];
  const changed: number[] = [];
  const written = { unchanged: 0, changed: 0 };
  const figures = await measureByTurns(rounds, {
    're-scan, unchanged': async () => {
      const { rowsPerSecond, rowVersions } = await measureRescan(stand);
      unchanged.push(rowVersions);
      return rowsPerSecond;
    },
    're-scan, 1 % changed': async (turn) => {
      await changeOneInAHundred(stand, turn);
      const { rowsPerSecond, rowVersions } = await measureRescan(stand);
      changed.push(rowVersions);
      return rowsPerSecond;
    },
  });
  written.unchanged = Math.max(...unchanged);
  written.changed = median(changed);
  return { figures, written };
}

/** Opens a stand for `work`, and stops it afterwards, even if `work` fails. */
async function withStand<T>(work: (stand: Stand) => Promise<T>): Promise<T> {
  const stand = await openStand();
  try {
    return await work(stand);
  } finally {
    await stand.stop();
  }
}

const figures = await withStand((stand) => measureLoads(stand, { shipments: slice, rounds }));
const again = await withStand(async (stand) => {
  await seedShipments(stand, slice);
  await stand.run(['run', 'pull-shipments']);
  return measureRescans(stand);
});
const found = { ...figures, ...again.figures };
const rowsPerSecond = Object.fromEntries(
  Object.entries(found).map(([name, values]) => [name, round(median(values))]),
);
const slower =
  (rowsPerSecond['fetch and drop'] ?? 0) < (rowsPerSecond['bulk upsert alone'] ?? 0)
    ? 'fetch and drop'
    : 'bulk upsert alone';
const ratios = Object.fromEntries(
  ['stripe-sync-engine', slower, 'one insert a row'].map((name) => [
    `product : ${name}`,
    round(medianRatio(figures, 'product', name)),
  ]),
);
for (const [name, value] of Object.entries(rowsPerSecond))
  printLine(`${name.padEnd(22)} ${value.toLocaleString('en')} rows/s`);
printLine(JSON.stringify(ratios));
printLine(
  `row versions written by a re-scan: unchanged ${again.written.unchanged}, 1 % changed ${again.written.changed}`,
);
saveResults('pull', {
  shipments: total,
  rescanned: slice,
  rounds,
  rowsPerSecond,
  ratios,
  rowVersions: again.written,
  found,
});
