import { type Json, parseExact, ShapeError } from '../../core/json.ts';
import { forgetQuarantined, nextQuarantined } from '../../erp/pull/quarantine.ts';
import { commitReading } from '../commit/commit-reading.ts';
import { decodePage } from '../reading/decode.ts';
import type { Stream } from '../reading/stream.ts';
import type { PullContext } from '../run/pull-context.ts';

/** Rows read at a time. Each may have a million characters. */
const batchSize = 10;

export interface Replayed {
  /** Resources that decode by now and are in the tables. */
  readonly released: number;
  /** Resources that still do not. */
  readonly kept: number;
}

/**
 * Decodes what is in quarantine again, for after an upgrade. A resource counts as old as its reading: where a newer one
 * is stored, that stays.
 */
export async function replayQuarantine(context: PullContext, stream: Stream): Promise<Replayed> {
  const { db, client, zone, signal } = context;
  let released = 0;
  let kept = 0;
  for (let afterId = 0; ; ) {
    const rows = await nextQuarantined(db, client, stream.name, afterId, batchSize);
    for (const { id, document, readNo } of rows) {
      signal.throwIfAborted();
      const data = parsed(document);
      const decoded = await decodePage({ data, included: [], escaped: true }, stream.decoder(zone));
      // Without all its lines it would be half a resource.
      if (decoded.families.length === 0 || decoded.warnings.length > 0) {
        kept++;
        continue;
      }
      const reading = { readNo, pages: 0, resources: data.length, decoded };
      const { page } = await commitReading(context, stream, reading, async (trx, { families }) => {
        // Not by the resource's id, which could not be read when it came here.
        if (families.length > 0) await forgetQuarantined(trx, id);
        return { changes: [], result: null };
      });
      if (page.families.length > 0) released++;
      else kept++;
    }
    const last = rows.at(-1);
    if (last === undefined) return { released, kept };
    afterId = last.id;
  }
}

/** One that an earlier version took, and that is of a shape which this one does not take, stays where it is. */
function parsed(document: string): Json[] {
  try {
    return [parseExact(document)];
  } catch (error) {
    if (!(error instanceof ShapeError)) throw error;
    return [];
  }
}
