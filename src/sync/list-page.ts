import { drawReadNo } from '../erp/upsert.ts';
import type { ListPage } from '../warehouse/client.ts';
import { type DecodedPage, decodePage } from './decode.ts';
import type { Reading } from './pull.ts';
import type { PullContext } from './pull-context.ts';
import { readAhead } from './read-ahead.ts';
import type { Stream } from './stream.ts';
import type { WalkedPage, WalkStart } from './walk.ts';

/** Resources that a page is asked to have. */
export const pageSize = 100;

/** A page of a list, or several that follow each other, as rows. */
export type StreamPage = ListPage & Reading & { readonly decoded: DecodedPage };

/** Walks a stream's list from `start`, reading ahead. */
export function walkPages(
  context: PullContext,
  stream: Stream,
  firstQuery: string,
  start: WalkStart,
  sorted: boolean,
): AsyncGenerator<WalkedPage<StreamPage>> {
  const fetch = (query: string, signal: AbortSignal) => fetchPage(context, stream, query, signal);
  return readAhead({ firstQuery, start, fetch, signal: context.signal, pageSize, sorted }, joinPages);
}

/**
 * Asks one page of a stream's list, and decodes it: pages are read ahead, and decoded while Postgres writes those before.
 * Its number is drawn anew before every send: an answer is as old as its request.
 */
async function fetchPage(
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
  context.service.firstMs ??= page.dateMs;
  context.service.lastMs = page.dateMs ?? context.service.lastMs;
  return { ...page, readNo, pages: 1, decoded: await decodePage(page, stream.decoder(context.zone)) };
}

/** Several pages as one. What each read keeps the number of its own request: a reading is never taken for older or newer. */
export function joinPages(pages: readonly [StreamPage, ...StreamPage[]]): StreamPage {
  const last = pages.at(-1) ?? pages[0];
  return {
    ...last,
    data: pages.flatMap(({ data }) => data),
    escaped: pages.some(({ escaped }) => escaped),
    readNo: Math.min(...pages.map(({ readNo }) => readNo)),
    pages: pages.length,
    decoded: joinDecoded(pages),
  };
}

function joinDecoded(pages: readonly StreamPage[]): DecodedPage {
  const families = pages.flatMap(({ decoded, readNo }) =>
    decoded.families.map(({ parent, children }) => ({ parent: { ...parent, read_no: readNo }, children })),
  );
  // What could not be decoded on one page, and could on a later one, is not put aside.
  const decodedIn = new Map(
    pages.flatMap(({ decoded }, index) => decoded.families.map(({ parent }) => [parent.id, index] as const)),
  );
  const quarantined = pages.flatMap(({ decoded, readNo }, index) =>
    decoded.quarantined
      .filter(({ resourceId }) => resourceId === null || (decodedIn.get(resourceId) ?? index) <= index)
      .map((entry) => ({ ...entry, readNo })),
  );
  return {
    families,
    quarantined,
    warnings: [...new Set(pages.flatMap(({ decoded }) => decoded.warnings))],
    readById: new Map(pages.flatMap(({ decoded }) => [...decoded.readById])),
    sources: new Map(pages.flatMap(({ decoded }) => [...decoded.sources])),
  };
}
