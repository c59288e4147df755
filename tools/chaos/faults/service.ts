import { setTimeout as wait } from 'node:timers/promises';
import { streams } from '../../../src/pull/streams/all-streams.ts';
import type { Random } from '../../../src/sandbox/random.ts';
import { pushFaults, readFaults } from '../../../test/helpers/campaigns/fault-effects.ts';
import type { FaultRule } from '../../../test/helpers/sandbox-control.ts';
import type { Fault, Stage } from '../stage.ts';

const reads = streams.flatMap(({ list, get }) => (get ? [list, get] : [list]));
const pushes = ['v3.orders.create', 'v3.orders.update'];

export const serviceFaults: readonly Fault[] = [
  {
    name: 'service-reads',
    about: 'reads are refused, cut, late, broken, repeated, out of order, or lag behind',
    strike: (stage) => misbehave(stage, reads, drawReadEffects),
  },
  {
    name: 'service-pushes',
    about: 'pushes are cut before, after or long before they are carried out, or refused',
    strike: (stage) => misbehave(stage, pushes, drawPushEffects),
  },
  {
    name: 'service-away',
    about: '503 or 429 to everything, tokens too',
    strike: (stage) =>
      misbehave(stage, ['*'], () => [{ status: stage.random.pick([429, 503]), retryAfter: '1' }]),
  },
];

async function misbehave(
  stage: Stage,
  operations: readonly string[],
  effects: (stage: Stage) => FaultRule['effect'][],
): Promise<void> {
  const { sandbox } = stage.parts;
  const drawn = effects(stage);
  const rules = operations.flatMap((operation) =>
    drawn.map((effect) => ({ operation, probability: stage.random.pick([0.1, 0.3, 1]), effect })),
  );
  await sandbox.faults(...rules);
  await wait(stage.random.between(1_000, 4_000));
  await sandbox.clearFaults();
}

const pickTwo = (random: Random, effects: readonly FaultRule['effect'][]) =>
  Array.from({ length: 2 }, () => random.pick(effects));

const drawReadEffects = ({ random }: Stage) => pickTwo(random, readFaults(random));

const drawPushEffects = ({ random }: Stage) =>
  pickTwo(random, [
    ...pushFaults(random.between(100, 2_000)),
    { noAnswer: true, afterEffect: true },
    { status: random.pick([408, 502, 504]), afterEffect: true },
    { truncate: true },
    { invalidJson: true },
  ]);
