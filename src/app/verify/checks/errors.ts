import { dayMs, toUtcDay } from '../../../core/time.ts';
import { describeAnswer, isDone, readData, readEnvelope, readErrors } from '../answer.ts';
import type { Check, CheckContext } from '../check.ts';
import { cannotTell, differs, type Finding, holds } from '../finding.ts';
import { unknownId } from '../service.ts';

/** Days after which the service no longer lists shipments (docs/interface.md, 5.1 Values). */
const listedDays = 90;

/** Checks of refusals and limits (docs/interface.md, 4 Errors, 5 Limits). */
export const errorChecks: readonly Check[] = [
  {
    id: 'unknown-resource',
    section: '4.2',
    assumption: '404 with a JSON body means that the resource does not exist.',
    quoted: true,
    run: checkUnknown,
  },
  {
    id: 'v3-errors',
    section: '4.2',
    assumption: 'A v3 error may have JSON:API `errors[]`.',
    quoted: true,
    run: async ({ service }) => {
      const answer = await service.call('v3.shipments.list', { query: { 'page[size]': 0 } });
      const words = `page[size]=0: ${describeAnswer(answer)}`;
      if (isDone(answer)) return cannotTell(`${words}; the service does not refuse it`);
      return readErrors(answer) === null ? differs(`${words}; refused rows will not name the reason`) : holds(words);
    },
  },
  {
    id: 'nok',
    section: '4.2',
    assumption: 'A NOK envelope may have any status.',
    quoted: true,
    run: async ({ service }) => {
      const answer = await service.call('oldest.order.search', { json: { ExternalOrderNumber: 'VERIFY-ABSENT' } });
      const words = `an order that does not exist: ${describeAnswer(answer)}`;
      return readEnvelope(answer)?.isOk === false ? holds(words) : differs(words);
    },
  },
  {
    id: 'age-limit',
    section: '5.1',
    assumption: 'GET /v3/shipments lists nothing older than 90 days.',
    run: checkAgeLimit,
  },
];

async function checkUnknown({ service }: CheckContext): Promise<Finding> {
  const names = ['v3.shipments.get', 'v3.orders.get', 'v3.inbounds.get'] as const;
  const words: string[] = [];
  let isFine = true;
  for (const name of names) {
    const answer = await service.call(name, { path: { id: unknownId } });
    words.push(`${name} ${describeAnswer(answer)}`);
    if (answer.status !== 404 || answer.json === undefined) isFine = false;
  }
  return isFine ? holds(words.join('; ')) : differs(`${words.join('; ')}; no setting changes that`);
}

async function checkAgeLimit({ service }: CheckContext): Promise<Finding> {
  const { dateMs } = await service.call('common.status.get');
  const day = toUtcDay((dateMs ?? Date.now()) - (listedDays + 2) * dayMs);
  const query = { 'filter[shippedOn][lt]': day, 'page[size]': 1 };
  const answer = await service.call('v3.shipments.list', { query });
  const rows = readData(answer);
  if (!isDone(answer) || rows === null) return differs(`a filter on older days: ${describeAnswer(answer)}`);
  if (rows.length > 0) return differs('older shipments are listed; nothing needs to be set');
  const any = await service.sample('v3.shipments.list');
  return any.length === 0
    ? cannotTell('there are no shipments')
    : holds('no shipment is listed that was shipped earlier');
}
