import type { FastifyRequest } from 'fastify';
import { isFromHost } from '../control/same-origin.ts';
import type { World } from '../world.ts';

/** What a reader of the page has chosen. It is the query of the page's address. */
export interface View {
  readonly client: string;
  /** What to search for. */
  readonly q: string;
  /** Filters of the log of requests; empty for all. */
  readonly text: string;
  readonly operation: string;
  readonly status: string;
  /** The action that led to the page. */
  readonly said: string;
}

const maxLength = 200;

/** Reads the choices from an address of the page. Replaces an unknown client by the first one. */
export function readView(url: string, world: World): View {
  const query = new URLSearchParams(url.split('?', 2)[1]);
  const read = (name: string) => (query.get(name) ?? '').trim().slice(0, maxLength);
  const { clientNames } = world;
  const client = clientNames.find((name) => name === read('client')) ?? clientNames[0] ?? '';
  const [q, text, operation, status, said] = [read('q'), read('text'), read('operation'), read('status'), read('said')];
  return { client, q, text, operation, status, said };
}

/** Returns the address of the page for some choices. Choices that are left out are not made. */
export function writeAddress(view: Partial<View>): string {
  const query = new URLSearchParams(Object.entries(view).filter(([, value]) => value !== ''));
  return query.size === 0 ? '/' : `/?${query}`;
}

/** Returns the address of the page from which a form was sent, if it is a page of this sandbox. */
export function readReferrer(request: FastifyRequest): string {
  const { referer = '' } = request.headers;
  return isFromHost(referer, request.host) ? `/${new URL(referer).search}` : '/';
}
