/**
 * The checks that place, change and cancel orders.
 */

import { type Operation, type OperationName, operations, type TakenMember } from '../../../config/operations.ts';
import { optionalMembers } from '../../../config/optional-members.ts';
import { makeUndecodableError } from '../../core/errors.ts';
import type { OrderPayload } from '../../payloads/order.ts';
import { describeLoss, findLoss, listMembers } from '../../sync/push/kinds/order/order-loss.ts';
import { buildUpdate, buildWantedState } from '../../sync/push/kinds/order/order-state.ts';
import { buildTakenChange, type TakenChange } from '../../sync/push/kinds/order/taken-members.ts';
import { anyCode } from '../../sync/push/payload/find-code.ts';
import { order as orderFields } from '../../sync/streams/orders.ts';
import { decodeRow } from '../../warehouse/decoding/fields.ts';
import { describeAnswer, isDone, readAttribute, readNumber, readRelated } from './answer.ts';
import { type Check, cannotTell, differs, entry, type Finding, holds } from './check.ts';
import type { OrderOptions, PlacedOrder, SharedOrder, WriteSession } from './write-session.ts';

const noOrder = cannotTell('no order was placed');

/**
 * Returns the checks that write, in their order. They place orders on hold with a number that begins with `VERIFY-`. The
 * caller calls `cleanUp` of the session afterwards, whatever happens.
 */
export function createWriteChecks(session: WriteSession): readonly Check[] {
  let shared: SharedOrder | null = null;
  const withOrder = (check: (shared: SharedOrder, session: WriteSession) => Promise<Finding>) => () =>
    shared === null ? Promise.resolve(noOrder) : check(shared, session);
  return [
    {
      id: 'request-included',
      section: '7.9',
      assumption:
        '`included` of a request is inside `data`: of orders (also changed ones), returns (also replaced ones) and slips.',
      quoted: true,
      run: async () => {
        const placed = await placeFirst(session);
        shared = placed.shared;
        return placed.finding;
      },
    },
    {
      id: 'billing-address',
      section: '7.6',
      assumption: 'An order without a billing address is billed to its delivery address',
      quoted: true,
      run: withOrder(checkBilling),
    },
    {
      id: 'read-back',
      section: '7.5',
      assumption: 'An order is found by its number directly after it was placed.',
      run: withOrder(async ({ payload }) =>
        (await session.find(payload.externalOrderNumber)) === null
          ? differs('the order is not found yet; a lost answer takes longer to settle')
          : holds('the order is found'),
      ),
    },
    {
      id: 'number-characters',
      section: '7.5',
      assumption: 'An order is found by its number, whatever characters the number has.',
      run: withOrder(checkNumbers),
    },
    {
      id: 'number-unique',
      section: '7.1',
      assumption: 'A second order with the number of another is refused.',
      run: withOrder(checkUnique),
    },
    {
      id: 'route-v3.orders.update',
      section: '7.7',
      assumption: 'The method and the path of `v3.orders.update` are those of config/operations.ts.',
      replaces: 'route-v3.orders.update',
      run: withOrder(checkUpdate),
    },
    {
      id: 'update-takes',
      section: '7.7',
      assumption: 'An update takes attributes only, also a new order number.',
      quoted: true,
      run: withOrder(checkTakes),
    },
    {
      id: 'required-members',
      section: '7.9',
      assumption: 'The interface does not say that these members are required.',
      quoted: true,
      run: withOrder(checkOptional),
    },
    {
      id: 'item-cancel',
      section: '8.3',
      assumption: 'The attributes `{"quantity": 0}` cancel an order item.',
      quoted: true,
      replaces: 'route-v3.orderItems.cancel',
      run: withOrder(checkItemCancel),
    },
    {
      id: 'order-cancel',
      section: '7.8',
      assumption: 'DELETE /v3/orders/{id} cancels every item of an order that is not fulfilled.',
      run: withOrder(checkCancel),
    },
  ];
}

/** Places the first order: as the outbox does, and if that is refused, in the other forms. */
async function placeFirst(session: WriteSession): Promise<{ shared: SharedOrder | null; finding: Finding }> {
  const { included = 'inside', billingAddress = 'copy' } = session.service.operation('v3.orders.create');
  const otherPlace = included === 'inside' ? 'top' : 'inside';
  const otherBilling = billingAddress === 'copy' ? 'omit' : 'copy';
  const forms: Required<OrderOptions>[] = [
    { included, billingAddress },
    { included: otherPlace, billingAddress },
    { included, billingAddress: otherBilling },
    { included: otherPlace, billingAddress: otherBilling },
  ];
  const refusals: string[] = [];
  for (const options of forms) {
    const made = await session.makePayload();
    if ('problem' in made) return { shared: null, finding: cannotTell(made.problem) };
    const placed = await session.place(made.payload, made.orderTypeId, options);
    const problem = 'refused' in placed ? placed.refused : placed.order.items.length > 0 ? null : 'taken without items';
    const words = `included ${options.included}, billing address ${options.billingAddress}`;
    if ('refused' in placed || problem !== null) {
      refusals.push(`${words}: ${problem}`);
      continue;
    }
    const evidence = [...refusals, `${words}: taken with ${placed.order.items.length} items`].join('; ');
    const setting = entry('v3.orders.create', { included: options.included });
    const finding =
      options.included === included
        ? holds(evidence)
        : differs(`${evidence}; returns and slips were not tried, and may need the same`, setting);
    return { shared: { ...made, order: placed.order, options }, finding };
  }
  return { shared: null, finding: cannotTell(`every form was refused: ${refusals.join('; ')}`) };
}

