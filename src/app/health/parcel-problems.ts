import type { Config } from '../../../config/env.ts';
import { formatSpan } from '../../core/time.ts';
import type { ParcelBacklog } from '../../erp/resources/parcel-reads.ts';
import { createProblem, type Problem } from './problem.ts';

/** A smaller number of due look-ups is ordinary: they are read with the next run. */
const minBacklog = 100;

/** Tells of clients with many packages to look up, and how long that takes; a warning if pull-parcels is off. */
export function findParcelProblems(
  backlog: readonly ParcelBacklog[],
  { schedules, PARCEL_REQUESTS_PER_SECOND: perSecond }: Pick<Config, 'schedules' | 'PARCEL_REQUESTS_PER_SECOND'>,
): Problem[] {
  const isOff = schedules['pull-parcels'].kind === 'off';
  return backlog
    .filter(({ shipments }) => shipments >= minBacklog)
    .map(({ client, shipments, oldestShippedOn }) => {
      const oldest =
        oldestShippedOn === null ? '' : `; the oldest was shipped on ${oldestShippedOn.toISOString().slice(0, 10)}`;
      const text = `the packages of ${shipments} shipped shipments are to be looked up${oldest}`;
      return isOff
        ? createProblem(
            'parcels_waiting',
            'warn',
            { client, part: 'pull-parcels' },
            `${text}, but the job is off in this configuration`,
            'set SCHEDULE_PULL_PARCELS, such as 10m',
          )
        : createProblem(
            'parcels_waiting',
            'note',
            { client, part: 'pull-parcels' },
            `${text}; at ${perSecond} requests a second this takes ${formatSpan(shipments / perSecond)}`,
          );
    });
}
