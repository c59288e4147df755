import { createServer, request as send } from 'node:http';
import type { AddressInfo } from 'node:net';
import { text } from 'node:stream/consumers';
import { afterAll, beforeAll, beforeEach } from 'vitest';
import type { SandboxControl } from '../sandbox-control.ts';

/** An answer of the sandbox, as far as tests change it. */
interface EditedAnswer {
  status: number;
  body: string;
}

/**
 * Changes an answer.
 * @param request such as `GET /v3/orders/7?include=orderItems`, decoded
 */
type Edit = (request: string, answer: EditedAnswer) => void | Promise<void>;

/**
 * Starts a service in front of a sandbox for a whole file. It answers as the sandbox does, until a
 * test edits its answers.
 */
export function useEditedService(sandbox: SandboxControl) {
  const leave: Edit = () => undefined;
  let edit = leave;
  const takeAll = (_request: string): number | null => null;
  let refuse = takeAll;
  let url = '';

  const server = createServer(async (request, response) => {
    const body = await text(request);
    const { method = 'GET', headers } = request;
    const name = `${method} ${decodeURIComponent(request.url ?? '')}`;
    const status = refuse(name);
    if (status !== null) {
      response.writeHead(status, { 'content-type': 'text/html' }).end('<html>refused</html>');
      return;
    }
    const target = new URL(request.url ?? '/', sandbox.url);
    const forwarded = send(target, { method, headers }, async (from) => {
      const answer = { status: from.statusCode ?? 502, body: await text(from) };
      await edit(name, answer);
      const { 'content-length': _length, 'transfer-encoding': _encoding, ...others } = from.headers;
      response.writeHead(answer.status, others).end(answer.body);
    });
    forwarded.on('error', () => response.destroy()).end(body);
  });

  beforeAll(async () => {
    const { promise, resolve } = Promise.withResolvers<void>();
    server.listen(0, '127.0.0.1', resolve);
    await promise;
    url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/`;
  });
  beforeEach(() => {
    edit = leave;
    refuse = takeAll;
  });
  afterAll(() => {
    server.closeAllConnections();
    server.close();
  });

  return {
    /** Settings of a worker that uses this service. */
    env: () => ({ WAREHOUSE_BASE_URL: url }),
    edit: (changed: Edit) => {
      edit = changed;
    },
    /** Refuses requests with the status that a function returns, before the sandbox gets them. */
    refuse: (find: typeof refuse) => {
      refuse = find;
    },
  };
}
