import { setTimeout as wait } from 'node:timers/promises';
import { expect, test } from 'vitest';
import { Random } from '../../../src/sandbox/random.ts';
import { Fleet, pickDuration, report } from '../../helpers/campaigns/fleet.ts';
import { useDatabase } from '../../helpers/database.ts';
import { useProcesses } from '../../helpers/processes/processes.ts';
import { waitFor } from '../../helpers/wait.ts';

const database = useDatabase();
const processes = useProcesses();

const clients = ['shop-a', 'shop-b', 'shop-c', 'shop-d', 'shop-e'].map((key) => ({ key }));
const hours = pickDuration(2, 10);
const path = '/v2/shipment/tracktrace';

/** How far the test set the clock of schedules ahead, and since when in real time. */
const ahead: { readonly sinceMs: number; readonly seconds: number }[] = [
  { sinceMs: 0, seconds: 0 },
];
/** Returns the time of the clock of schedules at a real time. Both are in milliseconds. */
const toScheduleTimeMs = (realMs: number) =>
  realMs + (ahead.findLast(({ sinceMs }) => sinceMs <= realMs)?.seconds ?? 0) * 1_000;

async function setAhead(seconds: number): Promise<void> {
  ahead.push({ sinceMs: Date.now(), seconds });
  await database.query('update public.test_clock set ahead = make_interval(secs => $1)', [seconds]);
}

/**
 * Returns the seconds until the next call is due, or null if one is due or under way, also with a
 * lost worker.
 */
async function readSecondsToNext(): Promise<number | null> {
  const [row] = await database.query<{ seconds: number; busy: boolean }>(`
    select extract(epoch from min(next_at) - sync.clock())::float8 as seconds,
      exists (select from sync.leases where name = 'track-trace' and expires_at is not null) as busy
    from sync.jobs where job = 'track-trace'`);
  return row === undefined || row.busy || row.seconds <= 0 ? null : row.seconds;
}

test('track-trace is asked once an hour and client, and not much less often, despite kills', async () => {
  await database.query("create table public.test_clock as select interval '0' as ahead");
  await database.query(`
      create or replace function sync.clock() returns timestamptz language sql stable
      as $$ select statement_timestamp() + (select ahead from public.test_clock) $$`);
  const random = new Random(1);
  const fleet = await Fleet.start(processes, {
    databaseUrl: database.url,
    clients,
    env: { SCHEDULE_TRACK_TRACE: '1h' },
    ordersPerDay: 20,
  });
  await fleet.sandbox.advance(2 * 86_400);
  // Slow answers, so that some workers are killed during a call.
  await fleet.sandbox.faults({
    operation: 'v2.shipment.trackTrace',
    probability: 0.5,
    effect: { delayMs: 700 },
  });
  for (let index = 0; index < 3; index++) fleet.startWorker();
  const counts = { kills: 0, byHand: 0, refused: 0 };
  const startedMs = Date.now();
  let nextKillMs = Date.now() + 4_000;
  try {
    const endMs = toScheduleTimeMs(startedMs) + hours * 3_600_000;
    while (toScheduleTimeMs(Date.now()) < endMs) {
      if (Date.now() > nextKillMs) {
        fleet.end(random.pick(fleet.alive), random.chance(0.7) ? 'SIGKILL' : 'SIGTERM');
        fleet.startWorker();
        counts.kills++;
        nextKillMs = Date.now() + random.between(2_000, 5_000);
      }
      const seconds = await readSecondsToNext();
      if (seconds === null) {
        await wait(50);
        continue;
      }
      if (random.chance(0.2)) {
        const { code, output } = await fleet.command(
          'run',
          'track-trace',
          '--client',
          random.pick(clients).key,
        );
        expect([code, output]).toEqual([0, expect.stringMatching(/done|skipped \(.*next due/)]);
        counts.byHand++;
        if (output.includes('skipped')) counts.refused++;
      } else {
        await fleet.sandbox.advance(600);
        await setAhead(
          (ahead.at(-1)?.seconds ?? 0) +
            (seconds > 120 ? seconds * random.pick([0.4, 1]) : seconds),
        );
      }
    }
    await waitFor('calls under way to end', async () => (await readSecondsToNext()) !== null);
    await fleet.stop();
    const spanSeconds = (toScheduleTimeMs(Date.now()) - toScheduleTimeMs(startedMs)) / 1_000;
    const figures = await Promise.all(
      clients.map(async ({ key }) => {
        const calls = (await fleet.sandbox.requestsTo(path)).filter(({ client }) => client === key);
        const times = calls.map(({ atMs }) => toScheduleTimeMs(atMs) / 1_000);
        const gaps = times.slice(1).map((time, index) => time - (times[index] ?? 0));
        const [gate] = await database.query<{ spent: number }>(
          `select (spent + case when finished_at is null then 1 else 0 end)::int as spent from sync.turns where name = 'track-trace' and client = $1`,
          [key],
        );
        return {
          client: key,
          calls: calls.length,
          spent: gate?.spent ?? 0,
          shortest: Math.round(Math.min(...gaps)),
        };
      }),
    );
    report('track-trace', { hours, spanSeconds: Math.round(spanSeconds), ...counts, figures });
    expect((await database.query('select 1 from fulfilment.track_traces')).length).toBeGreaterThan(
      20,
    );
    // There is one event for each state, even if its reading was cut off and repeated.
    const doubled = `
      select 1 from (
        select (e.current_track_trace_status, e.current_track_trace_status_date_time, e.current_track_trace_exception_level)
          is not distinct from lag((e.current_track_trace_status, e.current_track_trace_status_date_time,
            e.current_track_trace_exception_level)) over (partition by e.client, e.shipment_id, e.package_number order by e.id) as same
        from fulfilment.track_trace_events e) told where same`;
    expect(await database.query(doubled)).toEqual([]);
    for (const { calls, spent, shortest } of figures) {
      expect(shortest).toBeGreaterThanOrEqual(3_600);
      expect(calls + spent).toBeGreaterThanOrEqual(Math.floor(spanSeconds / 3_660));
    }
  } finally {
    await fleet.stop();
    fleet.close();
  }
}, 900_000);