/** Judges the billing address of the first order, and places an order in the other form to learn whether it is taken. */
async function checkBilling({ options, order }: SharedOrder, session: WriteSession): Promise<Finding> {
  const inUse = session.service.operation('v3.orders.create').billingAddress ?? 'copy';
  const took = options.billingAddress ?? 'copy';
  const words = `${describeBilling[took]}: taken, the order shows ${order.addresses.length} addresses`;
  if (took !== inUse)
    return differs(`${describeBilling[inUse]}: refused; ${words}`, entry('v3.orders.create', { billingAddress: took }));
  const made = await session.makePayload();
  if ('problem' in made) return holds(words);
  const other = took === 'copy' ? 'omit' : 'copy';
  const placed = await session.place(made.payload, made.orderTypeId, { ...options, billingAddress: other });
  return holds(`${words}; ${describeBilling[other]}: ${'refused' in placed ? placed.refused : 'taken, too'}`);
}

const describeBilling = { copy: 'with a copy of the delivery address', omit: 'without a billing address' } as const;

async function checkCancel({ order: { id } }: SharedOrder, session: WriteSession): Promise<Finding> {
  const answer = await session.service.call('v3.orders.cancel', { path: { id } });
  const { items } = await session.read(id);
  const open = items.filter((item) => readAttribute(item, 'quantity') !== 0).length;
  const words = `${describeAnswer(answer)}; ${open} of ${items.length} items are open`;
  return isDone(answer) && open === 0 ? holds(words) : differs(words);
}

/** Characters that a filter may confuse, as parts of an order number. */
const confusing: Readonly<Record<string, string>> = {
  'a comma': ',1',
  'a percent sign': '%41',
  'a plus sign': '+1',
  'white space': ' 1',
  'a letter outside ASCII': 'é',
  'letters of both cases': 'aA',
};

/** Places an order whose number has all these characters; if it is not found, one for each. */
async function checkNumbers(shared: SharedOrder, session: WriteSession): Promise<Finding> {
  const all = await tryNumber((number) => `0${number}${Object.values(confusing).join('')}`, shared, session);
  if (all === 'found') return holds('a number with all characters in question, and a leading zero, is found');
  const tried: string[] = [];
  for (const [name, text] of Object.entries(confusing))
    tried.push(`${name}: ${await tryNumber((number) => `${number}${text}`, shared, session)}`);
  tried.push(`a leading zero: ${await tryNumber((number) => `0${number}`, shared, session)}`);
  const words = `${tried.join('; ')}; an order that is not found is looked up in the list of its days`;
  return tried.some((one) => one.endsWith(': not found')) ? differs(words) : holds(words);
}

async function tryNumber(
  make: (number: string) => string,
  shared: SharedOrder,
  session: WriteSession,
): Promise<'found' | 'not found' | 'refused'> {
  const made = await session.makePayload();
  if ('problem' in made) return 'refused';
  const payload = { ...made.payload, externalOrderNumber: make(made.payload.externalOrderNumber) };
  const placed = await session.place(payload, made.orderTypeId, shared.options);
  if ('refused' in placed) return 'refused';
  return (await session.find(payload.externalOrderNumber)) === null ? 'not found' : 'found';
}

/** Places a second order with the number of the first. */
async function checkUnique({ payload, orderTypeId, options }: SharedOrder, session: WriteSession): Promise<Finding> {
  const placed = await session.place(payload, orderTypeId, options);
  return 'refused' in placed
    ? holds(placed.refused)
    : differs('a second order with the same number was taken: an order that is sent twice is shipped twice');
}

const updateName = 'v3.orders.update' satisfies OperationName;
const methods = ['PATCH', 'PUT', 'POST'] as const;
const changedReference = 'verify-changed';
/** Earlier than every preferred shipping date, so that the order keeps its date. */
const anyDay = '1970-01-01';
const changedStreet = 'Changed Street';

/**
 * Changes the reference of an order with each method until one works, and compares everything else. If the service erases
 * what is omitted, tries with another order whether it keeps what is sent back.
 */
