import type { Random } from '../../src/sandbox/random.ts';
import type { Fault } from './fault.ts';
import { networkFaults } from './faults/network.ts';
import { postgresFaults } from './faults/postgres.ts';
import { redisFaults } from './faults/redis.ts';
import { restoreFaults } from './faults/restore.ts';
import { serviceFaults } from './faults/service.ts';
import { workerFaults } from './faults/workers.ts';

const single: readonly Fault[] = [
  ...networkFaults,
  ...workerFaults,
  ...postgresFaults,
  ...redisFaults,
  ...serviceFaults,
];

const targetOf = ({ name }: Fault) => name.split('-', 1)[0];

/** Two of different targets: of the same the one that ends first would mend the other. */
function drawTwo(random: Random): Fault[] {
  const first = random.pick(single);
  return [first, random.pick(single.filter((fault) => targetOf(fault) !== targetOf(first)))];
}

/** Every fault that campaigns are played with; the last plays any two of the others at a time. */
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
