/**
 * Measures the change feed under 16 sessions of one insert a transaction, at 2 ms of commit latency,
 * such as a synchronous standby in another zone has: transactions per second, and the time from a
 * change until programs can read it. As in a worker, a commit asks for the next look for changes. By
 * turns with writers that each hold one lock until their commit, and also while one more transaction
 * stays open: `npm run --silent bench:feed -- [SECONDS]`.
 */
import { setTimeout as wait } from 'node:timers/promises';
import pg from 'pg';
import { makePoolConfig, openDatabase } from '../src/db/pool.ts';
import { FeedNumbering } from '../src/push/feed-numbering.ts';
import { printLine, quantile, round, saveResults } from './stand/measure.ts';
import { openStand, type Stand } from './stand/stand.ts';

const seconds = Number(process.argv[2] ?? 10);
const rounds = 3;
const sessions = 16;
const pollMs = 10;
const settings = ['commit_delay = 2000', 'commit_siblings = 0'];

/** An insert is one transaction. The key says when it was sent, by the clock of this process. */
const insert = (key: string) => ({
  name: 'insert',
  text: `insert into sync.new_changes (client, entity, id, key, operation)
    values ('default', 'bench', 1, $1, 'created')`,
  values: [key],
});
const lock = "select from sync.locks where name = 'bench' for update";

async function writeUntil(
  endsAtMs: number,
  url: string,
  isLocked: boolean,
  feed: FeedNumbering,
): Promise<number> {
  const client = new pg.Client(url);
  await client.connect();
  let count = 0;
  while (performance.now() < endsAtMs) {
    if (isLocked) await client.query('begin').then(() => client.query(lock));
    await client.query(insert(String(Math.round(performance.now()))));
    if (isLocked) await client.query('commit');
    void feed.number();
    count++;
  }
  await client.end();
  return count;
}

/** Reads the feed as a program does, and adds to `times` the milliseconds until each change. */
async function follow(url: string, isWriting: () => boolean, times: number[]): Promise<void> {
  const client = new pg.Client(url);
  await client.connect();
  const { rows } = await client.query('select max(seq) as seq from fulfilment.changes');
  let place = rows[0]?.seq ?? 0;
  for (let isLast = false; !isLast; ) {
    isLast = !isWriting();
    const read = await client.query('select seq, key from fulfilment.changes_since($1, 5000)', [
      place,
    ]);
    const now = performance.now();
    times.push(...read.rows.map(({ key }) => now - Number(key)));
    place = read.rows.at(-1)?.seq ?? place;
    isLast &&= read.rows.length === 0;
    if (read.rows.length === 0) await wait(isLast ? 0 : pollMs);
  }
  await client.end();
}

async function measure(stand: Stand, feed: FeedNumbering, way: string) {
  const open = new pg.Client(stand.url);
  await open.connect();
  if (way === 'open transaction')
    await open.query('begin').then(() => open.query(insert(String(Number.NaN))));
  const times: number[] = [];
  let isWriting = true;
  const following = follow(stand.url, () => isWriting, times);
  const endsAtMs = performance.now() + seconds * 1_000;
  const counts = await Promise.all(
    Array.from({ length: sessions }, () =>
      writeUntil(endsAtMs, stand.url, way === 'one lock', feed),
    ),
  );
  await feed.number();
  isWriting = false;
  await following;
  await open.end();
  const written = counts.reduce((sum, count) => sum + count, 0);
  const figures = {
    way,
    transactionsPerSecond: round(written / seconds),
    visible: times.length === written ? 'all' : `${times.length} of ${written}`,
    p50: Math.round(quantile(times, 0.5)),
    p99: Math.round(quantile(times, 0.99)),
  };
  printLine(JSON.stringify(figures));
  return figures;
}

const stand = await openStand();
const found: object[] = [];
try {
  await stand.query("insert into sync.locks values ('bench')");
  for (const setting of settings) await stand.query(`alter system set ${setting}`);
  await stand.query('select pg_reload_conf()');
  const pool = new pg.Pool(makePoolConfig(stand.url, { name: 'bench', max: 1 }));
  const feed = new FeedNumbering(openDatabase(pool), (error) => printLine(String(error)));
  for (let turn = 0; turn < rounds; turn++)
    for (const way of ['one lock', 'new_changes', 'open transaction'])
      found.push(await measure(stand, feed, way));
  await feed.close();
  await pool.end();
} finally {
  await stand.stop();
}
saveResults('feed', { seconds, sessions, found });
