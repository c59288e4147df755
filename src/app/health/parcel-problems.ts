import type { Config } from '../../../config/env.ts';
import { formatSpan } from '../../core/time.ts';
import type { ParcelBacklog } from '../../erp/resources/parcel-reads.ts';
import { createProblem, type Problem } from './problem.ts';

/** A smaller number of due look-ups is ordinary: they are read with the next run. */
const minBacklog = 100;

/** Tells of clients with many packages to look up, and how long that takes. */
export function findParcelProblems(
  backlog: readonly ParcelBacklog[],
  { schedules, PARCEL_REQUESTS_PER_SECOND: perSecond }: Pick<Config, 'schedules' | 'PARCEL_REQUESTS_PER_SECOND'>,
): Problem[] {
  const isOff = schedules['pull-parcels'].kind === 'off';
  return backlog
    .filter(({ shipments }) => shipments >= minBacklog)
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
