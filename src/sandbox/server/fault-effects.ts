/** What the faults do to requests and answers. */

import type { OutgoingHttpHeaders } from 'node:http';
import { Readable } from 'node:stream';
import { setTimeout as wait } from 'node:timers/promises';
import type { FastifyReply, FastifyRequest } from 'fastify';
import type { FaultEffect } from '../faults.ts';
import type { World } from '../world.ts';

/** Sends the status of a fault, or breaks the connection, or leaves it open without an answer. */
export function sendFault(
  request: FastifyRequest,
  reply: FastifyReply,
  { status, retryAfter, location, html, reset }: FaultEffect,
): FastifyReply {
  if (status === undefined) {
    reply.hijack();
    if (reset) request.raw.socket.resetAndDestroy();
    return reply;
  }

  reply.code(status);
  if (retryAfter !== undefined) reply.header('retry-after', retryAfter);
  if (location !== undefined) reply.header('location', location);
  if (html) return reply.type('text/html').send('<html><body>Bad gateway</body></html>');
  return reply.send({ errors: [{ status: String(status), title: 'A fault of the sandbox' }] });
}

/** Returns a copy of an answer with the changes that a fault asks for, and hides its row. */
export function changePayload(request: FastifyRequest, payload: unknown, world: World): unknown {
  const { effect, client } = request;
  if (effect === null || typeof payload !== 'object' || payload === null) return payload;

  const changed = structuredClone(payload) as Record<string, unknown>;
  const selfUrl = `${request.protocol}://${request.host}${request.url}`;
  if (effect.hideRow && client !== null) hideRow(changed.data, effect.hideRow, client, world);
  if (effect.nextOrigin)
    changed.links = { next: `${effect.nextOrigin}${new URL(selfUrl).pathname}?stolen=1` };
  if (effect.repeatNext) changed.links = { next: selfUrl };

  for (const name of ['data', 'result']) {
    const rows = changed[name];
    if (!Array.isArray(rows)) continue;
    if (effect.duplicateRow && rows.length > 0) rows.push(rows[0]);
    if (effect.reverseRows) rows.reverse();
  }

  for (const { path, value } of effect.set ?? []) setMember(changed, path, value);
  return changed;
}

function hideRow(
  rows: unknown,
  { index, seconds }: NonNullable<FaultEffect['hideRow']>,
  client: string,
  world: World,
): void {
  if (!Array.isArray(rows)) return;
  const [row] = rows.splice(index, 1) as { id: number }[];
  if (row === undefined) return;

  const { hiddenUntilMs } = world.requireClient(client).visibility;
  hiddenUntilMs.set(row.id, world.clock.nowMs() + seconds * 1_000);
}

type Members = Record<string | number, unknown>;

function setMember(root: unknown, path: readonly (string | number)[], value: unknown): void {
  const parent = path.slice(0, -1).reduce((from, member) => (from as Members)?.[member], root);
  if (typeof parent !== 'object' || parent === null) return;

  const last = path.at(-1) ?? '';
  if (value === undefined) delete (parent as Members)[last];
  else (parent as Members)[last] = value;
}

/** Returns what is sent instead of the text of an answer. May break the connection halfway. */
export function changeText(request: FastifyRequest, reply: FastifyReply, text: string): unknown {
  const { effect } = request;
  if (effect === null) return text;

  if (effect.contentType !== undefined) reply.header('content-type', effect.contentType);
  if (effect.truncate) {
    reply.hijack();
    const headers = { ...reply.getHeaders(), 'content-length': Buffer.byteLength(text) };
    reply.raw.writeHead(reply.statusCode, headers as OutgoingHttpHeaders);
    const half = text.slice(0, Math.floor(text.length / 2));
    reply.raw.write(half, () => request.raw.socket.destroy());
    return text;
  }

  if (effect.empty && reply.statusCode < 300) {
    reply.code(204).removeHeader('content-type');
    return '';
  }
  const body = effect.invalidJson ? `${text.slice(0, -1)},,` : text;
  return effect.drip === undefined
    ? body
    : Readable.from(sendPieces(body, effect.drip), { objectMode: false });
}

async function* sendPieces(body: string, { bytes, everyMs }: NonNullable<FaultEffect['drip']>) {
  const all = Buffer.from(body);
  for (let start = 0; start < all.length; start += bytes) {
    if (start > 0) await wait(everyMs);
    yield all.subarray(start, start + bytes);
  }
}
