import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { afterEach } from 'vitest';
import { readConfig } from '../../../config/env.ts';
import { operations } from '../../../config/operations.ts';
import type { Warehouse } from '../../../src/service/client.ts';
import { openWarehouses } from '../../../src/service/open-warehouses.ts';

export type Handler = (request: IncomingMessage, response: ServerResponse) => void;

export interface TestService {
  readonly url: URL;
  readonly requests: { readonly path: string; readonly authorization: string | undefined }[];
}

/**
 * Starts small services with faults that the sandbox does not have. They are closed after each
 * test.
 */
export function useServices(): {
  start: (handler: Handler) => Promise<TestService>;
  connect: (url: URL, env?: Record<string, string>) => Warehouse;
} {
  const closers: (() => Promise<unknown>)[] = [];
  afterEach(async () => {
    for (const close of closers.splice(0)) await close();
  });
  return {
    start: async (handler) => {
      const requests: TestService['requests'] = [];
      const server = createServer((request, response) => {
        requests.push({ path: request.url ?? '', authorization: request.headers.authorization });
        handler(request, response);
      });
      await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
      closers.unshift(() => {
        server.closeAllConnections();
        return new Promise((resolve) => server.close(resolve));
      });
      return {
        url: new URL(`http://127.0.0.1:${(server.address() as AddressInfo).port}/base`),
        requests,
      };
    },
    connect: (url, env = {}) => {
      const config = readConfig(
        { database: false, clients: true },
        {
          WAREHOUSE_BASE_URL: url.href,
          WAREHOUSE_USERNAME: 'shop',
          WAREHOUSE_PASSWORD: 'pass word&1',
          HTTP_TIMEOUT_MS: '20000',
          ...env,
        },
      );
      const { warehouses, close } = openWarehouses(config);
      closers.unshift(close);
      return warehouses.get('default') as Warehouse;
    },
  };
}

export function sendJson(
  response: ServerResponse,
  status: number,
  body: unknown,
  headers: Record<string, string> = {},
): void {
  response
    .writeHead(status, { 'content-type': 'application/json', ...headers })
    .end(JSON.stringify(body));
}

/** Answers `/base/token` with the tokens t1, t2, …, and passes other requests to `rest`. */
export function withTokens(rest: Handler, { expiresInSeconds = 1_200 } = {}): Handler {
  let issued = 0;
  return (request, response) => {
    if (request.url !== `/base${operations['common.token'].path}`) return rest(request, response);
    sendJson(response, 200, {
      access_token: `t${++issued}`,
      token_type: 'bearer',
      expires_in: expiresInSeconds,
    });
  };
}
