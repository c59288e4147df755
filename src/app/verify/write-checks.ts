import { randomBytes } from 'node:crypto';
import { type Operation, type OperationName, operations, type TakenMember } from '../../../config/operations.ts';
import { optionalMembers } from '../../../config/optional-members.ts';
import { CodedError, describeError, makeUndecodableError, WarehouseError } from '../../core/errors.ts';
import { isObject } from '../../core/json.ts';
import { removeQuotes } from '../../core/quote.ts';
import { addDays, toUtcDay } from '../../core/time.ts';
import type { OrderPayload } from '../../payloads/order.ts';
import { describeLoss, findLoss, listMembers } from '../../sync/push/kinds/order/order-loss.ts';
import { buildOrderDocument } from '../../sync/push/kinds/order/order-payload.ts';
import { buildUpdate, buildWantedState } from '../../sync/push/kinds/order/order-state.ts';
import { buildTakenChange, type TakenChange } from '../../sync/push/kinds/order/taken-members.ts';
import { anyCode } from '../../sync/push/payload/find-code.ts';
import { order as orderFields } from '../../sync/streams/orders.ts';
import { decodeRow } from '../../warehouse/decoding/fields.ts';
import type { JsonAnswer } from '../../warehouse/transport/raw-client.ts';
import {
  type Check,
  cannotTell,
  defineCheck,
  differs,
  entry,
  type Finding,
  holds,
  quoteCheck,
  toRouteAssumption,
} from './check.ts';
import {
  describeAnswer,
  isDone,
  type JsonObject,
  readAttribute,
  readData,
  readEnvelope,
  readIncluded,
  readNumber,
  readRelated,
  type Service,
} from './service.ts';

/** An order that the service took, as it is read back. */
interface PlacedOrder {
  readonly id: number;
  readonly resource: JsonObject;
  readonly items: readonly JsonObject[];
  readonly addresses: readonly JsonObject[];
}

/** The assumptions about the body of an order that the service may not share. */
type OrderOptions = Pick<Operation, 'included' | 'billingAddress'>;

/** The order that the checks share. */
interface SharedOrder {
  readonly payload: OrderPayload;
  readonly orderTypeId: number;
  readonly order: PlacedOrder;
  /** How the service took the order. */
  readonly options: OrderOptions;
}

/** The outcome of an order: it was taken, or refused with an answer. */
type Placement = { readonly order: PlacedOrder } | { readonly refused: string };

/** Days until the preferred shipping date of our orders, which are on hold, too. */
const shippingDays = 60;
const include = 'orderItems,deliveryAddress,billingAddress';

interface AskedOrder {
  readonly number: string;
  state: number | 'refused' | 'unknown';
}

/** The orders that are placed to check what the service takes. Each is on hold, and is cancelled at the end. */
export class WriteSession {
  readonly service: Service;
  readonly #givenSku: string | null;
  /** The orders that were asked for, each with its id, or whether it was refused or is not known. */
  readonly #asked: AskedOrder[] = [];

  /** @param sku article of the orders; null: one that the client's orders name */
  constructor(service: Service, sku: string | null) {
    this.service = service;
    this.#givenSku = sku;
  }

  /** Returns the payload of an order on hold, or the reason why there is none. */
  async makePayload(): Promise<{ payload: OrderPayload; orderTypeId: number } | { problem: string }> {
    const sku = this.#givenSku ?? (await this.service.findSku());
    if (sku === null) return { problem: 'no order or shipment names an article; name one with --sku' };
    const orderTypeId = (await this.readSettingIds('orderTypes'))[0];
    if (orderTypeId === undefined) return { problem: 'the service lists have no order types' };
    const { dateMs } = await this.service.call('common.status.get');
    const line = { sku, quantity: 1 };
    const deliveryAddress = {
      lastName: 'Verify Do Not Ship',
      street1: 'Keizersgracht',
      houseNumber: '1',
      postcode: '1015CJ',
      city: 'Amsterdam',
      countryCode: 'NL',
    };
    const externalOrderNumber = `VERIFY-${randomBytes(5).toString('hex')}`;
    const preferredShippingDate = addDays(toUtcDay(dateMs ?? Date.now()), shippingDays);
    const fixed = { locale: 'nl-NL', reference: 'verify', onHold: true, preferredShippingDate };
    return { payload: { externalOrderNumber, ...fixed, items: [line, line], deliveryAddress }, orderTypeId };
  }

