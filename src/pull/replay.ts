import { type Json, parseExact, ShapeError } from '../core/json.ts';
import { commitReading } from './commit-reading.ts';
import { decodePage } from './decode.ts';
import { readNextQuarantined, releaseQuarantineRow } from './sql/quarantine.ts';
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
  const { db, client, zone, signal, stream } = context;
  let released = 0;
  let kept = 0;
  for (let afterId = 0; ; ) {
    const rows = await readNextQuarantined(db, client, stream.name, {
      afterId,
      limit: batchSize,
    });
    for (const { id, document, readNo } of rows) {
      signal.throwIfAborted();
      const data = parseDocument(document);
      const decoded = await decodePage({ data, included: [], escaped: true }, stream.decoder(zone));
      // A resource without all its lines would be stored incomplete.
      if (decoded.families.length === 0 || decoded.warnings.length > 0) {
        kept++;
        continue;
      }
      const reading = { readNo, pages: 0, resources: data.length, decoded };
      const { page } = await commitReading(context, reading, {
        // By the entry's id: the resource's id may have been unreadable when it was quarantined.
        write: async ({ trx }, { families }) => {
          if (families.length > 0) await releaseQuarantineRow(trx, id);
        },
      });
      if (page.families.length > 0) released++;
      else kept++;
    }
    const last = rows.at(-1);
    if (last === undefined) return { released, kept };
    afterId = last.id;
  }
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
