import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { type AddressInfo, connect, createServer, type Socket } from 'node:net';
import { createServer as createTlsServer } from 'node:tls';
import { fileURLToPath } from 'node:url';

/**
 * Returns the path of a certificate or key of tests. All but `authority` are signed by `authority`,
 * for `localhost`.
 */
export const tlsFile = (name: string): string =>
  fileURLToPath(new URL(`../../fixtures/tls/${name}.pem`, import.meta.url));

export interface TlsFrontOptions {
  /** True if clients need a certificate of the authority. */
  readonly asksForCertificate?: boolean;
}

export interface TlsFront {
  /** URL of the front: that of the server, with host and port of the front. */
  readonly url: URL;
  readonly close: () => Promise<void>;
}

/** Starts a server that speaks TLS, and passes on everything to another server, which does not. */
export async function startTlsFront(
  target: URL,
  { asksForCertificate = false }: TlsFrontOptions = {},
): Promise<TlsFront> {
  const sockets = new Set<Socket>();
  const tls = createTlsServer({
    key: readFileSync(tlsFile('server-key')),
    cert: readFileSync(tlsFile('server-cert')),
    ca: readFileSync(tlsFile('authority-cert')),
    requestCert: asksForCertificate,
    rejectUnauthorized: asksForCertificate,
  });
  tls.on('tlsClientError', (_, socket) => socket.destroy());
  tls.on('secureConnection', (near) => {
    const far = connect(Number(target.port), target.hostname);
    near.on('error', () => far.destroy()).pipe(far);
    far.on('error', () => near.destroy()).pipe(near);
  });
  const server = createServer((socket) => {
    sockets.add(socket.on('error', () => socket.destroy()));
    if (!target.protocol.startsWith('postgres')) tls.emit('connection', socket);
    // Postgres: the client first asks for TLS in eight bytes.
    else
      socket.once('data', () => {
        socket.pause().write('S');
        tls.emit('connection', socket);
      });
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const url = new URL(target);
  url.hostname = 'localhost';
  url.port = String((server.address() as AddressInfo).port);
  return {
    url,
    close: async () => {
      server.close();
      for (const socket of sockets) socket.destroy();
    },
  };
}