  /** Places one more order, with a payload that `change` may change. Returns why, if there is none. */
  async placeAnother(options: OrderOptions, change = (payload: OrderPayload) => payload): Promise<Placement> {
    const made = await this.makePayload();
    return 'problem' in made ? { refused: made.problem } : this.place(change(made.payload), made.orderTypeId, options);
  }

  /** Returns the ids of a service list. */
  async readSettingIds(list: string): Promise<number[]> {
    const settings = readEnvelope(await this.service.call('common.settings.get'))?.result;
    const entries = isObject(settings) && Array.isArray(settings[list]) ? settings[list] : [];
    return entries.flatMap((one) => (isObject(one) ? (readNumber(one.id) ?? []) : []));
  }

  /** Places an order once. If its outcome is unknown, it is looked up by its number, as the outbox does. */
  async place(payload: OrderPayload, orderTypeId: number, options: OrderOptions): Promise<Placement> {
    const json = buildOrderDocument(payload, { orderTypeId, shippingMethodId: null }, options);
    const { externalOrderNumber: number } = payload;
    const asked: AskedOrder = { number, state: 'unknown' };
    this.#asked.push(asked);
    const answer = await this.service.call('v3.orders.create', { json }).catch((error: unknown) => {
      if (error instanceof WarehouseError) return error;
      throw error;
    });
    const isAnswer = !(answer instanceof WarehouseError);
    if (isAnswer && !isDone(answer)) {
      asked.state = 'refused';
      return { refused: describeAnswer(answer) };
    }
    const id = (isAnswer ? readNumber((readData(answer) ?? [])[0]?.id) : null) ?? (await this.find(number));
    if (id !== null) {
      asked.state = id;
      return { order: await this.read(id) };
    }
    if (isAnswer) return { refused: `${describeAnswer(answer)}, but no order has the number` };
    if (answer.status !== undefined) return { refused: `${answer.status}, and no order has the number` };
    throw answer;
  }

  /** Returns the id of the order with a number; null if there is none. */
  async find(number: string): Promise<number | null> {
    const query = { 'filter[externalOrderNumber][in]': [number] };
    const rows = readData(await this.service.call('v3.orders.list', { query })) ?? [];
    return readNumber(rows.find((row) => readAttribute(row, 'externalOrderNumber') === number)?.id);
  }

  /** Reads an order with its items and addresses. */
  async read(id: number): Promise<PlacedOrder> {
    const answer = await this.service.call('v3.orders.get', { path: { id }, query: { include } });
    const [resource] = readData(answer) ?? [];
    if (resource === undefined) throw makeReadError(answer);
    const { inside, top } = readIncluded(answer);
    const included = [...inside, ...top];
    const select = (type: string) => included.filter((one) => one.type === type);
    return { id, resource, items: select('orderItem'), addresses: select('address') };
  }

  /** Cancels every order that was placed. Returns what remains at the service, in words. */
  async cleanUp(): Promise<string[]> {
    const left: string[] = [];
    for (const { number, state } of this.#asked) {
      if (state === 'refused') continue;
      const words = await this.#cancel(number, state === 'unknown' ? null : state).catch((error: unknown) => {
        if (!(error instanceof CodedError)) throw error;
        return `${number} may exist and could not be cancelled (${removeQuotes(describeError(error))}); cancel it by hand`;
      });
      left.push(words);
    }
    return left;
  }

  async #cancel(number: string, known: number | null): Promise<string> {
    const id = known ?? (await this.find(number));
    if (id === null) return `${number}: no answer said whether it exists; it is not listed now; look again later`;
    const answer = await this.service.call('v3.orders.cancel', { path: { id } });
    const { items } = await this.read(id);
    const open = items.filter((item) => readAttribute(item, 'quantity') !== 0).length;
    if (open === 0) return `${number} (id ${id}) is cancelled; the service keeps it in its list`;
    return `${number} (id ${id}) still has ${open} open items, as DELETE answered ${describeAnswer(answer)}; cancel it by hand`;
  }
}

