import type { Config } from '../../../config/env.ts';
import { formatSpan } from '../../core/time.ts';
import type { ParcelBacklog } from '../../erp/resources/parcel-reads.ts';
import { parcelReadsPerSecond, readsWithoutPause } from '../../sync/pulls/parcels.ts';
import { createProblem, type Problem } from './problem.ts';

/** Tells of clients with many packages to look up, and how long that takes. */
export function findParcelProblems(
  backlog: readonly ParcelBacklog[],
  {
    schedules,
    REQUESTS_PER_SECOND: perSecond = parcelReadsPerSecond,
  }: Pick<Config, 'schedules' | 'REQUESTS_PER_SECOND'>,
): Problem[] {
  const isOff = schedules['pull-parcels'].kind === 'off';
  return backlog
    .filter(({ shipments }) => shipments > readsWithoutPause)
    .map(({ client, shipments, oldestShippedOn }) => {
      const day = oldestShippedOn?.toISOString().slice(0, 10);
      const oldest = day === undefined ? '' : `; the oldest was shipped on ${day}`;
      const span = isOff
        ? 'the job is off in this configuration'
        : `at ${perSecond} requests a second this takes ${formatSpan(shipments / perSecond)}`;
      const text = `the packages of ${shipments} shipped shipments are to be looked up${oldest}; ${span}`;
      return createProblem('parcels_waiting', 'note', { client, part: 'pull-parcels' }, text);
    });
}
