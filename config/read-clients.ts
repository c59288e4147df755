import { findClientSetProblems, readClientsFile, type WarehouseClient } from './files.ts';

/** The checked variables of a single client. */
interface SingleClient {
  readonly WAREHOUSE_BASE_URL?: URL | undefined;
  readonly WAREHOUSE_USERNAME?: string | undefined;
  readonly WAREHOUSE_PASSWORD?: string | undefined;
  readonly WAREHOUSE_TIME_ZONE: string;
}

/**
 * Reads the clients: those of WAREHOUSE_CLIENTS_FILE, or the single client of the variables.
 * @param env the variables as they were given
 * @param data the same after they were checked; undefined if any is wrong
 */
export function readClients(
  env: Readonly<Record<string, string | undefined>>,
  data: SingleClient | undefined,
  isNeeded: boolean,
  problems: string[],
): readonly WarehouseClient[] {
  const single = ['WAREHOUSE_BASE_URL', 'WAREHOUSE_USERNAME', 'WAREHOUSE_PASSWORD'] as const;
  const given = single.filter((name) => env[name] !== undefined);
  const file = env.WAREHOUSE_CLIENTS_FILE;
  if (file !== undefined) {
    const both = env.WAREHOUSE_TIME_ZONE === undefined ? given : [...given, 'WAREHOUSE_TIME_ZONE'];
    if (both.length > 0) {
      problems.push(`WAREHOUSE_CLIENTS_FILE: is set together with ${both.join(', ')}; keep one form`);
    }
    const clients = readClientsFile(file, problems);
    problems.push(...findClientSetProblems(clients));
    return clients;
  }
  if (given.length === 0) {
    if (isNeeded)
      problems.push('WAREHOUSE_BASE_URL: is required with username and password, or WAREHOUSE_CLIENTS_FILE');
    return [];
  }
  for (const name of single)
    if (env[name] === undefined) problems.push(`${name}: is required together with ${given.join(', ')}`);
  const { WAREHOUSE_BASE_URL: baseUrl, WAREHOUSE_USERNAME: username, WAREHOUSE_PASSWORD: password } = data ?? {};
  if (!data || !baseUrl || !username || !password) return [];
  return [{ key: 'default', baseUrl, username, password, timeZone: data.WAREHOUSE_TIME_ZONE }];
}