function makeReadError(answer: JsonAnswer): CodedError {
  return new CodedError('undecodable', `an order that was placed cannot be read: ${describeAnswer(answer)}`);
}

const noOrder = cannotTell('no order was placed');

/** Checks the first order, and may place others. */
type OrderCheck = (shared: SharedOrder, session: WriteSession) => Promise<Finding>;

/** The checks of an order that was placed, in their order. */
const orderChecks: readonly (readonly [string, string, string, OrderCheck, Pick<Check, 'quoted' | 'replaces'>?])[] = [
  [
    'billing-address',
    '7.6',
    'An order without a billing address is billed to its delivery address',
    checkBilling,
    { quoted: true },
  ],
  ['read-back', '7.5', 'An order is found by its number directly after it was placed.', checkReadBack],
  ['number-characters', '7.5', 'An order is found by its number, whatever characters the number has.', checkNumbers],
  ['number-unique', '7.1', 'A second order with the number of another is refused.', checkUnique],
  [
    'route-v3.orders.update',
    '7.7',
    toRouteAssumption('v3.orders.update'),
    checkUpdate,
    { replaces: 'route-v3.orders.update' },
  ],
  ['update-takes', '7.7', 'An update takes attributes only, also a new order number.', checkTakes, { quoted: true }],
  [
    'required-members',
    '7.9',
    'The interface does not say that these members are required.',
    checkOptional,
    { quoted: true },
  ],
  [
    'item-cancel',
    '8.3',
    'The attributes `{"quantity": 0}` cancel an order item.',
    checkItemCancel,
    { quoted: true, replaces: 'route-v3.orderItems.cancel' },
  ],
  ['order-cancel', '7.8', 'DELETE /v3/orders/{id} cancels every item of an order that is not fulfilled.', checkCancel],
];

/**
 * Returns the checks that write. They place orders on hold with a number that begins with `VERIFY-`; the caller calls
 * `cleanUp` of the session afterwards, whatever happens.
 */
export function createWriteChecks(session: WriteSession): readonly Check[] {
  let shared: SharedOrder | null = null;
  const assumption =
    '`included` of a request is inside `data`: of orders (also changed ones), returns (also replaced ones) and slips.';
  const first = quoteCheck('request-included', '7.9', assumption, async () => {
    const placed = await placeFirst(session);
    shared = placed.shared;
    return placed.finding;
  });
  const others = orderChecks.map(([id, section, words, check, more]) => ({
    ...defineCheck(id, section, words, async () => (shared === null ? noOrder : check(shared, session))),
    ...more,
  }));
  return [first, ...others];
}

async function checkReadBack({ payload }: SharedOrder, session: WriteSession): Promise<Finding> {
  return (await session.find(payload.externalOrderNumber)) === null
    ? differs('the order is not found yet; a lost answer takes longer to settle')
    : holds('the order is found');
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
  const other = took === 'copy' ? 'omit' : 'copy';
  const placed = await session.placeAnother({ ...options, billingAddress: other });
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
  let number = '';
  const placed = await session.placeAnother(shared.options, (payload) => {
    number = make(payload.externalOrderNumber);
    return { ...payload, externalOrderNumber: number };
  });
  if ('refused' in placed) return 'refused';
  return (await session.find(number)) === null ? 'not found' : 'found';
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

/** Changes the reference of an order with each method until one works, and compares everything else. */
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
    const placed = await session.placeAnother(shared.options);
    if ('refused' in placed) return differs(`${tried.join('; ')}; do not use order.update`);
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

/** Returns the body of an update as the outbox sends it: the whole state of the order, which stays on hold. */
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
    const placed = await session.placeAnother(shared.options, (payload) => omit(payload, member));
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
