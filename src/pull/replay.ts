import { type Json, parseExact, ShapeError } from '../core/json.ts';
import { commitReading } from './commit.ts';
import { decodePage } from './decode.ts';
import {
  type QuarantinedDocument,
  readNextQuarantined,
  readQuarantined,
  releaseQuarantineRow,
} from './sql/quarantine.ts';
import type { StreamContext } from './stream.ts';

/** Number of entries read at a time. Each may have a million characters. */
const batchSize = 10;

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
  let afterId: number | undefined = 0;

  while (afterId !== undefined) {
    const next = { afterId, limit: batchSize };
    const rows = await readNextQuarantined(db, client, stream.name, next);
    for (const row of rows) {
      signal.throwIfAborted();
      counts[(await replayRow(context, row)) ? 'released' : 'kept']++;
    }
    afterId = rows.at(-1)?.id;
  }

  return counts;
}

/** Decodes one resource again, by the number of its row; nothing if it has left the quarantine. */
export async function replayQuarantined(context: StreamContext, id: number): Promise<void> {
  const row = await readQuarantined(context.db, id);
  if (row !== null) await replayRow(context, row);
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
