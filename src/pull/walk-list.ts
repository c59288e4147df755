/** Walks the lists of a stream: its pages as rows, ahead of the database. */

import { WarehouseError } from '../core/errors.ts';
import type { Json } from '../core/json.ts';
import type { ListPage } from '../service/client.ts';
import { concernsWholeClient } from '../service/health/evidence.ts';
import { encodeQuery, type QueryParameters } from '../service/transport/query.ts';
import type { Reading } from './commit-reading.ts';
import { type DecodedPage, decodePage, QuarantineShareError, type ReadById } from './decode.ts';
import { type PageJoiner, walkAhead } from './prefetch.ts';
import type { Family } from './sql/mirror-tables.ts';
import type { DayWindow } from './sql/rescans.ts';
import { drawReadNo } from './sql/stream-transaction.ts';
import type { StreamContext } from './stream.ts';
import { type WalkedPage, type WalkStart, walk } from './walk.ts';

/** Number of resources that we ask for on each page. */
const pageSize = 100;

/** A page of a list as rows, or several pages in a row as one. */
export type StreamPage = ListPage & Reading & { readonly release: () => void };

/**
 * Returns the query of a list's first page. Without `page[size]`, pages have 100 rows
 * (docs/interface.md, 2.4 Paging).
 */
const toListQuery = (
  { warehouse, stream: { list, include } }: StreamContext,
  parameters: QueryParameters,
): string =>
  encodeQuery({
    ...(warehouse.takesPageSize(list) ? { 'page[size]': pageSize } : {}),
    ...(include.length > 0 ? { include } : {}),
    ...parameters,
  });

/** Returns the filter of a list by a date attribute. Both bounds are exclusive. */
export const toDateFilter = (attribute: string, { after, before }: DayWindow): QueryParameters => ({
  ...(after === null ? {} : { [`filter[${attribute}][gt]`]: after }),
  ...(before === null ? {} : { [`filter[${attribute}][lt]`]: before }),
});

/** The part of a list to walk. */
export interface ListWalk {
  readonly parameters: QueryParameters;
  readonly start: WalkStart;
  /** True if the list is in ascending order of id; default: what its stream says. */
  readonly sorted?: boolean;
}

/**
 * Walks a stream's list, and hands each page to `write` until it returns `stop`. Reads pages ahead
 * of it.
 */
export function walkList(
  context: StreamContext,
  { parameters, start, sorted = context.stream.rescan.sorted }: ListWalk,
  write: (walked: WalkedPage<StreamPage>) => Promise<unknown>,
): Promise<void> {
  const firstQuery = toListQuery(context, parameters);
  const fetch = (query: string, signal: AbortSignal) => fetchPage(context, query, signal);
  const begin = (abandoned: AbortSignal) => {
    const signal = AbortSignal.any([context.signal, abandoned]);
    return walk({ firstQuery, start, fetch, signal, pageSize, sorted });
  };

  return walkAhead(begin, streamPageJoiner, write);
}

/**
 * Fetches and decodes one page of a stream's list. Draws the reading's number again before each
 * send, also before a repeated one, because an answer is as old as its request. The caller releases
 * the page when it is committed.
 */
async function fetchPage(
  context: StreamContext,
  query: string,
  signal: AbortSignal,
): Promise<StreamPage> {
  const { stream, state } = context;
  const { service } = state;
  let readNo = 0;
  const beforeSend = async () => {
    readNo = context.run.takeReadNo() ?? (await drawReadNo(context.db));
  };
  let release: () => void = () => undefined;
  const keep = (given: () => void) => {
    release = given;
  };
  try {
    const page = await context.warehouse.list(stream.list, query, { signal, beforeSend, keep });
    service.firstMs ??= page.dateMs;
    service.lastMs = page.dateMs ?? service.lastMs;
    const decoded = await decodePage(page, stream.decoder(context.zone));
    return { ...page, readNo, pages: 1, resources: page.data.length, decoded, release };
  } catch (error) {
    release();
    throw error;
  }
}

/** A page whose answer has this number of characters or more is written alone. */
const maxJoinedCharacters = 4_000_000;

/**
 * Joins several pages into one. Each family keeps the number of the request that fetched it. If a
 * resource is on several pages, the last one counts. A page with undecodable resources is not
 * joined, so that too many of them fail only that page.
 */
export const streamPageJoiner: PageJoiner<StreamPage> = {
  mayJoin: ({ decoded, size }) => decoded.quarantined.length === 0 && size < maxJoinedCharacters,
  join: (pages) => ({
    ...(pages.at(-1) ?? pages[0]),
    data: pages.flatMap(({ data }) => data),
    resources: pages.reduce((sum, { resources }) => sum + resources, 0),
    escaped: pages.some(({ escaped }) => escaped),
    readNo: pages.reduce((least, page) => Math.min(least, page.readNo), Number.POSITIVE_INFINITY),
    pages: pages.length,
    decoded: joinDecoded(pages),
    release: () => {
      for (const page of pages) page.release();
    },
  }),
};

function joinDecoded(pages: readonly StreamPage[]): DecodedPage {
  const families = new Map<number, Family>();
  const mustReadById = new Map<number, ReadById>();
  const sources = new Map<number, Json>();
  for (const { decoded, readNo } of pages)
    for (const { parent, children } of decoded.families) {
      // Delete first: the family must move to the place of its last mention, because lines are
      // claimed in that order.
      families.delete(parent.id);
      families.set(parent.id, { parent: { ...parent, read_no: readNo }, children });
      sources.set(parent.id, decoded.sources.get(parent.id) ?? null);
      const when = decoded.mustReadById.get(parent.id);
      if (when === undefined) mustReadById.delete(parent.id);
      else mustReadById.set(parent.id, when);
    }
  const warnings = [...new Set(pages.flatMap(({ decoded }) => decoded.warnings))];
  return { families: [...families.values()], quarantined: [], warnings, mustReadById, sources };
}

/**
 * Returns true if the error concerns the page that was read, and not the whole client, database or
 * lease.
 */
export const isErrorOfOnePass = (error: unknown) =>
  error instanceof QuarantineShareError ||
  (error instanceof WarehouseError && !concernsWholeClient(error));
