import { expect, test } from 'vitest';
import { streams } from '../../../src/pull/streams/all-streams.ts';
import { Campaign } from '../../helpers/campaigns/campaign.ts';
import { useDatabase } from '../../helpers/database.ts';
import { compareWithSandbox } from '../../helpers/oracle.ts';
import { useProcesses } from '../../helpers/processes/processes.ts';

const database = useDatabase();
const processes = useProcesses();

/**
 * `npm run campaign -- 1-20` runs other seeds at full length. The test suite runs one seed for
 * fewer days.
 */
const [first = 7, last = first] = (process.env.CAMPAIGN_SEEDS ?? '')
  .split('-')
  .filter(Boolean)
  .map(Number);
const [days, ordersPerDay] = process.env.CAMPAIGN_SEEDS === undefined ? [7, 60] : [30, 60];
const seeds = Array.from({ length: last - first + 1 }, (_, index) => first + index);

test.each(seeds)(
  'seed %i: every table equals the service in the end, although workers were killed',
  async (seed) => {
    const campaign = await Campaign.start({ seed, database, processes, ordersPerDay });
    try {
      await campaign.passDays(days);
      await campaign.calm();
      const [during] = await database.query<Record<string, number>>(`
      select (select count(*)::int from sync.runs) as runs, (select count(*)::int from sync.runs where status = 'failed') as failed,
        (select count(*)::int from sync.runs where status = 'abandoned') as abandoned,
        (select count(*)::int from sync.quarantine) as quarantined, (select count(*)::int from sync.findings) as healed`);
      await campaign.command('quarantine', 'replay');
      for (const { name } of streams) await campaign.command('run', `pull-${name}`);
      for (const { name } of streams) await campaign.command('reconcile', name);
      const differences = await compareWithSandbox(database.db, campaign.sandbox.url);
      const tables = streams
        .flatMap(({ tables: { parent, children } }) => [parent, ...children])
        .map(({ name }) => name);
      const [rows] = await database.query<Record<string, number>>(
        `select ${tables.map((table) => `(select count(*)::int from fulfilment.${table}) as ${table}`).join(', ')}`,
      );
      process.stdout.write(
        `seed ${seed}: ${JSON.stringify({ ...campaign.counts, ...during })} ${JSON.stringify(rows)}\n`,
      );
      expect(differences).toEqual([]);
      expect(
        Math.min(campaign.counts.kills + campaign.counts.stops, campaign.counts.faults),
      ).toBeGreaterThan(0);
      // A resource without an id cannot be released by a good version. Every other one must have
      // been released.
      expect(
        await database.query(
          'select stream, resource_id, reason from sync.quarantine where resource_id is not null',
        ),
      ).toEqual([]);
      // The feed has at most one entry `created` for each row.
      const doubled = `select client, entity, id, key from fulfilment.changes where operation = 'created'
      group by 1, 2, 3, 4 having count(*) > 1`;
      expect(await database.query(doubled)).toEqual([]);
    } finally {
      campaign.close();
    }
  },
  300_000,
);
