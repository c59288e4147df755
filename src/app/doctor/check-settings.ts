/**
 * Checks of everything a worker needs. They change nothing.
 */

import { statfs } from 'node:fs/promises';
import { type Config, namesSet, secretNames, variableNames } from '../../../config/env.ts';
import { pushJob, scheduleVariable } from '../../../config/jobs.ts';
import { hourMs } from '../../core/time.ts';
import { outboxKinds } from '../../sync/push/kinds/registry.ts';
import { checkTransport } from './check-transport.ts';
import { type Finding, ok, orFailure, warn } from './finding.ts';

const fileForms = secretNames.map((name) => `${name}_FILE`);
const minFreeBytes = 1024 ** 3;

/**
 * Settings without effect, operations that the interface description does not show, and room on this machine's disk.
 * @param watched articles in stock_watch; null where that is not known
 */
export async function checkSettings(config: Config, watched: number | null): Promise<readonly Finding[]> {
  return [
    ...checkVariables(config, watched),
    checkOperations(config),
    ...checkTransport(config),
    ...(await orFailure('disk', 'see df', checkDisk)),
  ];
}

function checkVariables(config: Config, watched: number | null): readonly Finding[] {
  const set = namesSet();
  const unknown = set.filter(
    (name) => !(variableNames as string[]).includes(name) && !fileForms.includes(name) && !name.startsWith('SCHEDULE_'),
  );
  const { 'track-trace': trackTrace, 'pull-stock': stock } = config.schedules;
  const idle: string[] = [];
  if (config.pushSweepMs === null)
    idle.push(
      ...set
        .filter((name) => name.startsWith('PUSH_'))
        .map((name) => `${name} (${scheduleVariable(pushJob.name)} is off)`),
    );
  if (trackTrace.kind === 'every' && trackTrace.everyMs < hourMs)
    idle.push('SCHEDULE_TRACK_TRACE (it is asked once an hour at most)');
  if (stock.kind !== 'off' && watched === 0) idle.push('SCHEDULE_PULL_STOCK (fulfilment.stock_watch is empty)');
  return [
    ...unknown.map((name) =>
      warn('settings', `there is no variable ${name}`, 'see .env.example for how it is spelled'),
    ),
    idle.length === 0
      ? ok('settings', `${set.length} variables set, all with effect`)
      : warn('settings', `without effect: ${idle.join(', ')}`, 'take them away, or set what they need'),
  ];
}

/** Methods and paths that are taken on trust, of what is in use (docs/assumptions.md). */
function checkOperations({ operations, schedules, pushSweepMs }: Config): Finding {
  const pushed = pushSweepMs === null ? [] : outboxKinds.map(({ operation }) => operation);
  const used = [...pushed, ...(schedules['track-trace'].kind === 'off' ? [] : ['v2.shipment.trackTrace' as const])];
  const assumed = [...new Set(used)].filter((name) => !operations[name].documented);
  if (assumed.length === 0) return ok('operations', 'all that are in use are documented');
  return ok('operations', `not shown in the interface description: ${assumed.join(', ')} (docs/assumptions.md)`);
}

async function checkDisk(): Promise<readonly Finding[]> {
  const { bavail, bsize } = await statfs('.');
  const free = `${Math.round((bavail * bsize) / 1024 ** 3)} GB are free here`;
  return [
    bavail * bsize < minFreeBytes
      ? warn('disk', free, 'make room: logs, and Postgres if it is on this machine, need it')
      : ok('disk', free),
  ];
}
