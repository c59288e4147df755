import { once } from 'node:events';
import { createServer } from 'node:net';

/**
 * Finds a free port of this machine. Another process may take it before the caller does.
 * @param preferred port to return if it is free; 0: any port
 */
export async function findFreePort(preferred = 0): Promise<number> {
  const server = createServer();
  try {
    server.listen(preferred, '127.0.0.1');
    await once(server, 'listening');
  } catch (error) {
    if (preferred === 0) throw error;
    return findFreePort();
  }
  const address = server.address();
  server.close();
  await once(server, 'close');
  if (address === null || typeof address === 'string') throw new TypeError('a TCP server has a port');
  return address.port;
}
