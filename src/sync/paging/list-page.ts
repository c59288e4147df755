import type { Json } from '../../core/json.ts';
import type { Family } from '../../erp/mirror/mirror-tables.ts';
import { drawReadNo } from '../../erp/mirror/read-no.ts';
import type { ListPage } from '../../warehouse/client.ts';
import type { Reading } from '../commit/commit-reading.ts';
import { type DecodedPage, decodePage, type ReadById } from '../reading/decode.ts';
import type { Stream } from '../reading/stream.ts';
import type { PullContext } from '../run/pull-context.ts';
import { type PageJoiner, readAhead } from './read-ahead.ts';
import type { WalkedPage, WalkStart } from './walk.ts';

/** Number of resources that we ask for on each page. */
export const pageSize = 100;

/** A page of a list as rows, or several pages in a row as one. */
export type StreamPage = ListPage & Reading;

/** Walks a stream's list from `start`. Reads pages ahead of the consumer. */
export function walkPages(
  context: PullContext,
  stream: Stream,
  firstQuery: string,
  start: WalkStart,
  sorted: boolean,
): AsyncGenerator<WalkedPage<StreamPage>> {
  const fetch = (query: string, signal: AbortSignal) => fetchPage(context, stream, query, signal);
  return readAhead({ firstQuery, start, fetch, signal: context.signal, pageSize, sorted }, streamPageJoiner);
}

/**
 * Fetches and decodes one page of a stream's list. Draws the reading's number again before each send, also before a
 * repeated one, because an answer is as old as its request.
 */
export async function fetchPage(
  context: PullContext,
  stream: Stream,
  query: string,
  signal: AbortSignal,
): Promise<StreamPage> {
  let readNo = 0;
  const beforeSend = async () => {
    readNo = await drawReadNo(context.db);
  };
  const page = await context.warehouse.list(stream.list, query, { signal, beforeSend });
  context.state.service.firstMs ??= page.dateMs;
  context.state.service.lastMs = page.dateMs ?? context.state.service.lastMs;
  const decoded = await decodePage(page, stream.decoder(context.zone));
  return { ...page, readNo, pages: 1, resources: page.data.length, decoded };
}

/** A page whose answer has this number of characters or more is written alone. */
const maxJoinedCharacters = 4_000_000;

/**
 * Joins several pages into one. Each family keeps the number of the request that fetched it. If a resource is on
 * several pages, the last one counts. A page with undecodable resources is not joined, so that too many of them fail
 * only that page.
 */
export const streamPageJoiner: PageJoiner<StreamPage> = {
  mayJoin: ({ decoded, size }) => decoded.quarantined.length === 0 && size < maxJoinedCharacters,
  join: (pages) => ({
    ...(pages.at(-1) ?? pages[0]),
    data: pages.flatMap(({ data }) => data),
    resources: pages.reduce((sum, { resources }) => sum + resources, 0),
    escaped: pages.some(({ escaped }) => escaped),
    readNo: Math.min(...pages.map(({ readNo }) => readNo)),
    pages: pages.length,
    decoded: joinDecoded(pages),
  }),
};

function joinDecoded(pages: readonly StreamPage[]): DecodedPage {
  const families = new Map<number, Family>();
  const readById = new Map<number, ReadById>();
  const sources = new Map<number, Json>();
  for (const { decoded, readNo } of pages)
    for (const { parent, children } of decoded.families) {
      // Delete first: the family must move to the place of its last mention, because lines are claimed in that order.
      families.delete(parent.id);
      families.set(parent.id, { parent: { ...parent, read_no: readNo }, children });
      sources.set(parent.id, decoded.sources.get(parent.id) ?? null);
      const when = decoded.readById.get(parent.id);
      if (when === undefined) readById.delete(parent.id);
      else readById.set(parent.id, when);
    }
  const warnings = [...new Set(pages.flatMap(({ decoded }) => decoded.warnings))];
  return { families: [...families.values()], quarantined: [], warnings, readById, sources };
}
