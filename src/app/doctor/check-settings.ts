/**
 * The checks of `doctor`: everything that a worker needs. They change nothing.
 */

import { statfs } from 'node:fs/promises';
import { type Config, findSetVariables, secretNames, variableNames } from '../../../config/env.ts';
import { pushJob, toScheduleVariable } from '../../../config/jobs.ts';
import { listSetSwitches } from '../../../config/switches.ts';
import { hourMs } from '../../core/time.ts';
import type { WatchedArticles } from '../../erp/reports/database-facts.ts';
import { outboxKinds } from '../../sync/push/kinds/registry.ts';
import { findStockProblems } from '../health/stock-problems.ts';
import { checkAlerts } from './check-alerts.ts';
import { checkTransport } from './check-transport.ts';
import { type Finding, ok, runCheck, warn } from './finding.ts';

const fileVariables = secretNames.map((name) => `${name}_FILE`);
const minFreeBytes = 1024 ** 3;

/**
 * Checks for settings without effect, for operations that docs/interface.md does not show, and the free disk space.
 * @param watched numbers of articles in stock_watch; null if they are not known
 */
export async function checkSettings(
  config: Config,
  watched: readonly WatchedArticles[] | null,
): Promise<readonly Finding[]> {
  return [
    ...checkVariables(config, watched),
    ...findStockProblems(watched ?? [], config.schedules['pull-stock']).map(({ subject, text, remedy }) =>
      warn('stock', `${subject}: ${text}`, remedy ?? ''),
    ),
    checkOperations(config),
    ...checkTransport(config),
    ...checkAlerts(config),
    ...(await runCheck('disk', 'check the disk with df', checkDisk)),
  ];
}

function checkVariables(config: Config, watched: readonly WatchedArticles[] | null): readonly Finding[] {
  // Not the content of a file that another variable names.
  const isNamed = (name: string) => config.given[`${name}_FILE`] === undefined;
  const set = [...new Set([...findSetVariables(), ...findSetVariables(config.given).filter(isNamed)])];
  const unknown = set.filter(
    (name) =>
      !(variableNames as string[]).includes(name) && !fileVariables.includes(name) && !name.startsWith('SCHEDULE_'),
  );
  const { 'track-trace': trackTrace, 'pull-stock': stock } = config.schedules;
  const ineffective: string[] = [];
  if (config.pushSweepMs === null)
    ineffective.push(
      ...set
        .filter((name) => name.startsWith('PUSH_'))
        .map((name) => `${name} (${toScheduleVariable(pushJob.name)} is off)`),
    );
  if (trackTrace.kind === 'every' && trackTrace.everyMs < hourMs)
    ineffective.push('SCHEDULE_TRACK_TRACE (it is asked once an hour at most)');
  if (stock.kind !== 'off' && watched?.length === 0)
    ineffective.push('SCHEDULE_PULL_STOCK (fulfilment.stock_watch is empty)');
  return [
    ...unknown.map((name) => warn('settings', `there is no variable ${name}`, 'check its spelling in .env.example')),
    ineffective.length === 0
      ? ok('settings', `${set.length} variables are set, and all have an effect`)
      : warn('settings', `without effect: ${ineffective.join(', ')}`, 'remove them, or set what they need'),
  ];
}

/** Names the operations in use whose method and path are assumed (docs/assumptions.md), and the switches that are set. */
function checkOperations({ operations, schedules, pushSweepMs }: Config): Finding {
  const set = listSetSwitches(operations);
  const switched = set.length === 0 ? '' : `; switches: ${set.join(', ')}`;
  const pushed = pushSweepMs === null ? [] : outboxKinds.map(({ operation }) => operation);
  const usesStockList = schedules['pull-stock'].kind !== 'off' && (operations['oldest.stock.bulk'].enabled ?? true);
  const used = [
    ...pushed,
    ...(schedules['track-trace'].kind === 'off' ? [] : ['v2.shipment.trackTrace' as const]),
    ...(schedules['pull-parcels'].kind === 'off' ? [] : ['v2.shipment.search' as const]),
    ...(usesStockList ? ['oldest.stock.bulk' as const] : []),
  ];
  const assumed = [...new Set(used)].filter((name) => !operations[name].documented);
  if (assumed.length === 0) return ok('operations', `all operations in use are documented${switched}`);
  return ok(
    'operations',
    `not shown in the interface description: ${assumed.join(', ')} (docs/assumptions.md)${switched}`,
  );
}

async function checkDisk(): Promise<readonly Finding[]> {
  const { bavail, bsize } = await statfs('.');
  const free = `${Math.round((bavail * bsize) / 1024 ** 3)} GB are free here`;
  return [
    bavail * bsize < minFreeBytes
      ? warn('disk', free, 'free disk space: logs need it, and Postgres if it runs on this machine')
      : ok('disk', free),
  ];
}
