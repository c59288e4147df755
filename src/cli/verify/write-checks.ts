import { isDeepStrictEqual } from 'node:util';
import {
  type Operation,
  type OperationName,
  operations,
  type TakenMember,
} from '../../../config/operations.ts';
import { optionalMembers } from '../../../config/optional-members.ts';
import { makeUndecodableError } from '../../core/errors.ts';
import { order as orderFields } from '../../pull/streams/orders.ts';
import { toAttachmentAttributes } from '../../push/kinds/order/new-order.ts';
import { describeLoss, findLoss, listMembers } from '../../push/kinds/order/order-loss.ts';
import type { OrderPayload } from '../../push/kinds/order/order-payload.ts';
import { buildUpdate, buildWantedState } from '../../push/kinds/order/order-state.ts';
import { buildTakenChange, type TakenChange } from '../../push/kinds/order/order-update.ts';
import { anyCode } from '../../push/setting-codes.ts';
import { decodeRow } from '../../service/decoding/fields.ts';
import {
  type Check,
  cannotTell,
  defineCheck,
  defineRouteCheck,
  entry,
  promiseDiffers,
  promiseHolds,
  quoteCheck,
  tryForms,
  type VerifyResult,
} from './check.ts';
import {
  describeAnswer,
  findDropped,
  isDone,
  isNoRoute,
  readAttribute,
  readData,
  readEnvelope,
  readNumber,
  readRelated,
} from './service.ts';
import {
  countOpen,
  type OrderOptions,
  type ReadBack,
  selectType,
  type WriteSession,
} from './write-session.ts';

/** The order that the checks share. */
interface SharedOrder {
  readonly payload: OrderPayload;
  readonly orderTypeId: number;
  readonly order: ReadBack;
  /** How the service took the order. */
  readonly options: OrderOptions;
}

const createName = 'v3.orders.create';
const updateName = 'v3.orders.update' satisfies OperationName;
const itemCancelName = 'v3.orderItems.cancel';
const releaseName = 'v2.order.release';
const attachmentName = 'v3.orderAttachments.create';

/**
 * Returns the checks that place orders on hold, with a number that begins with `VERIFY-`. The
 * caller calls `cleanUp` of the session afterwards, whatever happens.
 */
export function createOrderChecks(session: WriteSession): readonly Check[] {
  let shared: SharedOrder | null = null;
  const first = async () => {
    const placed = await placeFirst(session);
    shared = placed.shared;
    return placed.finding;
  };
  const on =
    (check: (shared: SharedOrder, session: WriteSession) => Promise<VerifyResult>) => async () =>
      shared === null ? cannotTell('no order was placed') : check(shared, session);
  return [...createPlacingChecks(first, on), ...createChangeChecks(on)];
}

/** Makes the check of a part of the shared order. */
type OnShared = (
  check: (shared: SharedOrder, session: WriteSession) => Promise<VerifyResult>,
) => () => Promise<VerifyResult>;

function createPlacingChecks(first: () => Promise<VerifyResult>, on: OnShared): readonly Check[] {
  return [
    quoteCheck(
      'request-included',
      '7.9',
      '`included` of a request is inside `data`: of orders (also changed ones), ' +
        'returns (also replaced ones) and slips.',
      first,
    ),
    quoteCheck(
      'billing-address',
      '7.6',
      'An order without a billing address is billed to its delivery address',
      on(checkBilling),
    ),
    defineCheck(
      'pick-up-point',
      '7.6',
      'An order keeps the pick-up point that is sent with it.',
      on(checkPickUpPoint),
    ),
    defineCheck(
      'read-back',
      '7.5',
      'An order is found by its number directly after it was placed.',
      on(checkReadBack),
    ),
    defineCheck(
      'number-characters',
      '7.5',
      'An order is found by its number, whatever characters the number has.',
      on(checkNumbers),
    ),
    defineCheck(
      'number-unique',
      '7.1',
      'A second order with the number of another is refused.',
      on(checkUnique),
    ),
  ];
}

