import { isLoopback } from '../../../config/admin.ts';
import type { Config } from '../../../config/env.ts';
import { parseConnectionUrl } from '../../../config/values.ts';
import { type Finding, ok, warn } from './finding.ts';

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
