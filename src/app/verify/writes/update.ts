import { type OperationName, operations, type TakenMember } from '../../../../config/operations.ts';
import { makeUndecodableError } from '../../../core/errors.ts';
import { buildWantedState } from '../../../sync/push/kinds/order/order-state.ts';
import { buildTakenChange, type TakenChange } from '../../../sync/push/kinds/order/taken-members.ts';
import { anyCode } from '../../../sync/push/payload/find-code.ts';
import { decodeWith } from '../../../warehouse/decoding/jsonapi.ts';
import { orderSchema } from '../../../warehouse/decoding/v3-orders.ts';
import { describeAnswer, readAttribute, readNumber, readRelated } from '../answer.ts';
import { cannotTell, differs, entry, type Finding, holds } from '../finding.ts';
import type { PlacedOrder, SharedOrder, WriteSession } from './session.ts';

const name = 'v3.orders.update' satisfies OperationName;
const methods = ['PATCH', 'PUT', 'POST'] as const;
const changedReference = 'verify-changed';
/** Earlier than every preferred shipping date, so that the order keeps its date. */
const anyDay = '1970-01-01';
const changedStreet = 'Changed Street';

/** Changes the reference of the order, with each method until one works. */
export async function checkUpdate({ order: { id } }: SharedOrder, session: WriteSession): Promise<Finding> {
  const { method: inUse, path } = session.service.operation(name);
  const tried: string[] = [];
  for (const method of new Set([inUse, ...methods])) {
    const before = await session.read(id);
    const answer = await session.service.ask(method, path, { path: { id }, json: buildBody(before) });
    const after = await session.read(id);
    const isChanged = readAttribute(after.resource, 'reference') === changedReference;
    tried.push(`${method} ${describeAnswer(answer)}${isChanged ? '' : ', unchanged'}`);
    if (!isChanged) continue;
    const lost = before.items.length - after.items.length;
    if (lost > 0) return differs(`${tried.join('; ')}, but the order lost ${lost} items; do not use order.update`);
    return method === inUse ? holds(tried.join('; ')) : differs(tried.join('; '), entry(name, { method, path }));
  }
  return cannotTell(`${tried.join('; ')}; ask for the method and the path`);
}

/**
 * Returns the body of an update as the outbox sends it: the whole state of the order, which stays on hold.
 * @throws WarehouseError if the order cannot be decoded
 */
function buildBody(
  order: PlacedOrder,
  taken: Awaited<ReturnType<typeof buildTakenChange>> = {},
  position: 'inside' | 'top' = 'inside',
) {
  const decoded = decodeWith(orderSchema, { ...order.resource });
  if ('problem' in decoded) throw makeUndecodableError(`the order: ${decoded.problem.path}: ${decoded.problem.reason}`);
  const change = { reference: changedReference, metadata: undefined };
  const { attributes } = buildWantedState(decoded.value, change, anyDay);
  const data = { id: order.id, type: 'order', attributes, ...taken.relationships };
  return position === 'top' ? { data, ...taken.included } : { data: { ...data, ...taken.included } };
}

/** Members of an order that an update may take, each with a change and a way to see it. */
const changes: Readonly<Partial<Record<TakenMember, { readonly list: string | null; readonly relationship: string }>>> =
  {
    deliveryAddress: { list: null, relationship: 'deliveryAddress' },
    billingAddress: { list: null, relationship: 'billingAddress' },
    shippingMethod: { list: 'mainShippingMethods', relationship: 'preferredShippingMethod' },
    orderType: { list: 'orderTypes', relationship: 'orderType' },
  };

/** Changes each further member of the order, and looks whether it changed. The pick-up point is not tried. */
export async function checkTakes(shared: SharedOrder, session: WriteSession): Promise<Finding> {
  const { takes: inUse = [], included: position = 'inside' } = session.service.operation(name);
  const tried: string[] = [];
  const wanted: TakenMember[] = inUse.filter((member) => changes[member] === undefined);
  let found = position;
  for (const member of Object.keys(changes) as TakenMember[]) {
    const trial = await tryChange(member, shared, session, found);
    tried.push(`${member}: ${trial.words}`);
    if (trial.takenAt !== null) found = trial.takenAt;
    if (trial.takenAt !== null || (!trial.isTold && inUse.includes(member))) wanted.push(member);
  }
  const isSame = wanted.length === inUse.length && wanted.every((member) => inUse.includes(member));
  if (isSame && found === position) return holds(tried.join('; '));
  const included = found === position ? {} : { included: found };
  return differs(tried.join('; '), entry(name, { takes: wanted, ...included }));
}

type Position = 'inside' | 'top';

/** The outcome of a change. `takenAt`: the position of `included` with which the service took it; null: it did not. */
interface Trial {
  readonly words: string;
  readonly takenAt: Position | null;
  readonly isTold: boolean;
}

async function tryChange(
  member: TakenMember,
  { order: { id }, payload }: SharedOrder,
  session: WriteSession,
  position: Position,
): Promise<Trial> {
  const before = await session.read(id);
  const { list = null, relationship = '' } = changes[member] ?? {};
  const [linked] = readRelated(before.resource, relationship);
  const other = list === null ? null : (await session.readSettingIds(list)).find((one) => one !== linked);
  if (other === undefined) return { words: 'not tried', takenAt: null, isTold: false };
  const change: TakenChange =
    other === null ? { [member]: { ...payload.deliveryAddress, street1: changedStreet } } : { [`${member}Id`]: other };
  const context = { codes: anyCode, operations, signal: new AbortController().signal };
  const taken = await buildTakenChange(change, context);
  const positions: Position[] = other === null ? [position, position === 'top' ? 'inside' : 'top'] : [position];
  const refusals: string[] = [];
  for (const takenAt of positions) {
    const answer = await session.service.call(name, { path: { id }, json: buildBody(before, taken, takenAt) });
    const after = await session.read(id);
    const [now] = readRelated(after.resource, relationship);
    const address = after.addresses.find((one) => readNumber(one.id) === now);
    const isChanged = other === null ? readAttribute(address, 'street1') === changedStreet : now === other;
    const words = `${describeAnswer(answer)}${other === null ? `, included ${takenAt}` : ''}`;
    if (isChanged) return { words: `${words}, changed`, takenAt, isTold: true };
    refusals.push(`${words}, unchanged`);
  }
  return { words: refusals.join(' and '), takenAt: null, isTold: true };
}
