import type { OperationName } from '../../../../config/operations.ts';
import type { Route } from '../alternatives.ts';
import type { Check, CheckContext } from '../check.ts';
import { cannotTell, differs, entry, type Finding, holds } from '../finding.ts';
import { unknownId } from '../service.ts';

/** Changes whose method or path docs/interface.md does not show. */
const changes: readonly (readonly [OperationName, section: string])[] = [
  ['v3.orders.update', '7.4'],
  ['v3.orderItems.cancel', '8.2'],
  ['v3.returnMerchandiseAuthorizations.create', '11.4'],
  ['v3.returnMerchandiseAuthorizations.replace', '11.4'],
  ['v3.returnMerchandiseAuthorizations.delete', '11.4'],
  ['v3.inboundPackingSlips.create', '14.4'],
  ['v2.order.add', '15.1'],
  ['v2.order.release', '15.1'],
  ['v2.rma.add', '15.1'],
  ['v2.returnLabel.get', '15.1'],
];
const changing: readonly Route['method'][] = ['PATCH', 'PUT', 'POST'];

/**
 * Checks of the changes whose method or path is assumed. They ask with OPTIONS which methods a path allows, so they change
 * nothing.
 */
export const writeRouteChecks: readonly Check[] = changes.map(([name, section]) => ({
  id: `route-${name}`,
  section,
  assumption: `The method and the path of \`${name}\` are those of config/operations.ts.`,
  run: (context) => checkAllowed(name, context),
}));

async function checkAllowed(name: OperationName, { service }: CheckContext): Promise<Finding> {
  const { method, path } = service.operation(name);
  const values = { path: { id: unknownId, shipmentId: unknownId } };
  const allowed = readAllowed(await service.ask('OPTIONS', path, values));
  const elsewhere = readAllowed(await service.ask('OPTIONS', '/v3/verifyNoSuchResource'));
  if (allowed.length === 0) return cannotTell(`needs writes: OPTIONS ${path} names no methods`);
  const words = `OPTIONS ${path} allows ${allowed.join(', ')}`;
  if (allowed.join() === elsewhere.join()) return cannotTell(`needs writes: ${words}, as for every path`);
  if (allowed.includes(method)) return holds(words);
  const others = changing.filter((one) => allowed.includes(one));
  const [only] = others;
  if (only === undefined || others.length > 1) return cannotTell(`${words}, but not ${method}; ask for the method`);
  return differs(`${words}, but not ${method}`, entry(name, { method: only, path }));
}

const readAllowed = ({ allow }: { readonly allow: string | null }) =>
  (allow ?? '')
    .split(',')
    .map((method) => method.trim())
    .filter((method) => method !== '' && method !== 'OPTIONS')
    .sort();