async function checkUpdate(shared: SharedOrder, session: WriteSession): Promise<Finding> {
  const { method: inUse, path, sendsRelationships = false } = session.service.operation(updateName);
  const tried: string[] = [];
  for (const method of new Set([inUse, ...methods])) {
    const trial = await tryUpdate(method, path, shared.order.id, sendsRelationships, session);
    tried.push(`${method} ${trial.words}`);
    if (!trial.isChanged) continue;
    const route = method === inUse ? [] : [entry(updateName, { method, path })];
    if (trial.loss === null) return route.length === 0 ? holds(tried.join('; ')) : differs(tried.join('; '), ...route);
    if (sendsRelationships) return differs(`${tried.join('; ')}; do not use order.update`);
    const made = await session.makePayload();
    const placed = 'problem' in made ? null : await session.place(made.payload, made.orderTypeId, shared.options);
    if (placed === null || 'refused' in placed) return differs(`${tried.join('; ')}; do not use order.update`);
    const second = await tryUpdate(method, path, placed.order.id, true, session);
    tried.push(`with the relationships sent back: ${second.words}`);
    return second.isChanged && second.loss === null
      ? differs(tried.join('; '), entry(updateName, { method, path, sendsRelationships: true }))
      : differs(`${tried.join('; ')}; do not use order.update`);
  }
  return cannotTell(`${tried.join('; ')}; ask for the method and the path`);
}

/** Sends one update. `loss` says what it changed besides the reference. */
async function tryUpdate(
  method: Operation['method'],
  path: string,
  id: number,
  sendsRelationships: boolean,
  session: WriteSession,
): Promise<{ readonly words: string; readonly isChanged: boolean; readonly loss: string | null }> {
  const before = await session.read(id);
  const json = buildBody(before, undefined, { sendsRelationships });
  const answer = await session.service.ask(method, path, { path: { id }, json });
  const after = await session.read(id);
  const isChanged = readAttribute(after.resource, 'reference') === changedReference;
  const toMembers = ({ resource, items, addresses }: PlacedOrder) =>
    listMembers({ ...resource, included: [...items, ...addresses] });
  const loss = isChanged ? describeLoss(findLoss(toMembers(before), toMembers(after), ['reference'])) : null;
  const words = `${describeAnswer(answer)}${isChanged ? '' : ', unchanged'}${loss === null ? '' : `, but ${loss}`}`;
  return { words, isChanged, loss };
}

/**
 * Returns the body of an update as the outbox sends it: the whole state of the order, which stays on hold.
 * @throws WarehouseError if the order cannot be decoded
 */
