/**
 * The checks of `doctor`: everything that a worker needs. They change nothing.
 */

import { statfs } from 'node:fs/promises';
import { isLoopback } from '../../../config/admin.ts';
import { type Config, findSetVariables, secretNames, variableNames } from '../../../config/env.ts';
import { pushJob, toScheduleVariable } from '../../../config/jobs.ts';
import { listSetSwitches } from '../../../config/switches.ts';
import { parseConnectionUrl } from '../../../config/values.ts';
import { hourMs } from '../../core/time.ts';
import type { WatchedArticles } from '../../erp/reports/database-facts.ts';
import { outboxKinds } from '../../sync/push/kinds/registry.ts';
import { findStockProblems } from '../health/find-problems.ts';
import { type Finding, ok, runCheck, warn } from './finding.ts';

const fileVariables = secretNames.map((name) => `${name}_FILE`);
const minFreeBytes = 1024 ** 3;

/**
 * Checks for variables without effect, for operations that docs/interface.md does not show, and the free disk space.
 * @param watched numbers of articles in stock_watch; null if they are not known
 */
export async function checkConfiguration(
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
  const set = findSetVariables();
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
    ...unknown.map((name) =>
      warn('configuration', `there is no variable ${name}`, 'check its spelling in .env.example'),
    ),
    ineffective.length === 0
      ? ok('configuration', `${set.length} variables are set, and all have an effect`)
      : warn('configuration', `without effect: ${ineffective.join(', ')}`, 'remove them, or set what they need'),
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

/** Values of sslmode that always encrypt the connection to Postgres. */
const encryptedModes = ['require', 'verify-ca', 'verify-full', 'no-verify'];

/** Checks whether anything leaves this machine in clear text, and names the proxies in use. */
export function checkTransport(config: Config): readonly Finding[] {
  const unencrypted: string[] = [];
  for (const { key, baseUrl } of config.clients)
    if (baseUrl.protocol === 'http:' && !isLocal(baseUrl)) unencrypted.push(`the service of ${key} (http://)`);
  const database = config.DATABASE_URL === undefined ? null : parseConnectionUrl(config.DATABASE_URL);
  if (database !== null && !isLocal(database) && !encryptedModes.includes(database.searchParams.get('sslmode') ?? ''))
    unencrypted.push('Postgres (DATABASE_URL without sslmode)');
  const isUnchecked = database?.searchParams.get('sslmode') === 'no-verify';
  const redis = config.REDIS_URL === undefined ? null : parseConnectionUrl(config.REDIS_URL);
  if (redis !== null && redis.protocol === 'redis:' && !isLocal(redis)) unencrypted.push('Redis (redis://)');
  const alerts = config.ALERT_WEBHOOK_URL === undefined ? null : new URL(config.ALERT_WEBHOOK_URL);
  if (alerts !== null && alerts.protocol === 'http:' && !isLocal(alerts))
    unencrypted.push('alerts (ALERT_WEBHOOK_URL)');
  const proxies = [config.HTTP_PROXY, config.HTTPS_PROXY].flatMap((url) =>
    url === undefined ? [] : [new URL(url).host],
  );
  return [
    unencrypted.length === 0
      ? ok('encryption', 'nothing leaves this machine in clear text')
      : warn(
          'encryption',
          `sent in clear text to other machines: ${unencrypted.join(', ')}`,
          'use https://, sslmode=verify-full and rediss://, unless you trust the network between',
        ),
    ...(isUnchecked
      ? [
          warn(
            'certificates',
            'TLS: sslmode=no-verify in DATABASE_URL checks no certificate, so anybody between could read and write',
            'use sslmode=verify-full, and name the certificate of the authority as sslrootcert',
          ),
        ]
      : []),
    ...(proxies.length === 0 ? [] : [ok('proxy', `requests to the service go by ${[...new Set(proxies)].join(', ')}`)]),
  ];
}

/** Returns true for a socket, and for an address that only this machine can reach. */
const isLocal = ({ hostname }: URL) => hostname === '' || isLoopback(hostname.replace(/^\[|\]$/g, ''));

/** Checks where problems are posted to. Shows only the origin, because the path may be secret. */
function checkAlerts({
  ALERT_WEBHOOK_URL: url,
  ALERT_WEBHOOK_SECRET: secret,
}: Pick<Config, 'ALERT_WEBHOOK_URL' | 'ALERT_WEBHOOK_SECRET'>): readonly Finding[] {
  if (url === undefined) return [];
  const found = `problems are posted to ${new URL(url).origin}`;
  if (secret !== undefined) return [ok('alerts', `${found}, signed`)];
  const remedy = 'set ALERT_WEBHOOK_SECRET if the receiver can check signatures; Slack cannot';
  return [warn('alerts', `${found}, but not signed`, remedy)];
}
