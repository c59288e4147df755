import type { TestDatabase } from '../database.ts';

/** Returns true if the server is older than this major version. */
export async function isServerOlder(database: TestDatabase, major: number): Promise<boolean> {
  const [row] = await database.query<{ version: number }>(
    `select current_setting('server_version_num')::int as version`,
  );
  return (row?.version ?? 0) < major * 10_000;
}
