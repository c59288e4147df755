import type { Json } from '../../../core/json.ts';
import { dayMs, minuteMs, readDateTime, toUtcDay } from '../../../core/time.ts';
import { readAttribute } from '../answer.ts';
import type { Check, CheckContext } from '../check.ts';
import { cannotTell, differs, type Finding, holds } from '../finding.ts';

const shipmentTimes = ['readyToPickOn', 'readyToShipOn', 'shippedOn'];
/** Clocks of one service may differ by this much. */
const toleranceMs = 5 * minuteMs;
const halfHourMs = 30 * minuteMs;

/** The check of the zone of times without one (docs/interface.md, 2.1 Paths and formats). */
export const timeChecks: readonly Check[] = [
  {
    id: 'time-zone',
    section: '2.6',
    assumption: 'Zone-less times are Europe/Amsterdam.',
    quoted: true,
    run: checkZone,
  },
];

async function checkZone({ client, service }: CheckContext): Promise<Finding> {
  const { dateMs } = await service.call('common.status.get');
  if (dateMs === null) return cannotTell('the service sends no Date header to compare with');
  const rows = [
    ...(await service.sample('v3.shipments.list', { 'filter[shippedOn][gt]': toUtcDay(dateMs - 2 * dayMs) })),
    ...(await service.sample('v3.shipments.list', { 'filter[status][in]': ['READY_TO_PICK'] })),
    ...(await service.sample('v3.shipments.list', { 'filter[status][in]': ['READY_TO_SHIP'] })),
  ];
  const texts = rows.flatMap((row) => shipmentTimes.map((name) => readAttribute(row, name)));
  const times = texts.flatMap((text) => readLocal(text, 'UTC'));
  if (times.length === 0) return cannotTell('no recent shipment has a time');
  const zoneLess = times.filter(({ hasZone }) => !hasZone);
  if (zoneLess.length === 0) return holds(`all of ${times.length} times name their zone`);
  const zoned = zoneLess.flatMap(({ text }) => readLocal(text, client.timeZone));
  const aheadMs = Math.max(...zoned.map(({ atMs }) => atMs)) - dateMs;
  if (aheadMs > toleranceMs) {
    // The service's zone must be so far east that its newest time is not in the future.
    const offsetMs = Math.max(...zoneLess.map(({ atMs }) => atMs)) - dateMs;
    const hours = Math.ceil((offsetMs - toleranceMs) / halfHourMs) / 2;
    const words = `in ${client.timeZone} the newest time is ${Math.round(aheadMs / minuteMs)} minutes in the future`;
    const value = `a zone of UTC${hours < 0 ? '' : '+'}${hours} or further east`;
    return differs(words, { kind: 'variable', name: 'WAREHOUSE_TIME_ZONE', value });
  }
  const agoMinutes = Math.round(-aheadMs / minuteMs);
  return cannotTell(`in ${client.timeZone} the newest time is ${agoMinutes} minutes ago, which other zones allow, too`);
}

interface LocalTime {
  readonly text: string;
  readonly atMs: number;
  readonly hasZone: boolean;
}

function readLocal(text: Json | undefined, zone: string): LocalTime[] {
  if (typeof text !== 'string') return [];
  try {
    return [{ text, atMs: Date.parse(readDateTime(text, zone)), hasZone: /(Z|[+-]\d{2}:?\d{2})$/i.test(text) }];
  } catch (error) {
    if (error instanceof RangeError) return [];
    throw error;
  }
}