function createChangeChecks(on: OnShared): readonly Check[] {
  return [
    defineRouteCheck(updateName, '7.7', on(checkUpdate)),
    quoteCheck(
      'update-takes',
      '7.7',
      'An update takes attributes only, also a new order number.',
      on(checkTakes),
    ),
    quoteCheck(
      'required-members',
      '7.9',
      'The interface does not say that these members are required.',
      on(checkOptional),
    ),
    defineRouteCheck(releaseName, '15.1', on(checkRelease)),
    quoteCheck(
      'attachment',
      '9.3',
      'The content of an attachment is its attribute `content`, in base64',
      on(checkAttachment),
    ),
    quoteCheck(
      'item-cancel',
      '8.3',
      'The attributes `{"quantity": 0}` cancel an order item.',
      on(checkItemCancel),
    ),
    defineCheck(
      'order-cancel',
      '7.8',
      'DELETE /v3/orders/{id} cancels every item of an order that is not fulfilled.',
      on(checkCancel),
    ),
  ];
}

async function checkReadBack(
  { payload }: SharedOrder,
  session: WriteSession,
): Promise<VerifyResult> {
  return (await session.find(payload.externalOrderNumber)) === null
    ? promiseDiffers('the order is not found yet; a lost answer takes longer to settle')
    : promiseHolds('the order is found');
}

/** Places the first order: as the outbox does, and if that is refused, in the other forms. */
async function placeFirst(
  session: WriteSession,
): Promise<{ shared: SharedOrder | null; finding: VerifyResult }> {
  const { included = 'inside', billingAddress = 'copy' } = session.service.operation(createName);
  const places = [included, included === 'inside' ? 'top' : 'inside'] as const;
  const billings = [billingAddress, billingAddress === 'copy' ? 'omit' : 'copy'] as const;
  const forms = billings.flatMap((billing) =>
    places.map((place) => ({ included: place, billingAddress: billing })),
  );
  let shared: SharedOrder | null = null;
  const attempt = async (options: Required<OrderOptions>) => {
    const plan = await session.planOrder();
    const placed = await session.place(plan, options);
    const items = 'refused' in placed ? 0 : selectType(placed.order, 'orderItem').length;
    if ('order' in placed && items > 0) shared = { ...plan, order: placed.order, options };
    const outcome = 'refused' in placed ? placed.refused : `taken with ${items} items`;
    const form = `included ${options.included}, billing address ${options.billingAddress}`;
    const words = `${form}: ${outcome}`;
    return { works: items > 0, words };
  };
  const finding = await tryForms(
    forms,
    attempt,
    (form) => entry(createName, { included: form.included }),
    'no order can be placed',
  );
  const place = (shared as SharedOrder | null)?.options.included;
  // The billing address has a check of its own.
  if (place === undefined || place === included)
    return { shared, finding: place ? promiseHolds(finding.evidence) : finding };
  // An update is taken to have the same form.
  return {
    shared,
    finding: promiseDiffers(
      finding.evidence,
      ...finding.settings,
      entry(updateName, { included: place }),
    ),
  };
}

/**
 * Judges the billing address of the first order, and places an order in the other form to learn
 * whether it is taken.
 */
async function checkBilling(
  { options, order }: SharedOrder,
  session: WriteSession,
): Promise<VerifyResult> {
  const inUse = session.service.operation(createName).billingAddress ?? 'copy';
  const took = options.billingAddress ?? 'copy';
  const words =
    `${describeBilling[took]}: ` +
    `taken, the order shows ${selectType(order, 'address').length} addresses`;
  if (took !== inUse)
    return promiseDiffers(
      `${describeBilling[inUse]}: refused; ${words}`,
      entry(createName, { billingAddress: took }),
    );
  const other = took === 'copy' ? 'omit' : 'copy';
  const placed = await session.placeAnother({ ...options, billingAddress: other });
  return promiseHolds(
    `${words}; ${describeBilling[other]}: ${'refused' in placed ? placed.refused : 'taken, too'}`,
  );
}

