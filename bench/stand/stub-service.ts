/**
 * A service with empty lists, far lighter than the sandbox: `node bench/stand/stub-service.ts`. It
 * prints its port. `GET /_count` returns the number of requests.
 */
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';

const token = JSON.stringify({ access_token: 'stub', token_type: 'bearer', expires_in: 86_400 });
const empty = JSON.stringify({ data: [], included: [], links: { next: null } });
let count = 0;

const server = createServer((request, response) => {
  request.resume();
  const path = request.url ?? '';
  response.setHeader('content-type', 'application/json');
  if (path === '/_count') {
    response.end(JSON.stringify(count));
    return;
  }
  count += 1;
  response.end(path.startsWith('/token') ? token : empty);
});
server.keepAliveTimeout = 60_000;
server.listen(0, '127.0.0.1', () =>
  process.stdout.write(`port ${(server.address() as AddressInfo).port}\n`),
);
