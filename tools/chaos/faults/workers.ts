import { setTimeout as wait } from 'node:timers/promises';
import type { Fault } from '../stage.ts';

const twoHoursMs = 7_200_000;

export const workerFaults: readonly Fault[] = [
  {
    name: 'worker-kill',
    about: 'SIGKILL',
    strike: async (stage) => stage.replace(await stage.pickWorker(), 'SIGKILL'),
  },
  {
    name: 'worker-freeze',
    about: 'SIGSTOP, and SIGCONT after 0.3 to 14 s: every other time beyond its lease of 10 s',
    strike: async (stage) => {
      const { random } = stage;
      const worker = await stage.pickWorker();
      worker.kill('SIGSTOP');
      await wait(random.chance(0.5) ? random.between(300, 3_000) : random.between(10_500, 14_000));
      worker.kill('SIGCONT');
    },
  },
  {
    name: 'worker-stop',
    about: 'SIGTERM, and another in its place at once',
    strike: async (stage) => stage.replace(await stage.pickWorker(), 'SIGTERM'),
  },
  {
    name: 'worker-clock',
    about: 'a worker whose clock is two hours off, before or behind',
    strike: async (stage) => {
      const offMs = stage.random.pick([-twoHoursMs, twoHoursMs]);
      stage.replace(await stage.pickWorker(), 'SIGTERM', offMs);
    },
  },
];