const describeBilling = {
  copy: 'with a copy of the delivery address',
  omit: 'without a billing address',
} as const;

const pickUpPoint = {
  name: 'Verify',
  street1: 'Keizersgracht',
  houseNumber: '1',
  postcode: '1015CJ',
  city: 'Amsterdam',
  countryCode: 'NL',
};

/** Places an order with a pick-up point, and compares it with the one that the order shows. */
async function checkPickUpPoint(
  { options }: SharedOrder,
  session: WriteSession,
): Promise<VerifyResult> {
  const placed = await session.placeAnother(options, (payload) => ({ ...payload, pickUpPoint }));
  const sent = `with ${Object.keys(pickUpPoint).join(', ')}`;
  if ('refused' in placed)
    return cannotTell(`${sent}: ${placed.refused}; ask which members a pick-up point has`);
  const [shown] = selectType(placed.order, 'pickUpPoint');
  if (shown === undefined)
    return promiseDiffers(`${sent}: taken, but the order shows no pick-up point`);
  const dropped = findDropped({ attributes: pickUpPoint }, shown);
  return dropped.length === 0
    ? promiseHolds(`${sent}: taken, and shown as sent`)
    : promiseDiffers(
        `${sent}: taken, but not shown as sent: ${dropped.join(', ')}; ` +
          'ask which members a pick-up point has',
      );
}

/** Releases an order on hold, looks whether it is, and cancels it at once. */
async function checkRelease(
  { options }: SharedOrder,
  session: WriteSession,
): Promise<VerifyResult> {
  const placed = await session.placeAnother(options);
  if ('refused' in placed) return cannotTell(`an order on hold: ${placed.refused}`);
  const { id, resource } = placed.order;
  const externalOrderNumber = readAttribute(resource, 'externalOrderNumber');
  const answer = await session.service.call(releaseName, { json: { externalOrderNumber } });
  const after = await session.read(id);
  await session.service.call('v3.orders.cancel', { path: { id } });
  const isReleased = readAttribute(after.resource, 'onHold') === false;
  const loss = describeLoss(findLoss(toMembers(placed.order), toMembers(after), ['onHold']));
  const state = isReleased ? 'false' : 'not false';
  const lost = loss === null ? '' : `, but ${loss}`;
  const words = `${describeAnswer(answer)}; onHold is ${state}${lost}`;
  if (isReleased && loss === null && readEnvelope(answer)?.isOk) return promiseHolds(words);
  return isNoRoute(answer)
    ? cannotTell(`${words}; ask for the method and the path`)
    : promiseDiffers(words);
}

/** Names for the content of an attachment, the most likely first. */
const contentMembers = ['content', 'data', 'document', 'file', 'fileContent', 'body'];
const filename = 'verify.pdf';

/**
 * Adds a document that is no pdf, which must be refused, and a pdf, which must be taken, with each
 * name of the content until both are true. No answer shows the content, so only this proves that
 * the service reads it.
 */
