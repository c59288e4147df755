import { setTimeout as wait } from 'node:timers/promises';
import type { Random } from '../../../src/sandbox/random.ts';
import type { NetworkState } from '../proxy.ts';
import type { Fault } from '../stage.ts';

const targets = { postgres: 'Postgres', redis: 'Redis', service: 'the service' } as const;

interface Kind {
  readonly name: string;
  readonly about: string;
  readonly drawState: (random: Random) => NetworkState;
  readonly lastsMs: readonly [number, number];
}

/**
 * HTTP_TIMEOUT_MS of the campaigns is 1,500, so that some of these faults last longer than a
 * request may.
 */
const kinds: readonly Kind[] = [
  {
    name: 'delay',
    about: 'every piece 50 to 400 ms late',
    drawState: (random) => ({ kind: 'delay', ms: random.between(50, 400) }),
    lastsMs: [1_000, 4_000],
  },
  {
    name: 'bandwidth',
    about: '5 to 40 KB a second',
    drawState: (random) => ({ kind: 'bandwidth', bytesPerSecond: random.between(5_000, 40_000) }),
    lastsMs: [1_000, 4_000],
  },
  {
    name: 'pause',
    about: 'nothing moves, all of it arrives later',
    drawState: () => ({ kind: 'pause' }),
    lastsMs: [300, 6_000],
  },
  {
    name: 'half-open',
    about: 'connections swallow all data, and neither side is told',
    drawState: () => ({ kind: 'half-open' }),
    lastsMs: [300, 3_000],
  },
  {
    name: 'drop',
    about: 'connections end in the middle',
    drawState: () => ({ kind: 'drop' }),
    lastsMs: [0, 2_000],
  },
  {
    name: 'reset',
    about: 'connections are reset',
    drawState: () => ({ kind: 'reset' }),
    lastsMs: [0, 2_000],
  },
];

export const networkFaults: readonly Fault[] = Object.entries(targets).flatMap(([target, called]) =>
  kinds.map(({ name, about, drawState, lastsMs }) => ({
    name: `${target}-${name}`,
    about: `network to ${called}: ${about}`,
    ...(target === 'redis' ? { queue: 'redis' as const } : {}),
    strike: async ({ random, parts }) => {
      const proxy = parts.proxies[target as keyof typeof targets];
      proxy.set(drawState(random));
      await wait(random.between(...lastsMs));
      proxy.set({ kind: 'fair' });
    },
  })),
);
