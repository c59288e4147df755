import { createHash } from 'node:crypto';
import { parseConnectionUrl } from '../../config/values.ts';

/**
 * The setting in which each of our sessions says at which place its process reaches the database
 * itself. Behind a pooler it is the same.
 */
export const placeSetting = 'fulfilment_sync.place';

/**
 * Returns the place of a database: a hash of host, port and database name of its URL. A copied data
 * folder has the identity of the original, but is reached at another place.
 */
export function toPlace(databaseUrl: string): string {
  const url = parseConnectionUrl(databaseUrl);
  if (url === null) return '';

  const { hostname, port, pathname, username, searchParams } = url;
  const host = searchParams.get('host') ?? hostname;
  const usedPort = searchParams.get('port') ?? (port || '5432');
  const database = decodeURIComponent(pathname.slice(1) || username);

  const place = `${decodeURIComponent(host).toLowerCase()}:${usedPort}/${database}`;
  return createHash('sha256').update(place).digest('hex').slice(0, 32);
}
