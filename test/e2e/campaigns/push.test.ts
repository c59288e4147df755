import { Redis } from 'ioredis';
import { expect, test } from 'vitest';
import { silentLogger } from '../../../src/core/logger.ts';
import { connectDatabase } from '../../../src/db/connect.ts';
import { ageAbsencesSql } from '../../helpers/campaigns/belief.ts';
import { makeFaultRules, pushFaults } from '../../helpers/campaigns/fault-effects.ts';
import { PushCampaign } from '../../helpers/campaigns/push-campaign.ts';
import { compareWithSandbox } from '../../helpers/oracle.ts';
import { orderPayload } from '../../helpers/order-payload.ts';
import { useProcesses } from '../../helpers/processes/processes.ts';
import { startRedis } from '../../helpers/processes/redis-server.ts';
import { runCommand } from '../../helpers/processes/run-command.ts';

const processes = useProcesses();

/** `npm run campaign:push -- 10000` runs the campaign at full length. */
const full = process.env.PUSH_CAMPAIGN_ORDERS;
const count = Number(full ?? 150);
/**
 * `-- --without-look-ups`: the service takes a number twice, and does not find the numbers of these
 * orders.
 */
const isFound = process.env.PUSH_CAMPAIGN_WITHOUT_LOOK_UPS === undefined;
const prefix = isFound ? 'SO-' : 'SO,';
const pulls: Record<string, string> = isFound ? {} : { SCHEDULE_PULL_ORDERS: '5s' };
/**
 * Delay of late effects, and lag of lists. Both are shorter in the test suite, which shortens the
 * belief times too.
 */
const [lateMs, lagMs] = full === undefined ? [1_000, 1_000] : [10_000, 5_000];

test(
  'although workers are killed and requests fail, the service holds each order once',
  async () => {
    const redis = full === undefined ? null : await startRedis();
    const campaign = await PushCampaign.start(processes, {
      seed: 1,
      env: { ...pulls, ...(redis === null ? {} : { REDIS_URL: redis.url }) },
    });
    const { sandbox } = campaign;
    try {
      if (!isFound) await sandbox.switches({ decodesBeforeSplit: true, repeatedNumbers: true });
      await sandbox.faults(
        ...makeFaultRules('v3.orders.create', { share: 0.05, effects: pushFaults(lateMs) }),
        {
          operation: 'v3.orders.list',
          effect: { lagMs },
        },
      );
      campaign.startWorkers(4);
      await campaign.query(
        `insert into fulfilment.outbox (kind, reference, payload)
         select 'order.create', $3 || n, jsonb_set($1::jsonb, '{externalOrderNumber}', to_jsonb($3 || n)) from generate_series(1, $2) n`,
        [JSON.stringify(orderPayload('?')), count, prefix],
      );
      const startedAtMs = performance.now();
      const left = async () =>
        (
          await campaign.query<{ left: number }>(
            "select count(*)::int as left from fulfilment.outbox where status in ('pending', 'sending')",
          )
        )[0]?.left ?? 0;
      let rounds = 0;
      await campaign.disturb({
        everyMs: full === undefined ? 1_000 : 2_000,
        isOver: async () => {
          rounds++;
          if (rounds === (full === undefined ? 4 : 8)) await campaign.restartPostgres();
          if (rounds === 14) await flushRedis(redis?.url);
          // Unknown rows only wait for a look-up, so they need time and no more disturbance.
          return full === undefined ? rounds > 8 : rounds > 20 && (await left()) === 0;
        },
        deadlineMs: 3_000_000,
      });
      campaign.calm();
      if (full === undefined) await settleQuickly(campaign);
      else await campaign.waitUntilSettled(1_800_000);
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
        refusedByUniqueCheck: posts.filter(({ status, faulty }) => status === 422 && !faulty)
          .length,
        seconds: Math.round((performance.now() - startedAtMs) / 1_000),
        ...rows,
      };
      process.stdout.write(`push campaign of ${count}: ${JSON.stringify(counts)}\n`);
      expect(
        await campaign.query(
          'select status, count(*)::int, max(last_error) as error from fulfilment.outbox group by 1',
        ),
      ).toEqual([{ status: 'done', count, error: null }]);
      const numbers = (await readState(sandbox)).orders.map(
        ({ resource }) => resource.attributes.externalOrderNumber,
      );
      expect(numbers.length).toBe(count);
      expect(new Set(numbers).size).toBe(count);
      await campaign.stopWorkers();
      // An order that a stopped worker kept from being written at once is read again by the next
      // poll.
      const forgotten = `
        select o.reference from fulfilment.outbox o
        where not exists (select from fulfilment.orders r where r.id = (o.result ->> 'orderId')::bigint)
          and not exists (
            select from sync.waiting_reads r where r.resource = 'orders' and r.id = (o.result ->> 'orderId')::bigint)`;
      expect(await campaign.query(forgotten)).toEqual([]);
      await sandbox.clearFaults();
      expect((await runCommand(['run', 'pull-orders'], campaign.env)).code).toBe(0);
      const { db, close } = connectDatabase(campaign.env.DATABASE_URL ?? '', silentLogger);
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
  full === undefined ? 600_000 : 3_600_000,
);

interface State {
  orders: {
    resource: { attributes: { externalOrderNumber: string } };
  }[];
}

async function readState(sandbox: PushCampaign['sandbox']): Promise<State> {
  const { clients } = await sandbox.call<{ clients: State[] }>('GET', '/_sandbox/state');
  const [state] = clients;
  if (state === undefined) throw new Error('the sandbox has no client');
  return state;
}

/**
 * Shortens the time until an absence is believed, again and again, until all rows are settled. It
 * leaves out rows that were sent a moment ago, because a request that was cut may still take
 * effect.
 */
async function settleQuickly(campaign: PushCampaign): Promise<void> {
  const endMs = performance.now() + 300_000;
  while (!(await campaign.isSettled())) {
    if (performance.now() > endMs) throw new Error('rows were never settled');
    await campaign.query(ageAbsencesSql);
    // Workers look for due rows at least once a second.
    await campaign.waitUntilSettled(1_000).catch((error: unknown) => {
      // The rows are not settled yet: try again.
      if (!(error instanceof Error && error.message.includes('in vain'))) throw error;
    });
  }
}

async function flushRedis(url: string | undefined): Promise<void> {
  if (url === undefined) return;
  const redis = new Redis(url);
  await redis.flushall();
  redis.disconnect();
}
