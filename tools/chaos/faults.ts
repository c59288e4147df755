import type { Random } from '../../src/sandbox/random.ts';
import { networkFaults } from './faults/network.ts';
import { postgresFaults } from './faults/postgres.ts';
import { redisFaults } from './faults/redis.ts';
import { restoreFaults } from './faults/restore.ts';
import { serviceFaults } from './faults/service.ts';
import { workerFaults } from './faults/workers.ts';
import type { Fault } from './stage.ts';

const single: readonly Fault[] = [
  ...networkFaults,
  ...workerFaults,
  ...postgresFaults,
  ...redisFaults,
  ...serviceFaults,
];

const readTarget = ({ name }: Fault) => name.split('-', 1)[0];

/**
 * Draws two faults with different targets: of two with the same target, the first to end would end
 * the other too.
 */
function drawTwo(random: Random): Fault[] {
  const first = random.pick(single);
  return [first, random.pick(single.filter((fault) => readTarget(fault) !== readTarget(first)))];
}

/** All faults of the campaigns. The last one plays two of the others at a time. */
export const faults: readonly Fault[] = [
  ...single,
  ...restoreFaults,
  {
    name: 'everything',
    about: 'two of all these at a time',
    queue: 'redis',
    onSmallDisk: true,
    strike: async (stage) => {
      await Promise.all(drawTwo(stage.random).map((fault) => fault.strike(stage)));
    },
  },
];
