import type { Server } from 'node:http';
import type { Socket } from 'node:net';

/** Maximum number of open connections to the admin server. */
const maxConnections = 128;
/** Maximum bytes of a form. */
export const maxFormBytes = 256 * 1024;
/** Maximum bytes of the login form, which has a token and a path. */
export const maxLoginBytes = 4 * 1024;
/** Maximum number of members of a form. */
export const maxFormMembers = 50;
/** Maximum bytes of the form that replaces a payload: 16 MB of payload, encoded as a form. */
export const maxPayloadBytes = 32 * 1024 * 1024;
/** Maximum milliseconds until a request has arrived, with its body. */
export const requestTimeoutMs = 10_000;
/** Milliseconds between two checks of Node for requests that take too long. */
export const timeoutCheckMs = 1_000;

/**
 * Closes the oldest connection if there are too many. Refusing new ones instead would let somebody who keeps half-sent
 * requests open make `/livez` unreachable.
 */
export function limitConnections(server: Server): void {
  const open = new Set<Socket>();
  server.on('connection', (socket: Socket) => {
    open.add(socket);
    socket.once('close', () => open.delete(socket));
    const [oldest] = open;
    if (open.size > maxConnections) oldest?.destroy();
  });
}
