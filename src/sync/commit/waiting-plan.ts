import type { StreamScope } from '../../erp/connection/stream-scope.ts';
import type { UpsertResult } from '../../erp/mirror/upsert.ts';
import { releaseQuarantined } from '../../erp/pull/quarantine.ts';
import { removeRereads, requestRereads } from '../../erp/pull/rereads.ts';
import type { NumberedReading } from '../../erp/runs/confirmations.ts';
import type { DecodedPage } from '../reading/decode.ts';
import type { MirroredResource } from '../reading/stream.ts';
import { findReadNos, type Reading } from './reading.ts';

/** The effect of a reading on resources that wait to be read by id, and on quarantined ones. */
interface WaitingPlan {
  /** Ids to read again: this reading differs from the stored row, but its number is older. */
  readonly doubtful: readonly number[];
  /** Ids to read by id, because their lines came without a link to them. */
  readonly unlinked: readonly number[];
  /** Ids that no longer need to be read by id. */
  readonly settled: readonly number[];
  /** Those of `settled` that have changed. */
  readonly changed: readonly number[];
  /** Resources that are now stored, so their quarantine entries can be released. */
  readonly released: readonly NumberedReading[];
}

/** Plans what a reading means for rereads and quarantine. */
export function planWaiting(
  stream: MirroredResource,
  reading: Reading,
  page: DecodedPage,
  written: UpsertResult,
): WaitingPlan {
  const { families, readById } = page;
  const parents = written.changes.filter(({ entity }) => entity === stream.tables.parent.name);
  const changed = new Set(parents.map(({ id }) => id));
  const older = new Set(written.stale);
  const ids = families.map(({ parent }) => parent.id);
  // A resource that must be read by id keeps its reread, its waiting time and its quarantine entry until that read.
  const seen = ids.filter((id) => !readById.has(id) && !older.has(id));
  const settled = reading.pages > 0 ? seen : ids.filter((id) => changed.has(id));
  return {
    doubtful: stream.get === null ? [] : written.stale,
    unlinked: [...readById].filter(([id, when]) => when === 'always' || changed.has(id)).map(([id]) => id),
    settled,
    changed: settled.filter((id) => changed.has(id)),
    released: findReadNos(reading, page, seen),
  };
}

/**
 * Requests and removes rereads, and releases resources from quarantine.
 * @param somethingWaits false if the stream has no rereads and no quarantine; then there is nothing to remove or
 * release
 */
export async function applyWaitingPlan(
  scope: StreamScope,
  waiting: WaitingPlan,
  somethingWaits: boolean,
): Promise<void> {
  await requestRereads(scope, waiting.doubtful, 'an older reading differed from the stored row');
  if (somethingWaits) await removeRereads(scope, waiting.settled, waiting.changed);
  await requestRereads(scope, waiting.unlinked, 'its lines came without a link to it');
  if (somethingWaits) await releaseQuarantined(scope, waiting.released);
}
