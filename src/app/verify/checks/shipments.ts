import { isObject, type Json } from '../../../core/json.ts';
import { describeAnswer, isDone, readAttribute, readData, readEnvelope, readNumber, readRelated } from '../answer.ts';
import type { Check, CheckContext } from '../check.ts';
import { cannotTell, differs, type Finding, holds } from '../finding.ts';

/** Number of shipments that are looked up by criteria. */
const lookUps = 10;

/** Checks of shipments, read by id and by the look-up of v2 (docs/interface.md, 10 Shipments, 15.7). */
export const shipmentChecks: readonly Check[] = [
  {
    id: 'shipment-by-id',
    section: '10.4',
    assumption: 'GET /v3/shipments/{id} returns a shipment of the list.',
    run: async ({ service }) => {
      const [listed] = await service.sample('v3.shipments.list');
      const id = readNumber(listed?.id);
      if (id === null) return cannotTell('there are no shipments');
      const answer = await service.call('v3.shipments.get', { path: { id } });
      const [read] = readData(answer) ?? [];
      if (!isDone(answer) || readNumber(read?.id) !== id) return differs(`a shipment: ${describeAnswer(answer)}`);
      return holds('the same shipment, in the list and by id');
    },
  },
  {
    id: 'shipment-ids',
    section: '15.10',
    assumption: 'The id of a v2 shipment is that of the v3 shipment.',
    quoted: true,
    run: checkIds,
  },
  {
    id: 'one-item-per-package',
    section: '15.10',
    assumption: 'Each item of the look-up by criteria is one package.',
    quoted: true,
    run: checkPackages,
  },
];

const listShipped = ({ service }: CheckContext) =>
  service.sample('v3.shipments.list', { 'filter[status][in]': ['SHIPPED'] });

async function checkIds(context: CheckContext): Promise<Finding> {
  const { service } = context;
  const [shipment] = await listShipped(context);
  const id = readNumber(shipment?.id);
  const [orderId] = readRelated(shipment, 'order');
  if (id === null || orderId === undefined) return cannotTell('there is no shipped shipment that names an order');
  const answer = await service.call('v2.shipment.search', { json: { id } });
  const items = readItems(readEnvelope(answer)?.result);
  if (items === null) return cannotTell(`the look-up by criteria: ${describeAnswer(answer)}`);
  const order = await service.call('v3.orders.get', { path: { id: orderId } });
  const number = readAttribute((readData(order) ?? [])[0], 'externalOrderNumber');
  if (typeof number !== 'string') return cannotTell(`the order of the shipment: ${describeAnswer(order)}`);
  const same = items.filter((item) => item.id === id && item.externalOrderNumber === number).length;
  const words = `the look-up by the id of a v3 shipment finds ${items.length} items, ${same} of the same order`;
  return same > 0 ? holds(words) : differs(`${words}; set SCHEDULE_PULL_PARCELS=off`, off);
}

const off = { kind: 'variable', name: 'SCHEDULE_PULL_PARCELS', value: 'off' } as const;

async function checkPackages(context: CheckContext): Promise<Finding> {
  const ids = (await listShipped(context)).flatMap(({ id }) => readNumber(id) ?? []).slice(0, lookUps);
  if (ids.length === 0) return cannotTell('there are no shipped shipments');
  const seen = { several: 0, fitting: 0 };
  for (const id of ids) {
    const answer = await context.service.call('v2.shipment.search', { json: { id } });
    const items = readItems(readEnvelope(answer)?.result);
    if (items === null) return cannotTell(`the look-up by criteria: ${describeAnswer(answer)}`);
    const colli = Math.max(0, ...items.map((item) => readNumber(item.numberOfColli) ?? 0));
    if (colli < 2) continue;
    seen.several++;
    if (items.length === colli) seen.fitting++;
  }
  const { several, fitting } = seen;
  if (several === 0) return cannotTell(`each of the ${ids.length} shipments has one package at most`);
  const words = `${several} of ${ids.length} shipments have several packages; ${fitting} have as many items`;
  return fitting === several ? holds(words) : differs(`${words}; parcels will be missing, and no setting changes that`);
}

function readItems(result: Json | undefined): { readonly [member: string]: Json }[] | null {
  if (result === null) return [];
  return Array.isArray(result) ? result.filter(isObject) : null;
}
