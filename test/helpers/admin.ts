import { afterEach } from 'vitest';
import { type Config, readConfig } from '../../config/env.ts';
import type { Database } from '../../src/db/pool.ts';
import { openOverviewReader } from '../../src/operate/health/overview.ts';
import { createLogger } from '../../src/operate/logging/create-logger.ts';
import { Metrics } from '../../src/operate/metrics/metrics.ts';
import { WorkMetrics } from '../../src/operate/metrics/work-metrics.ts';
import { outboxKinds } from '../../src/push/kinds/registry.ts';
import type { AdminDeps } from '../../src/serve/admin/admin-deps.ts';
import { startAdmin } from '../../src/serve/admin/server.ts';
import type { ListeningServer } from '../../src/serve/listen.ts';
import type { TestDatabase } from './database.ts';

/** A minimal browser: it keeps cookies and does not follow redirects. */
export class Visitor {
  readonly #cookies = new Map<string, string>();
  readonly base: string;

  constructor(base: string) {
    this.base = base;
  }

  async get(path: string, headers: Record<string, string> = {}): Promise<Response> {
    return this.#ask(path, { headers: { accept: 'text/html', ...headers } });
  }

  /** Sends a form. If `from` is given, adds the token of the form at that path. */
  async post(
    path: string,
    fields: Record<string, string> = {},
    from?: string,
    headers: Record<string, string> = {},
  ): Promise<Response> {
    const token =
      from === undefined
        ? null
        : /name="_csrf" value="([^"]+)"/.exec(await (await this.get(from)).text())?.[1];
    const body = new URLSearchParams(token ? { ...fields, _csrf: token } : fields);
    return this.#ask(path, { method: 'POST', body, headers: { accept: 'text/html', ...headers } });
  }

  /** Sends a form with members that may occur several times. */
  async send(path: string, body: URLSearchParams): Promise<Response> {
    return this.#ask(path, { method: 'POST', body, headers: { accept: 'text/html' } });
  }

  cookie(name: string): string | undefined {
    return this.#cookies.get(name);
  }

  async #ask(
    path: string,
    init: RequestInit & { headers: Record<string, string> },
  ): Promise<Response> {
    const cookie = [...this.#cookies].map(([name, value]) => `${name}=${value}`).join('; ');
    const headers = cookie === '' ? init.headers : { ...init.headers, cookie };
    const answer = await fetch(new URL(path, this.base), { ...init, headers, redirect: 'manual' });
    for (const line of answer.headers.getSetCookie()) {
      const [, name = '', value = ''] = /^([^=]+)=([^;]*)/.exec(line) ?? [];
      this.#cookies.set(name, value);
    }
    return answer;
  }
}

/** Returns what pages read of a worker that has started, and has swept just now, with changes. */
export const makeDaemon = (
  changes: Partial<NonNullable<ReturnType<AdminDeps['daemon']>>> = {},
): NonNullable<ReturnType<AdminDeps['daemon']>> => ({
  queues: new Map(),
  startDue: () => undefined,
  runFor: () => Promise.reject(new Error('not used')),
  sinceLastSweepMs: () => 0,
  sinceSweepBegunMs: () => 0,
  ...changes,
});

/**
 * Returns a function that starts an admin server in this process, by default for a worker that has
 * not started. It uses the database of the test, and is closed at the end of the test.
 */
export function useAdmin(database: TestDatabase) {
  const servers: ListeningServer[] = [];
  afterEach(async () => {
    await Promise.all(servers.splice(0).map((server) => server.close()));
  });
  return async (
    env: Record<string, string> = {},
    db?: Database,
    changes: Partial<Config> = {},
    daemon: AdminDeps['daemon'] = () => null,
  ) => {
    const read = readConfig(
      { database: true, clients: true },
      {
        DATABASE_URL: database.url,
        WAREHOUSE_BASE_URL: 'http://127.0.0.1:9',
        WAREHOUSE_USERNAME: 'default',
        WAREHOUSE_PASSWORD: 'default',
        ADMIN_PORT: '0',
        ...env,
      },
    );
    const config = { ...read, ...changes };
    const logged: string[] = [];
    const log = createLogger('trace', { write: (line: string) => logged.push(line) });
    const kinds = outboxKinds.map(({ name }) => name);
    const work = new WorkMetrics('0.0.0', kinds);
    const readOverview = openOverviewReader(db ?? database.db, config);
    const metrics = new Metrics({
      config,
      log,
      work,
      readOverview,
      queues: () => [],
      sinceLastSweepMs: () => undefined,
    });
    const server = await startAdmin({
      config,
      db: db ?? database.db,
      log,
      metrics,
      readOverview,
      daemon,
    });
    servers.push(server);
    const visitor = new Visitor(`http://127.0.0.1:${server.port}`);
    return { visitor, metrics, work, logged, port: server.port };
  };
}
