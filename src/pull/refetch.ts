/** Reads one resource again by its id, and decodes quarantined ones again. */

import { type Json, parseExact, ShapeError } from '../core/json.ts';
import { type CommittedPage, commitReading } from './commit.ts';
import { decodePage } from './decode.ts';
import { readByIds } from './read-by-ids.ts';
import {
  listQuarantined,
  type QuarantinedDocument,
  readQuarantined,
  releaseQuarantineRow,
} from './sql/quarantine.ts';
import type { PullContext, StreamContext } from './stream.ts';

/**
 * The result of a refetch: the row was missing, stale or unchanged, or the service does not know
 * the id (unlisted).
 */
export type RefetchResult = 'missing' | 'stale' | 'unchanged' | 'unlisted';

/**
 * Reads one resource by id and heals what differs. What follows from a change is requested in any
 * case.
 * @returns null if it could not be read or decoded; the run's warnings and the quarantine say why
 */
export async function refetch(context: PullContext, id: number): Promise<RefetchResult | null> {
  const { stream } = context;
  let result: RefetchResult | null = null;
  for await (const { reading, unlisted, settle } of readByIds(context, [id]))
    result = await commitReading(context, reading, async (transaction, page) => {
      await settle(transaction, page);
      await stream.afterChanges?.(transaction, [id]);
      return unlisted.length > 0 ? 'unlisted' : toRefetchResult(page);
    });

  return result;
}

function toRefetchResult({ written, resources }: CommittedPage): RefetchResult | null {
  if (written.inserted.length > 0) return 'missing';
  if (written.changed.length > 0) return 'stale';
  return resources.length > 0 ? 'unchanged' : null;
}

/** The result of a replay. */
export interface ReplayCounts {
  /** Number of resources that could be decoded and are now in the tables. */
  readonly released: number;
  /** Number of resources that stay in quarantine. */
  readonly kept: number;
}

/**
 * Decodes the quarantined resources of a stream again, for use after an upgrade. Each keeps the
 * number of its reading, so it does not replace a newer stored row.
 */
export async function replayQuarantine(context: StreamContext): Promise<ReplayCounts> {
  const { db, client, signal, stream } = context;
  const counts = { released: 0, kept: 0 };

  for (const { id } of await listQuarantined(db, { client, stream: stream.name })) {
    signal.throwIfAborted();
    counts[(await replayQuarantined(context, id)) ? 'released' : 'kept']++;
  }

  return counts;
}

/**
 * Decodes one resource again, by the number of its row. Returns false if it stays in quarantine.
 */
export async function replayQuarantined(context: StreamContext, id: number): Promise<boolean> {
  const row = await readQuarantined(context.db, id);
  return row === null || replayRow(context, row);
}

/** Decodes one quarantined resource again. Returns false if it stays in quarantine. */
async function replayRow(
  context: StreamContext,
  { id, document, readNo }: QuarantinedDocument,
): Promise<boolean> {
  const data = parseDocument(document);
  const decoder = context.stream.decoder(context.zone);
  const decoded = await decodePage({ data, included: [], escaped: true }, decoder);
  // A resource without all its lines would be stored incomplete.
  const [resource] = decoded.resources;
  if (resource === undefined || resource.warning !== undefined) return false;

  const reading = { readNo, pages: 0, received: data.length, decoded };
  const isReleased = await commitReading(context, reading, async ({ trx }, { resources }) => {
    // By the entry's id: the resource's id may have been unreadable when it was quarantined.
    if (resources.length > 0) await releaseQuarantineRow(trx, id);
    return resources.length > 0;
  });
  return isReleased === true;
}

/**
 * Parses a quarantined document. Returns no resource if this version refuses its shape: it then
 * stays.
 */
function parseDocument(document: string): Json[] {
  try {
    return [parseExact(document)];
  } catch (error) {
    if (!(error instanceof ShapeError)) throw error;
    return [];
  }
}