function buildBody(
  order: PlacedOrder,
  taken: Awaited<ReturnType<typeof buildTakenChange>> | undefined,
  options: Pick<Operation, 'included' | 'sendsRelationships'>,
) {
  const decoded = decodeRow(orderFields, { ...order.resource });
  if ('problem' in decoded) throw makeUndecodableError(`the order: ${decoded.problem.path}: ${decoded.problem.reason}`);
  const change = { reference: changedReference, metadata: undefined };
  const { attributes } = buildWantedState(decoded.row, change, anyDay);
  return buildUpdate({ ...order.resource, id: order.id }, { attributes, ...taken }, options);
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
async function checkTakes(shared: SharedOrder, session: WriteSession): Promise<Finding> {
  const { takes: inUse = [], included: position = 'inside' } = session.service.operation(updateName);
  const tried: string[] = [];
  const wanted: TakenMember[] = inUse.filter((member) => changes[member] === undefined);
  let found = position;
  for (const member of Object.keys(changes) as TakenMember[]) {
    const trial = await tryChange(member, shared, session, found);
    tried.push(`${member}: ${trial.words}`);
    if (trial.takenAt !== null) found = trial.takenAt;
    if (trial.takenAt !== null || (!trial.isTried && inUse.includes(member))) wanted.push(member);
  }
  const isSame = wanted.length === inUse.length && wanted.every((member) => inUse.includes(member));
  if (isSame && found === position) return holds(tried.join('; '));
  const included = found === position ? {} : { included: found };
  return differs(tried.join('; '), entry(updateName, { takes: wanted, ...included }));
}

type Position = 'inside' | 'top';

/** The outcome of a change. `takenAt`: the position of `included` with which the service took it; null: it did not. */
interface Trial {
  readonly words: string;
  readonly takenAt: Position | null;
  readonly isTried: boolean;
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
  if (other === undefined) return { words: 'not tried', takenAt: null, isTried: false };
  const change: TakenChange =
    other === null ? { [member]: { ...payload.deliveryAddress, street1: changedStreet } } : { [`${member}Id`]: other };
  const context = { codes: anyCode, operations, signal: new AbortController().signal };
  const taken = await buildTakenChange(change, context);
  const positions: Position[] = other === null ? [position, position === 'top' ? 'inside' : 'top'] : [position];
  const refusals: string[] = [];
  for (const takenAt of positions) {
    const options = { ...session.service.operation(updateName), included: takenAt };
    const answer = await session.service.call(updateName, { path: { id }, json: buildBody(before, taken, options) });
    const after = await session.read(id);
    const [now] = readRelated(after.resource, relationship);
    const address = after.addresses.find((one) => readNumber(one.id) === now);
    const isChanged = other === null ? readAttribute(address, 'street1') === changedStreet : now === other;
    const words = `${describeAnswer(answer)}${other === null ? `, included ${takenAt}` : ''}`;
    if (isChanged) return { words: `${words}, changed`, takenAt, isTried: true };
    refusals.push(`${words}, unchanged`);
  }
  return { words: refusals.join(' and '), takenAt: null, isTried: true };
}

const createName = 'v3.orders.create';
/** The members that can be left out of an order that still names what is sent where. */
const members = optionalMembers[createName].filter(
  (member) => member === 'locale' || member.startsWith('deliveryAddress.'),
);

/** Places one more order for each member that we require, without that member. */
async function checkOptional(shared: SharedOrder, session: WriteSession): Promise<Finding> {
  const inUse: readonly string[] = session.service.operation(createName).optional ?? [];
  const tried: string[] = [];
  const isNeeded = new Map<string, boolean>();
  for (const member of members) {
    const made = await session.makePayload();
    if ('problem' in made) return cannotTell(made.problem);
    const placed = await session.place(omit(made.payload, member), made.orderTypeId, shared.options);
    isNeeded.set(member, 'refused' in placed);
    tried.push(`without ${member}: ${'refused' in placed ? placed.refused : 'taken'}`);
  }
  const untried = inUse.filter((member) => !isNeeded.has(member));
  const wanted = [...untried, ...members.filter((member) => !isNeeded.get(member))];
  const isSame = wanted.length === inUse.length && wanted.every((member) => inUse.includes(member));
  return isSame ? holds(tried.join('; ')) : differs(tried.join('; '), entry(createName, { optional: wanted }));
}

/** Returns the payload without one member. The billing address, which is a copy, lacks it, too. */
function omit(payload: OrderPayload, member: string): OrderPayload {
  const [first = '', second] = member.split('.');
  const without = <T extends object>(whole: T, left: string) =>
    Object.fromEntries(Object.entries(whole).filter(([key]) => key !== left)) as T;
  if (second === undefined) return without(payload, first);
  return { ...payload, deliveryAddress: without(payload.deliveryAddress, second) };
}

const itemCancelName = 'v3.orderItems.cancel';
type Form = Required<Pick<Operation, 'method' | 'path' | 'attributes'>>;

/** Cancels the first item of the order, in each form until one works. */
async function checkItemCancel({ order }: SharedOrder, session: WriteSession): Promise<Finding> {
  const id = readNumber(order.items[0]?.id);
  if (id === null) return cannotTell('the order has no item');
  const { method, path, attributes = { quantity: 0 } } = session.service.operation(itemCancelName);
  const inUse: Form = { method, path, attributes };
  const tried: string[] = [];
  for (const form of [inUse, ...listForms(inUse)]) {
    const json = { data: { id, type: 'orderItem', attributes: form.attributes } };
    const answer = await session.service.ask(form.method, form.path, { path: { id }, json });
    const { items } = await session.read(order.id);
    const item = items.find((one) => readNumber(one.id) === id);
    const isCancelled = readAttribute(item, 'quantity') === 0;
    tried.push(`${form.method} with ${Object.keys(form.attributes).join(', ')}: ${describeAnswer(answer)}`);
    if (!isCancelled) continue;
    if (form === inUse) return holds(tried.join('; '));
    const isSameForm = JSON.stringify(form.attributes) === JSON.stringify(attributes);
    const { attributes: _, ...route } = form;
    return differs(tried.join('; '), entry(itemCancelName, isSameForm ? route : form));
  }
  return cannotTell(`${tried.join('; ')}; none cancels the item; ask for the method, the path and the attributes`);
}

function listForms(inUse: Form): Form[] {
  const bodies = [inUse.attributes, { quantity: 0 }, { cancelled: true }, { status: 'CANCELLED' }];
  const routes = (['PATCH', 'PUT', 'DELETE'] as const).map((method) => ({ method, path: '/v3/orderItems/{id}' }));
  const forms = routes.flatMap((route) => bodies.map((attributes) => ({ ...route, attributes })));
  const seen = new Set([JSON.stringify(inUse)]);
  return forms.filter((form) => {
    const text = JSON.stringify(form);
    return seen.has(text) ? false : seen.add(text) !== undefined;
  });
}
