import { type Config, isLoopback } from '../../../config/env.ts';
import { parseConnectionUrl } from '../../../config/values.ts';
import { type Finding, ok, warn } from './finding.ts';

/** Values of sslmode with which Postgres is never spoken to in clear text. */
const encrypted = ['require', 'verify-ca', 'verify-full', 'no-verify'];

/** Checks whether anything is sent in clear text beyond this machine, and names the proxies in use. */
export function checkTransport(config: Config): readonly Finding[] {
  const open: string[] = [];
  for (const { key, baseUrl } of config.clients)
    if (baseUrl.protocol === 'http:' && !isLocal(baseUrl)) open.push(`the service of ${key} (http://)`);
  const database = config.DATABASE_URL === undefined ? null : parseConnectionUrl(config.DATABASE_URL);
  if (database !== null && !isLocal(database) && !encrypted.includes(database.searchParams.get('sslmode') ?? ''))
    open.push('Postgres (DATABASE_URL without sslmode)');
  const redis = config.REDIS_URL === undefined ? null : parseConnectionUrl(config.REDIS_URL);
  if (redis !== null && redis.protocol === 'redis:' && !isLocal(redis)) open.push('Redis (redis://)');
  const proxies = [config.HTTP_PROXY, config.HTTPS_PROXY].flatMap((url) =>
    url === undefined ? [] : [new URL(url).host],
  );
  return [
    open.length === 0
      ? ok('encryption', 'nothing leaves this machine in clear text')
      : warn(
          'encryption',
          `in clear text beyond this machine: ${open.join(', ')}`,
          'use https://, sslmode=verify-full and rediss://, unless the network between is your own',
        ),
    ...(proxies.length === 0 ? [] : [ok('proxy', `requests to the service go by ${[...new Set(proxies)].join(', ')}`)]),
  ];
}

/** A socket, or an address that only this machine can reach. */
const isLocal = ({ hostname }: URL) => hostname === '' || isLoopback(hostname.replace(/^\[|\]$/g, ''));
