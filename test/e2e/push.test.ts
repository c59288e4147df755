import { Redis } from 'ioredis';
import { expect, test } from 'vitest';
import { compareWithSandbox } from '../../src/app/demo/oracle.ts';
import { connectDatabase } from '../../src/app/deps.ts';
import { createLogger } from '../../src/app/log.ts';
import { useProcesses } from '../helpers/processes.ts';
import { faultsOf, PushCampaign, pushFaults } from '../helpers/push-campaign.ts';
import { orderPayload } from '../helpers/pusher.ts';
import { startRedis } from '../helpers/redis.ts';

const processes = useProcesses();

/** `npm run campaign:push -- 10000` plays it at full length. */
const full = process.env.PUSH_CAMPAIGN_ORDERS;
const count = Number(full ?? 500);
/** Late effects and lags, and what is waited for them: shorter where the time for belief is brought about by hand. */
const [lateMs, lagMs] = full === undefined ? [1_000, 1_000] : [10_000, 5_000];

test(
  'whatever is killed and whatever goes wrong, the service holds each order once',
  async () => {
    const redis = full === undefined ? null : await startRedis();
    const campaign = await PushCampaign.start(1, processes, redis === null ? {} : { REDIS_URL: redis.url });
    const { sandbox } = campaign;
    try {
      await sandbox.faults(...faultsOf('v3.orders.create', 0.05, pushFaults(lateMs)), {
        operation: 'v3.orders.list',
        effect: { lagMs },
      });
      campaign.startWorkers(4);
      await campaign.query(
        `insert into fulfilment.outbox (kind, reference, payload)
         select 'order.create', 'SO-' || n, jsonb_set($1::jsonb, '{externalOrderNumber}', to_jsonb('SO-' || n)) from generate_series(1, $2) n`,
        [JSON.stringify(orderPayload('?')), count],
      );
      const startedAtMs = performance.now();
      const left = async () =>
        (
          await campaign.query<{ left: number }>(
            "select count(*)::int as left from fulfilment.outbox where status in ('pending', 'sending')",
          )
        )[0]?.left ?? 0;
      let rounds = 0;
      await campaign.disturb(
        full === undefined ? 300 : 2_000,
        async () => {
          rounds++;
          if (rounds === 8) await campaign.restartPostgres();
          if (rounds === 14) await flush(redis?.url);
          // What only waits to be looked up is left in peace: time alone helps there.
          return rounds > (full === undefined ? 3 : 20) && (await left()) === 0;
        },
        1_800_000,
      );
      campaign.calm();
      if (full === undefined) await hurryUnknown(campaign);
      else await campaign.settled(1_800_000);
      const requests = await sandbox.requests();
      const posts = requests.filter(({ operation }) => operation === 'v3.orders.create');
      const [rows] = await campaign.query<Record<string, number>>(`
        select (select count(*)::int from fulfilment.outbox where status = 'done') as done,
          (select count(*)::int from sync.outbox_attempts where step = 'taken over') as "takenOver",
          (select count(*)::int from sync.outbox_attempts where error_code = 'http_status' and error like '%already%') as "refusedAsTaken",
          (select sum(attempts)::int from fulfilment.outbox) as attempts,
          (select max(attempts)::int from fulfilment.outbox) as "mostAttempts"`);
      const counts = {
        ...campaign.counts,
        posts: posts.length,
        resends: posts.length - count,
        faulty: posts.filter(({ faulty }) => faulty).length,
        lookUps: requests.filter(({ operation }) => operation === 'v3.orders.list').length,
        refusedByUniqueCheck: posts.filter(({ status, faulty }) => status === 422 && !faulty).length,
        seconds: Math.round((performance.now() - startedAtMs) / 1_000),
        ...rows,
      };
      process.stdout.write(`push campaign of ${count}: ${JSON.stringify(counts)}\n`);
      expect(
        await campaign.query(
          'select status, count(*)::int, max(last_error) as error from fulfilment.outbox group by 1',
        ),
      ).toEqual([{ status: 'done', count, error: null }]);
      const state = await sandbox.call<{
        clients: { orders: { resource: { attributes: { externalOrderNumber: string } } }[] }[];
      }>('GET', '/_sandbox/state');
      const numbers = state.clients[0]?.orders.map(({ resource }) => resource.attributes.externalOrderNumber) ?? [];
      expect(numbers.length).toBe(count);
      expect(new Set(numbers).size).toBe(count);
      await campaign.stopWorkers();
      const { db, close } = connectDatabase(
        campaign.env.DATABASE_URL ?? '',
        createLogger({ level: 'silent', pretty: false }),
      );
      try {
        expect(await compareWithSandbox(db, sandbox.url, ['orders'])).toEqual([]);
      } finally {
        await close();
      }
    } finally {
      await campaign.close();
      await redis?.stop();
    }
  },
  full === undefined ? 150_000 : 3_600_000,
);

/**
 * Lets the time go by that an absence needs to be believed, until all is settled; but not before the effects of requests
 * that were cut have come.
 */
async function hurryUnknown(campaign: PushCampaign): Promise<void> {
  const endMs = performance.now() + 100_000;
  for (;;) {
    const [open] = await campaign.query("select from fulfilment.outbox where status not in ('done', 'dead') limit 1");
    if (open === undefined) return;
    if (performance.now() > endMs) throw new Error('rows were never settled');
    // Effects of a request that was cut come 10 seconds later: so much real time has to go by first.
    await campaign.query(`
      update fulfilment.outbox set next_attempt_at = clock_timestamp(), written_at = written_at - interval '2 minutes',
        absent_at = absent_at - interval '1 minute'
      where status = 'unknown' and written_at < clock_timestamp() - interval '4 seconds'`);
    await campaign.settled(100).catch(() => undefined);
  }
}

async function flush(url: string | undefined): Promise<void> {
  if (url === undefined) return;
  const redis = new Redis(url);
  await redis.flushall();
  redis.disconnect();
}
