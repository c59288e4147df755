import type { OperationName } from '../../../../config/operations.ts';
import { describeAnswer, isDone, readData, readIncluded, readNumber, readRelated } from '../answer.ts';
import type { Check, CheckContext } from '../check.ts';
import { cannotTell, differs, type Finding, holds } from '../finding.ts';

/** A list, the resources that can be included, and the relationship that names them, if the interface shows one. */
const lists: readonly (readonly [OperationName, include: string, isRelated: boolean])[] = [
  ['v3.shipments.list', 'shipmentItems', true],
  ['v3.orders.list', 'orderItems', true],
  ['v3.inbounds.list', 'inboundItems', false],
  ['v3.inboundPackingSlips.list', 'inboundPackingSlipItems', true],
];

/** Checks of the position of `included` in answers (docs/interface.md, 2.3 v3 resource objects). */
export const includedChecks: readonly Check[] = [
  ...lists.map(
    ([name, include, isRelated]): Check => ({
      id: `included-${name}`,
      section: '2.6',
      assumption: '`included` is inside the resource or at the top.',
      quoted: true,
      run: (context) => checkIncluded(name, include, isRelated, context),
    }),
  ),
  {
    id: 'included-v3.inbounds.get',
    section: '2.6',
    assumption: 'At the top for one inbound, everything belongs to it; a list without `included` has no items.',
    quoted: true,
    run: checkOneInbound,
  },
];

async function checkIncluded(
  name: OperationName,
  include: string,
  isRelated: boolean,
  { service }: CheckContext,
): Promise<Finding> {
  const answer = await service.call(name, {
    query: { include, ...(service.operation(name).pageSize === false ? {} : { 'page[size]': 20 }) },
  });
  const rows = readData(answer);
  if (!isDone(answer) || rows === null) return differs(`with include=${include}: ${describeAnswer(answer)}`);
  if (rows.length === 0) return cannotTell('the list is empty');
  const { inside, top } = readIncluded(answer);
  const words = `${rows.length} rows: ${inside.length} included inside, ${top.length} at the top`;
  const wanted = new Set(rows.flatMap((row) => readRelated(row, include)));
  const found = new Set([...inside, ...top].map(({ id }) => readNumber(id)));
  const missing = [...wanted].filter((id) => !found.has(id)).length;
  if (missing > 0) return differs(`${words}; ${missing} that the relationships name are missing`);
  if (inside.length + top.length > 0) return holds(words);
  return cannotTell(isRelated ? `${words}; the relationships name none` : words);
}

async function checkOneInbound({ service }: CheckContext): Promise<Finding> {
  const [inbound] = await service.sample('v3.inbounds.list');
  const id = readNumber(inbound?.id);
  if (id === null) return cannotTell('there is no inbound');
  const answer = await service.call('v3.inbounds.get', { path: { id }, query: { include: 'inboundItems' } });
  if (!isDone(answer)) return differs(`one inbound of the list: ${describeAnswer(answer)}`);
  const { inside, top } = readIncluded(answer);
  const words = `${inside.length} items inside, ${top.length} at the top`;
  return inside.length + top.length > 0 ? holds(words) : cannotTell(`${words}; it may have none`);
}
