import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { operations } from '../../../config/operations.ts';

/** A service before a sandbox, whose password can be changed. Tokens of a former password are refused. */
export interface RotatingService {
  readonly url: URL;
  /** Refuses the former password and its tokens from now on. */
  readonly rotate: (password: string) => void;
  /** How many requests were refused. */
  readonly refused: () => number;
  readonly close: () => Promise<unknown>;
}

/** Starts the service for the client `default`. Its password is `default` at first. */
export async function startRotatingService(sandbox: URL): Promise<RotatingService> {
  let password = 'default';
  let refused = 0;
  let tokens = new Set<string>();
  const forward = async (request: IncomingMessage, body: string): Promise<{ status: number; text: string }> => {
    const { method = 'GET', url = '/', headers } = request;
    const { authorization, 'content-type': type } = headers;
    const answer = await fetch(new URL(url, sandbox), {
      method,
      headers: { ...(authorization && { authorization }), ...(type && { 'content-type': type }) },
      ...(method === 'GET' ? {} : { body }),
    });
    return { status: answer.status, text: await answer.text() };
  };
  const answer = async (request: IncomingMessage, response: ServerResponse) => {
    const chunks: Buffer[] = [];
    for await (const chunk of request) chunks.push(chunk as Buffer);
    let body = Buffer.concat(chunks).toString();
    const isToken = request.url === operations['common.token'].path;
    const { authorization } = request.headers;
    const form = new URLSearchParams(body);
    const isFormer = authorization !== undefined && !tokens.has(authorization.split(' ')[1] ?? '');
    if (isFormer || (isToken && form.get('password') !== password)) {
      refused++;
      response.writeHead(isToken ? 400 : 401, { 'content-type': 'application/json' }).end('{}');
      return;
    }
    if (isToken) body = new URLSearchParams({ ...Object.fromEntries(form), password: 'default' }).toString();
    const issuedTo = tokens;
    const { status, text } = await forward(request, body);
    if (isToken) issuedTo.add((JSON.parse(text) as { access_token: string }).access_token);
    const headers = { 'content-type': 'application/json', date: new Date().toUTCString() };
    response.writeHead(status, headers).end(text);
  };
  const server = createServer((request, response) => void answer(request, response).catch(() => response.destroy()));
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  return {
    url: new URL(`http://127.0.0.1:${(server.address() as AddressInfo).port}`),
    rotate: (next) => {
      password = next;
      tokens = new Set();
    },
    refused: () => refused,
    close: () => {
      server.closeAllConnections();
      return new Promise((resolve) => server.close(resolve));
    },
  };
}
