import { describe, expect, inject, test } from 'vitest';
import { play } from '../../../tools/chaos/campaign.ts';
import { faults } from '../../../tools/chaos/faults.ts';
import { Servers } from '../../../tools/chaos/servers.ts';

/** One fault of `npm run chaos`, for a shorter time. CI runs seven more (.ci/run). */
const names = ['worker-kill'];
const seed = Number(process.env.CHAOS_SEED ?? 1);

describe.skipIf(!inject('redisAvailable'))('a fault loses no order and doubles none', () => {
  test.each(names)(
    '%s',
    async (name) => {
      const servers = await Servers.start();
      try {
        const fault = faults.find((known) => known.name === name);
        if (fault === undefined) throw new Error(`there is no fault ${name}`);
        const { output, ...outcome } = await play(servers, fault, seed, {
          lastsMs: 4_000,
          patient: false,
        });
        process.stderr.write(
          `chaos: ${JSON.stringify({ ...outcome, problems: outcome.problems.slice(0, 5) })}\n`,
        );
        const excerpt =
          outcome.problems.length > 0 ? output.split('\n').slice(-200).join('\n') : '';
        expect(
          { name, lost: outcome.lost, doubled: outcome.doubled, problems: outcome.problems },
          excerpt,
        ).toEqual({
          name,
          lost: 0,
          doubled: 0,
          problems: [],
        });
        expect(outcome.orders).toBeGreaterThan(0);
        expect(outcome.strikes).toBeGreaterThan(0);
      } finally {
        await servers.stop();
      }
    },
    600_000,
  );
});
