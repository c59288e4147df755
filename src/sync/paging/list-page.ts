import type { Json } from '../../core/json.ts';
import { drawReadNo } from '../../erp/mirror/read-no.ts';
import type { Family } from '../../erp/mirror/tables.ts';
import type { ListPage } from '../../warehouse/client.ts';
import type { Reading } from '../commit/commit-reading.ts';
import { type DecodedPage, decodePage, type ReadById } from '../reading/decode.ts';
import type { Stream } from '../reading/stream.ts';
import type { PullContext } from '../run/pull-context.ts';
import { type Joining, readAhead } from './read-ahead.ts';
import type { WalkedPage, WalkStart } from './walk.ts';

/** Resources that a page is asked to have. */
export const pageSize = 100;

/** A page of a list, or several that follow each other, as rows. */
export type StreamPage = ListPage & Reading;

/** Walks a stream's list from `start`, reading ahead. */
export function walkPages(
  context: PullContext,
  stream: Stream,
  firstQuery: string,
  start: WalkStart,
  sorted: boolean,
): AsyncGenerator<WalkedPage<StreamPage>> {
  const fetch = (query: string, signal: AbortSignal) => fetchPage(context, stream, query, signal);
  return readAhead({ firstQuery, start, fetch, signal: context.signal, pageSize, sorted }, joining);
}

/**
 * Asks one page of a stream's list, and decodes it: pages are read ahead, and decoded while Postgres writes those before.
 * Its number is drawn anew before every send: an answer is as old as its request.
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

/** Answers with more characters than this are written alone. */
const maxJoined = 4_000_000;

/**
 * Several pages as one. Each resource keeps the number of the request it came with, so that it is taken for no older or newer
 * than it is; of one that stands on several pages the last mention counts. A page with something that cannot be decoded is
 * written alone: too much of that fails its page, and no other.
 */
export const joining: Joining<StreamPage> = {
  mayJoin: ({ decoded, size }) => decoded.quarantined.length === 0 && size < maxJoined,
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
      // Its lines are claimed by the last mention, too: so it takes that one's place.
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