async function checkAttachment(
  { order, payload }: SharedOrder,
  session: WriteSession,
): Promise<VerifyResult> {
  const { contentMember: inUse = 'content' } = session.service.operation(attachmentName);
  const pdf = await writePdf();
  const add = async (contentMember: string, content: string) => {
    const attributes = toAttachmentAttributes(
      payload.externalOrderNumber,
      { filename, content },
      { contentMember },
    );
    const relationships = { order: { data: { id: order.id, type: 'order' } } };
    const data = { type: 'orderAttachment', attributes, relationships };
    const answer = await session.service.call(attachmentName, { json: { data } });
    const dropped = findDropped({ attributes, relationships }, (readData(answer) ?? [])[0]);
    return { answer, dropped: dropped.filter((name) => name !== contentMember) };
  };
  const attempt = async (member: string) => {
    const wrong = await add(member, Buffer.from('no pdf').toString('base64'));
    const right = await add(member, pdf);
    const lacks = isDone(right.answer) ? right.dropped : [];
    const words =
      `${member}: no pdf ${describeAnswer(wrong.answer)}, ` +
      `a pdf ${describeAnswer(right.answer)}`;
    const works = !isDone(wrong.answer) && isDone(right.answer) && lacks.length === 0;
    const shown = lacks.length === 0 ? '' : `, not shown as sent: ${lacks.join(', ')}`;
    return { works, words: `${words}${shown}`, isTaken: isDone(right.answer) };
  };
  const forms = [...new Set([inUse, ...contentMembers])];
  const advice = 'ask for the member; attachments need an arrangement with the account manager';
  return tryForms(
    forms,
    attempt,
    (contentMember) => entry(attachmentName, { contentMember }),
    advice,
  );
}

/** Returns a pdf with one empty page of A4, in base64. */
async function writePdf(): Promise<string> {
  const { PDFDocument, PageSizes } = await import('@cantoo/pdf-lib');
  const document = await PDFDocument.create({ updateMetadata: false });
  document.addPage(PageSizes.A4);
  return document.saveAsBase64();
}

