import type pg from 'pg';

/**
 * Merges the `options` of a database URL with ours. pg would use only those of the URL: the session would have no
 * lock_timeout and another search_path. If both set the same parameter, ours wins.
 */
export function mergeOptions(
  databaseUrl: string,
  ours: readonly string[],
): Pick<pg.PoolConfig, 'connectionString' | 'options'> {
  // Postgres allows a URL without a host, for a socket. Node cannot parse it.
  const queryAt = databaseUrl.indexOf('?');
  const parameters = new URLSearchParams(queryAt < 0 ? '' : databaseUrl.slice(queryAt + 1));
  const theirs = parameters.getAll('options');
  if (theirs.length === 0) return { connectionString: databaseUrl, options: ours.join(' ') };
  parameters.delete('options');
  return {
    connectionString: `${databaseUrl.slice(0, queryAt)}?${parameters}`,
    options: [...theirs, ...ours].join(' '),
  };
}
