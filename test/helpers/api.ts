import { afterEach } from 'vitest';
import { readConfig } from '../../config/env.ts';
import { createLogger } from '../../src/operate/logging/create-logger.ts';
import { startApi } from '../../src/serve/api/api-server.ts';
import type { ListeningServer } from '../../src/serve/listen.ts';
import { registerClients } from '../../src/service/sql/clients.ts';
import { toTokenEntry } from './campaigns/api-load.ts';
import type { TestDatabase } from './database.ts';

const someTokens = [
  toTokenEntry('erp'),
  toTokenEntry('other', 'other'),
  toTokenEntry('reader', 'default', ['read']),
  toTokenEntry('writer', 'default', ['write']),
  { ...toTokenEntry('slow'), requestsPerSecond: 5 },
];

/** Sends requests to an API as a program does. */
const makeCaller =
  (port: number, token: string | null = 'erp') =>
  async (path: string, body?: unknown, headers: Record<string, string> = {}) => {
    const answer = await fetch(`http://127.0.0.1:${port}${path}`, {
      ...(body === undefined
        ? {}
        : { method: 'POST', body: typeof body === 'string' ? body : JSON.stringify(body) }),
      headers: {
        ...(body === undefined ? {} : { 'content-type': 'application/json' }),
        ...(token === null ? {} : { authorization: `Bearer ${token}` }),
        ...headers,
      },
    });
    const text = await answer.text();
    return {
      status: answer.status,
      headers: answer.headers,
      text,
      json: text === '' ? null : JSON.parse(text),
    };
  };

/**
 * Returns a function that starts an API in this process, with the database of the test. It ends
 * with the test.
 */
export function useApi(database: TestDatabase) {
  const servers: ListeningServer[] = [];
  afterEach(async () => {
    await Promise.all(servers.splice(0).map((server) => server.close()));
  });
  return async ({ isReady = true } = {}) => {
    const warehouse = {
      WAREHOUSE_BASE_URL: 'http://127.0.0.1:9',
      WAREHOUSE_USERNAME: 'u',
      WAREHOUSE_PASSWORD: 'p',
    };
    const env = { DATABASE_URL: database.url, ...warehouse };
    const config = {
      ...readConfig({ database: true, clients: true }, env),
      API_PORT: 0,
      apiTokens: someTokens,
    };
    const logged: string[] = [];
    const log = createLogger('trace', { write: (line: string) => logged.push(line) });
    await registerClients(database.db, [
      { client: 'default', identity: 'x', baseUrl: 'http://127.0.0.1:9' },
    ]);
    const server = await startApi({ config, db: database.db, log, isReady: () => isReady });
    servers.push(server);
    return {
      as: (token: string | null) => makeCaller(server.port, token),
      call: makeCaller(server.port),
      logged,
      server,
    };
  };
}