async function checkCancel(
  { order: { id } }: SharedOrder,
  session: WriteSession,
): Promise<VerifyResult> {
  const answer = await session.service.call('v3.orders.cancel', { path: { id } });
  const open = countOpen(await session.read(id));
  const words = `${describeAnswer(answer)}; ${open} items are open`;
  return isDone(answer) && open === 0 ? promiseHolds(words) : promiseDiffers(words);
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
async function checkNumbers(shared: SharedOrder, session: WriteSession): Promise<VerifyResult> {
  const all = await tryNumber(
    (number) => `0${number}${Object.values(confusing).join('')}`,
    shared,
    session,
  );
  if (all === 'found')
    return promiseHolds('a number with all characters in question, and a leading zero, is found');
  const tried: string[] = [];
  for (const [name, text] of Object.entries(confusing))
    tried.push(`${name}: ${await tryNumber((number) => `${number}${text}`, shared, session)}`);
  tried.push(`a leading zero: ${await tryNumber((number) => `0${number}`, shared, session)}`);
  const found = tried.join('; ');
  const words = `${found}; an order that is not found is looked up in the list of its days`;
  return tried.some((one) => one.endsWith(': not found'))
    ? promiseDiffers(words)
    : promiseHolds(words);
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
async function checkUnique(shared: SharedOrder, session: WriteSession): Promise<VerifyResult> {
  const placed = await session.place(shared, shared.options);
  return 'refused' in placed
    ? promiseHolds(placed.refused)
    : promiseDiffers(
        'a second order with the same number was taken: ' +
          'an order that is sent twice is shipped twice',
      );
}

const methods = ['PATCH', 'PUT', 'POST'] as const;
const changedReference = 'verify-changed';
/** Earlier than every preferred shipping date, so that the order keeps its date. */
const anyDay = '1970-01-01';
const changedStreet = 'Changed Street';

/**
 * Changes the reference of an order with each method until one changes nothing else. After a loss,
 * tries the method with the relationships sent back, on another order.
 */
async function checkUpdate(shared: SharedOrder, session: WriteSession): Promise<VerifyResult> {
  const {
    method: inUse,
    path,
    sendsRelationships: sends = false,
  } = session.service.operation(updateName);
  const forms = [...new Set([inUse, ...methods])].flatMap((method) =>
    [...new Set([sends, true])].map((sendsRelationships) => ({ method, sendsRelationships })),
  );
  let { id } = shared.order;
  let hasLost = false;
  const attempt = async ({ method, sendsRelationships }: (typeof forms)[number]) => {
    if (sendsRelationships !== sends && !hasLost) return { works: false, words: '' };
    if (hasLost) {
      const placed = await session.placeAnother(shared.options);
      if ('refused' in placed) return { works: false, words: `another order: ${placed.refused}` };
      id = placed.order.id;
    }
    const before = await session.read(id);
    const json = buildBody(before, undefined, { sendsRelationships });
    const answer = await session.service.ask(method, path, { path: { id }, json });
    const after = await session.read(id);
    const isChanged = readAttribute(after.resource, 'reference') === changedReference;
    const loss = isChanged
      ? describeLoss(findLoss(toMembers(before), toMembers(after), ['reference']))
      : null;
    hasLost = loss !== null;
    const outcome = isChanged ? (loss === null ? '' : `, but ${loss}`) : ', unchanged';
    const words =
      `${method}${sendsRelationships ? ' with the relationships' : ''} ` +
      `${describeAnswer(answer)}${outcome}`;
    return { works: isChanged && !hasLost, isTaken: hasLost, words };
  };
  const toSetting = ({ method, sendsRelationships }: (typeof forms)[number]) =>
    entry(updateName, {
      method,
      path,
      ...(sendsRelationships === sends ? {} : { sendsRelationships }),
    });
  return tryForms(
    forms,
    attempt,
    toSetting,
    'do not use order.update; ask for the method and the path',
  );
}

const toMembers = ({ resource, included }: ReadBack) =>
  listMembers({ ...resource, included: [...included] });

/**
 * Returns the body of an update as the outbox sends it: the whole state of the order, which stays
 * on hold.
 */
function buildBody(
  order: ReadBack,
  taken: Awaited<ReturnType<typeof buildTakenChange>> | undefined,
  options: Pick<Operation, 'included' | 'sendsRelationships'>,
) {
  const decoded = decodeRow(orderFields, { ...order.resource });
  if ('problem' in decoded)
    throw makeUndecodableError(`the order: ${decoded.problem.path}: ${decoded.problem.reason}`);
  const change = { reference: changedReference, metadata: undefined };
  const { attributes } = buildWantedState(decoded.row, change, anyDay);
  return buildUpdate({ ...order.resource, id: order.id }, { attributes, ...taken }, options);
}

/** Members of an order that an update may take, each with a change and a way to see it. */
const changes: Readonly<
  Partial<Record<TakenMember, { readonly list: string | null; readonly relationship: string }>>
> = {
  deliveryAddress: { list: null, relationship: 'deliveryAddress' },
  billingAddress: { list: null, relationship: 'billingAddress' },
  shippingMethod: { list: 'mainShippingMethods', relationship: 'preferredShippingMethod' },
  orderType: { list: 'orderTypes', relationship: 'orderType' },
};

/**
 * Changes each further member of the order, and looks whether it changed. The pick-up point is not
 * tried.
 */
async function checkTakes(shared: SharedOrder, session: WriteSession): Promise<VerifyResult> {
  const { takes: inUse = [] } = session.service.operation(updateName);
  const tried: string[] = [];
  const wanted: TakenMember[] = inUse.filter((member) => changes[member] === undefined);
  for (const member of Object.keys(changes) as TakenMember[]) {
    const { words, isTaken = inUse.includes(member) } = await tryChange(member, shared, session);
    tried.push(`${member}: ${words}`);
    if (isTaken) wanted.push(member);
  }
  const isSame = wanted.length === inUse.length && wanted.every((member) => inUse.includes(member));
  return isSame
    ? promiseHolds(tried.join('; '))
    : promiseDiffers(tried.join('; '), entry(updateName, { takes: wanted }));
}

/** Changes one member of the order. `isTaken` is undefined if there is no other value to try. */
async function tryChange(
  member: TakenMember,
  { order: { id }, payload }: SharedOrder,
  session: WriteSession,
): Promise<{ readonly words: string; readonly isTaken?: boolean }> {
  const before = await session.read(id);
  const { list = null, relationship = '' } = changes[member] ?? {};
  const [linked] = readRelated(before.resource, relationship);
  const ids = list === null ? [] : (await session.readList(list)).map((one) => readNumber(one.id));
  const other = ids.find((one) => one !== null && one !== linked);
  if (list !== null && other === undefined) return { words: 'not tried' };
  const change: TakenChange =
    list === null
      ? { [member]: { ...payload.deliveryAddress, street1: changedStreet } }
      : { [`${member}Id`]: other };
  const taken = await buildTakenChange(change, {
    codes: anyCode,
    owner: 'command',
    operations,
    signal: new AbortController().signal,
  });
  const json = buildBody(before, taken, session.service.operation(updateName));
  const answer = await session.service.call(updateName, { path: { id }, json });
  const after = await session.read(id);
  const [now] = readRelated(after.resource, relationship);
  const address = selectType(after, 'address').find((one) => readNumber(one.id) === now);
  const isTaken =
    list === null ? readAttribute(address, 'street1') === changedStreet : now === other;
  return { words: `${describeAnswer(answer)}, ${isTaken ? 'changed' : 'unchanged'}`, isTaken };
}

/** The members that can be left out of an order that still names what is sent where. */
const members = optionalMembers[createName].filter(
  (member) => member === 'locale' || member.startsWith('deliveryAddress.'),
);

/** Places one more order for each member that we require, without that member. */
async function checkOptional(shared: SharedOrder, session: WriteSession): Promise<VerifyResult> {
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
  return isSame
    ? promiseHolds(tried.join('; '))
    : promiseDiffers(tried.join('; '), entry(createName, { optional: wanted }));
}

/** Returns the payload without one member. The billing address, which is a copy, lacks it, too. */
function omit(payload: OrderPayload, member: string): OrderPayload {
  const [first = '', second] = member.split('.');
  const without = <T extends object>(whole: T, left: string) =>
    Object.fromEntries(Object.entries(whole).filter(([key]) => key !== left)) as T;
  if (second === undefined) return without(payload, first);
  return { ...payload, deliveryAddress: without(payload.deliveryAddress, second) };
}

type Form = Required<Pick<Operation, 'method' | 'path' | 'attributes'>>;

/** Cancels the first item of the order, in each form until one works. */
async function checkItemCancel(
  { order }: SharedOrder,
  session: WriteSession,
): Promise<VerifyResult> {
  const id = readNumber(selectType(order, 'orderItem')[0]?.id);
  if (id === null) return cannotTell('the order has no item');
  const { method, path, attributes = { quantity: 0 } } = session.service.operation(itemCancelName);
  const attempt = async (form: Form) => {
    const json = { data: { id, type: 'orderItem', attributes: form.attributes } };
    const answer = await session.service.ask(form.method, form.path, { path: { id }, json });
    const item = selectType(await session.read(order.id), 'orderItem').find(
      (one) => readNumber(one.id) === id,
    );
    const members = Object.keys(form.attributes).join(', ');
    const words = `${form.method} with ${members}: ${describeAnswer(answer)}`;
    return { works: readAttribute(item, 'quantity') === 0, words };
  };
  const inUse: Form = { method, path, attributes };
  const toSetting = ({ attributes: other, ...route }: Form) =>
    entry(
      itemCancelName,
      isDeepStrictEqual(other, attributes) ? route : { ...route, attributes: other },
    );
  const advice = 'none cancels the item; ask for the method, the path and the attributes';
  return tryForms(listForms(inUse), attempt, toSetting, advice);
}

function listForms(inUse: Form): Form[] {
  const bodies = [inUse.attributes, { quantity: 0 }, { cancelled: true }, { status: 'CANCELLED' }];
  const routes = (['PATCH', 'PUT', 'DELETE'] as const).map((method) => ({
    method,
    path: '/v3/orderItems/{id}',
  }));
  const forms = [
    inUse,
    ...routes.flatMap((route) => bodies.map((attributes) => ({ ...route, attributes }))),
  ];
  return [...new Map(forms.map((form) => [JSON.stringify(form), form])).values()];
}
