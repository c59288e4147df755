/**
 * The kinds that create an order, and the documents beside the first: order.create, order.replace
 * and order_attachment.create.
 */

import type { Operations } from '../../../config/operations.ts';
import { makeUndecodableError, rewordError, WarehouseError } from '../../core/errors.ts';
import { order, orders } from '../../pull/streams/orders.ts';
import {
  decodeDocument,
  findChildren,
  type Resource,
  readId,
} from '../../service/decoding/jsonapi.ts';
import { encodeQuery } from '../../service/transport/query.ts';
import {
  defineKind,
  describeLineDifference,
  type FoundConclusion,
  type FoundResource,
  type JsonObject,
  type LookUpContext,
  type LookUpResult,
  LostMembersError,
  lookUpEach,
  NotFoundError,
  type PushContext,
  type PushResult,
  readAnswered,
} from '../kind.ts';
import { linkTo, pickGiven } from '../payload.ts';
import { findNamedId } from '../setting-codes.ts';
import type { PushTarget } from '../sql/claim-rows.ts';
import { closeTarget, readSentTarget } from '../sql/renames.ts';
import { findOrders, type RowToLookUp } from './look-up-orders.ts';
import {
  buildOrderDocument,
  describeAddressDoubt,
  findOrderProblems,
  listDocuments,
  makeAttachment,
  makeOrderPayload,
  methodMember,
  type OrderAttachment,
  type OrderPayload,
  orderTypeMember,
  toAttachmentAttributes,
} from './order-payload.ts';
import {
  type AnsweredOrder,
  changeNumber,
  type FoundOrder,
  findOrder,
  orderInclude,
  readCancelledOrder,
  readLines,
  readOrderById,
  showsAllItems,
} from './order-state.ts';

/**
 * Creates an order with all that belongs to it (docs/interface.md, 7.6 Create). Its number is
 * unique there.
 */
export const orderCreate = (operations: Operations) =>
  defineKind<OrderPayload>({
    ...creationRules,
    name: 'order.create',
    schema: makeOrderPayload(operations),
    operation: 'v3.orders.create',
    push: async (payload, context) =>
      sendOrder(payload, context, await findNamedIds(payload, context)),
    unknown: {
      do: 'look up',
      lookUp: {
        stream: orders,
        find: findOrders,
        conclude: (found, payload, isOthers) => concludeOrder(found, payload, isOthers, operations),
        whenAbsent: 'resend',
        doubtsRefusal: true,
      },
    },
  });

/** What every kind that creates an order has. */
const creationRules = {
  notFoundMeansRoute: true,
  check: findOrderProblems,
  documents: listDocuments,
  // The first attachment is sent with the order, the others become follow-ups.
  followUps: ({ attachments }: JsonObject) =>
    Array.isArray(attachments)
      ? attachments.slice(1).map((payload) => ({ kind: 'order_attachment.create', payload }))
      : [],
  document: { kind: 'order_attachment', path: ['attachments', '0'] },
  awaitsProducts: true,
} as const;

/**
 * Returns the ids of the order type and the shipping method that a payload names.
 * @throws PayloadError if one of them is not known
 */
const findNamedIds = async (payload: OrderPayload, context: PushContext) => ({
  orderTypeId: await findNamedId(payload, orderTypeMember, context),
  shippingMethodId: await findNamedId(payload, methodMember, context),
});

/** Sends a new order. */
async function sendOrder(
  payload: OrderPayload,
  context: PushContext,
  ids: Awaited<ReturnType<typeof findNamedIds>>,
  target?: PushTarget,
): Promise<PushResult> {
  const { 'v3.orders.create': options, [attachment]: attaching } = context.operations;
  const contentMember = pickGiven({ contentMember: attaching.contentMember });
  const body = buildOrderDocument(payload, ids, { ...contentMember, ...options });
  const answer = await context.send({ operation: 'v3.orders.create', body }, target);
  const created = readAnswered(
    'v3.orders.create',
    decodeDocument('v3.orders.create', answer.body, 'single'),
    order,
    ({ external_order_number: number }) => number === payload.externalOrderNumber,
  );

  return {
    result: toCreateResult(created.resource, payload, context.operations),
    reading: { stream: orders, ...created },
  };
}

const othersNote =
  'the order existed before this row: only articles and quantities were compared, not addresses' +
  ' and the rest';

/** Concludes that the service has another version of the order. */
const concludeOthersVersion = (difference: string): FoundConclusion => ({
  status: 'dead',
  error:
    `the service already has one that no attempt of this row created: ${difference}. ` +
    'Cancel this row; a changed one needs another number, or order.replace',
});

const documentsNotSent: FoundConclusion = {
  status: 'dead',
  error:
    'the service already has this order, which no attempt of this row created: its articles and ' +
    'quantities agree, but the attachments of this row were not sent. Cancel this row. If the order ' +
    'still lacks a document when its lane is done, insert an order_attachment.create row for it',
};

/** Concludes a row whose number another row has used for an order that differs. */
const concludeOtherRow = (row: number): FoundConclusion => ({
  status: 'dead',
  error:
    `outbox row ${row} made the order with this number, to another address, and this row was not ` +
    'sent. If it is another order, cancel this row, and send it with a number of its own. To ' +
    'change the order, cancel this row, and use order.update or order.replace. If they mean the ' +
    'same, mark this row as done',
});

/** Decides what becomes of a row whose order a look-up found. */
function concludeOrder(
  { resource, otherRow = null }: FoundResource,
  payload: OrderPayload,
  isOthers: boolean,
  operations: Operations,
): FoundConclusion {
  const difference = isOthers ? describeLineDifference(payload.items, readLines(resource)) : null;
  if (difference !== null) return concludeOthersVersion(difference);
  if (isOthers && otherRow !== null) return concludeOtherRow(otherRow);
  if (isOthers && payload.attachments?.length) return documentsNotSent;

  const result = toCreateResult(resource, payload, operations);
  return { result: { ...result, ...(isOthers && { note: othersNote }) } };
}

/** Returns the `result` of a row, for the answer and for the order that a look-up found. */
function toCreateResult(
  resource: Resource,
  { deliveryAddress, attachments }: OrderPayload,
  operations: Operations,
): PushResult['result'] {
  const note = describeAddressDoubt(deliveryAddress, operations);
  const attachmentId = attachments?.length ? readAttachmentId(resource) : null;

  return {
    orderId: readId(resource),
    orderItems: readLines(resource).map(({ id, sku }) => ({ id, sku })),
    ...(attachmentId === null ? {} : { orderAttachmentId: attachmentId }),
    ...(note === null ? {} : { note }),
  };
}

/**
 * Returns the id of the attachment that went with an order; null if the answer does not show
 * exactly one.
 */
function readAttachmentId(order: Resource): number | null {
  const { resources } = findChildren(order, 'orderAttachment', null, new Map());

  return resources.length === 1 ? readId(resources[0] ?? null) : null;
}

/**
 * Replaces an order by another with the same number: renames the present order to a free number,
 * cancels it, and creates the new one only if nothing of the present one is left. Each step is
 * decided by reading the present order by its id, so that a row whose worker was lost, or whose
 * answer was lost, continues with the right step. There are never two orders to ship.
 */
export const orderReplace = (operations: Operations) =>
  defineKind<OrderPayload, Replacement>({
    ...creationRules,
    name: 'order.replace',
    schema: makeOrderPayload(operations),
    operation: 'v3.orders.update',
    push: replaceOrder,
    unknown: {
      do: 'look up',
      lookUp: {
        stream: orders,
        find: findReplacements,
        conclude: (found, payload, isOthers) => {
          const conclusion = concludeOrder(found, payload, isOthers, operations);
          if ('error' in conclusion) return conclusion;

          const { replacedOrderId } = found;
          const result = { ...conclusion.result, replacedOrderId };
          return { result, rereads: [{ stream: orders, id: replacedOrderId }] };
        },
        whenAbsent: 'resend',
        doubtsRefusal: true,
        byTarget: true,
      },
    },
  });

/**
 * Returns the number that the present order gets. It has at most 50 characters, and is the same at
 * each attempt.
 */
function makeFormerNumber(number: string, rowId: number): string {
  const suffix = `-R${rowId}`;
  return `${[...number].slice(0, 50 - suffix.length).join('')}${suffix}`;
}

const describeOpenItems = ({ resource }: Pick<AnsweredOrder, 'resource'>) =>
  readLines(resource)
    .filter(({ quantity }) => quantity !== 0)
    .map(({ id, sku, quantity }) => `${quantity ?? 'an unknown number'} x ${sku} (item ${id})`)
    .join(', ');

/**
 * Describes what is left of an order that was cancelled; null if every item is shown with the
 * quantity 0.
 * @param before the order before it was cancelled; null if it is not known
 */
function describeRest(order: AnsweredOrder, before: AnsweredOrder | null): string | null {
  const open = describeOpenItems(order);
  if (open !== '') return `${open} had been shipped already`;
  const isShown = showsAllItems(order, before?.resource ?? null);
  return isShown ? null : 'the service does not show all of its items';
}

async function replaceOrder(payload: OrderPayload, context: PushContext): Promise<PushResult> {
  const { row } = context;
  const formerNumber = makeFormerNumber(row.reference, row.id);
  const known = await findPresent(context, formerNumber);
  const { id, external_order_number: number } = known.order;
  // Before anything is changed: without them, the new order cannot be sent.
  const ids = await findNamedIds(payload, context);

  let present: AnsweredOrder = known;
  if (number === row.reference) {
    await assertNotShipped(known, context);
    present = await renamePresent(context, known, formerNumber);
  } else if (number !== formerNumber)
    throw new NotFoundError(
      `order ${id} has the number ${number}, neither ${row.reference} nor ${formerNumber}`,
    );

  present = await cancelPresent(context, present, known).catch(
    addWords(`Order ${id} has the number ${formerNumber} now. ${continues}`),
  );
  const rest = describeRest(present, known);
  if (rest !== null) throw await makeRestError(context, present, rest);

  const { result, ...pushed } = await sendOrder(payload, context, ids, { id }).catch(
    async (error: unknown) => {
      // Nothing of the former order is left to ship, and the new one was not created.
      if (isNotExecuted(error)) await closeTarget(context.db, row);
      return addWords(
        `The replaced order ${id} is cancelled and has the number ${formerNumber}; retry this ` +
          'row, or correct its payload, and it creates the new order',
      )(error);
    },
  );

  return {
    ...pushed,
    result: { ...result, replacedOrderId: id },
    rereads: [{ stream: orders, id }],
  };
}

/** The advice for a row that was left between its steps. */
const continues = 'Retry this row, or replace its payload by the same one, and it continues';

/** Returns a function that throws an error of the service with words added, and others as is. */
const addWords =
  (words: string) =>
  (error: unknown): never => {
    if (!(error instanceof WarehouseError)) throw error;
    throw rewordError(error, `${error.message}. ${words}`);
  };

/** Returns true if the service certainly did not carry out the request that failed. */
const isNotExecuted = (error: unknown): error is WarehouseError =>
  error instanceof WarehouseError && error.outcome !== 'unknown';

/**
 * Finds the order to replace: the one that the row was sent for, else by its number.
 * @throws NotFoundError if the service does not have it
 */
async function findPresent(context: PushContext, formerNumber: string): Promise<FoundOrder> {
  const target = await readSentTarget(context.db, context.row.id);
  if (target === null) return findOrder(context);

  const { id } = target;
  const found = await readOrderById(context, id).catch(
    addWords(`Order ${id} may have the number ${formerNumber}. ${continues}`),
  );
  if (found !== null) return found;
  throw new NotFoundError(`the service does not have the order ${id} any more`);
}

/**
 * @throws NotFoundError if a shipment of the order exists: its items cannot be cancelled. The order
 * has its number.
 */
async function assertNotShipped(
  { order: { id } }: FoundOrder,
  context: PushContext,
): Promise<void> {
  const query = encodeQuery({ 'filter[orderId]': String(id) });
  const { data } = await context.warehouse.list('v3.shipments.list', query, {
    signal: context.signal,
  });
  if (data.length === 0) return;

  await closeTarget(context.db, context.row);
  throw new NotFoundError(
    `order ${context.row.reference} cannot be replaced, ` +
      `because shipment ${readId(data[0] ?? null)} has items of it. Nothing was changed: ` +
      'cancel this row, and create an order with another number',
  );
}

/**
 * Renames the order to replace.
 * @throws LostMembersError if it lost something
 */
async function renamePresent(
  context: PushContext,
  known: FoundOrder,
  formerNumber: string,
): Promise<AnsweredOrder> {
  try {
    return await changeNumber(context, known, formerNumber);
  } catch (error) {
    if (error instanceof LostMembersError) {
      const { loss, reading } = error;
      const words =
        `the service renamed order ${known.order.id} to ${formerNumber}, but ${loss}, which the ` +
        `row does not name. The new order does not need it. ${continues}`;
      throw new LostMembersError(words, loss, reading);
    }

    // A reading may have failed after the rename. An earlier attempt may still rename the order.
    const isRename = isNotExecuted(error) && error.operation === 'v3.orders.update';
    if (isRename && !context.row.maybeCarriedOut) await closeTarget(context.db, context.row);
    throw error;
  }
}

/**
 * Cancels what is left of an order. Returns the order as it is then.
 * @param before the order before any change
 * @throws WarehouseError `undecodable` if the service does not have it any more
 */
async function cancelPresent(
  context: PushContext,
  present: AnsweredOrder,
  before: AnsweredOrder,
): Promise<AnsweredOrder> {
  if (describeRest(present, before) === null) return present;

  const { id } = before.order;
  const request = { operation: 'v3.orders.cancel', path: { id }, query: orderInclude } as const;
  const answer = await context.send(request, { id });
  const cancelled = await readCancelledOrder(context, answer, before);
  if (cancelled !== null) return cancelled;
  throw makeUndecodableError(
    `${request.operation}: the service does not have order ${id} any more`,
  );
}

/**
 * Makes the error of an order that could not be cancelled whole. It keeps its new number: the
 * service does not change an order that is completely fulfilled.
 * @param rest what is left of it, in words
 */
async function makeRestError(
  { db, row }: PushContext,
  present: AnsweredOrder,
  rest: string,
): Promise<NotFoundError> {
  const words =
    `the order could not be cancelled whole, so no new one was created: ${rest}. ` +
    `It keeps the number ${present.order.external_order_number}`;
  // Items that are not shown may still be shipped.
  if (describeOpenItems(present) === '') return new NotFoundError(`${words}. ${continues}`);

  await closeTarget(db, row);
  return new NotFoundError(
    `${words}; cancel this row, and create an order for the remaining articles`,
  );
}

/** A new order that a look-up found, with the id of the one that it replaces. */
interface Replacement extends FoundResource {
  readonly replacedOrderId: number;
}

/**
 * Looks up rows by reading the order that each replaces. Until that order is renamed and cancelled,
 * nothing was created. After that, the new orders of all rows are looked up together by their
 * numbers: a search may have to read the list of all days since the first send.
 */
async function findReplacements(
  rows: readonly RowToLookUp[],
  context: LookUpContext,
): Promise<ReadonlyMap<number, LookUpResult<Replacement>>> {
  /** Rows whose former order is renamed and cancelled, with its id. */
  const replaced = new Map<RowToLookUp, number>();
  const results = await lookUpEach(rows, (row) => readFormer(row, context, replaced));

  const found = await findOrders([...replaced.keys()], context);
  for (const [{ id }, replacedOrderId] of replaced) {
    const result = found.get(id);
    if (result === undefined) continue;
    if (result.seen !== 'there') results.set(id, result);
    else if (readId(result.resource) !== replacedOrderId)
      results.set(id, { ...result, replacedOrderId });
  }
  return results;
}

/** Reads the order that a row replaces. Adds the row to `replaced` if that order is gone. */
async function readFormer(
  row: RowToLookUp,
  context: LookUpContext,
  replaced: Map<RowToLookUp, number>,
): Promise<LookUpResult<Replacement>> {
  const id = (await readSentTarget(context.db, row.id))?.id;
  if (id === undefined) return { seen: 'absent', basis: 'read', why: 'nothing was sent yet' };

  const former = await readOrderById(context, id);
  if (former === null)
    return { seen: 'several', why: `the service does not have the order ${id} any more` };
  if (!isCancelledAway(former, row)) {
    const number = former.order.external_order_number;
    const why = `the order ${id} has the number ${number} and is not replaced yet; looked up again`;
    return { seen: 'absent', basis: 'read', why };
  }

  replaced.set(row, id);
  return { seen: 'unclear', why: 'the list still has the replaced order; looked up again' };
}

const isCancelledAway = (found: FoundOrder, { id, reference }: RowToLookUp) =>
  found.order.external_order_number === makeFormerNumber(reference, id) &&
  describeRest(found, null) === null;

const attachment = 'v3.orderAttachments.create';

/**
 * Adds a pdf to an order. The warehouse prints it during picking (docs/interface.md, 9.2
 * Operations). The service has no operation to look up attachments.
 */
export const orderAttachmentCreate = (operations: Operations) =>
  defineKind<OrderAttachment>({
    name: 'order_attachment.create',
    schema: makeAttachment(operations),
    operation: attachment,
    notFoundMeansRoute: true,
    unknown: { do: 'ask operator' },
    // The others wait: a document must not be missing when the order is released (order.release, or
    // order.update with onHold), it names the order by its number (order.rename), and it belongs to
    // the order (order.create).
    overtakenBy: [
      'order_attachment.create',
      'return_label.create',
      'order.cancel',
      'order_item.cancel',
    ],
    document: { kind: 'order_attachment', path: [] },
    documents: ({ content }) => [{ path: ['content'], content }],
    push: createAttachment,
  });

async function createAttachment(
  payload: OrderAttachment,
  context: PushContext,
): Promise<PushResult> {
  const { order } = await findAttachedOrder(context);
  const answer = await context.send({
    operation: attachment,
    body: {
      data: {
        type: 'orderAttachment',
        attributes: toAttachmentAttributes(
          order.external_order_number ?? context.row.reference,
          payload,
          context.operations[attachment],
        ),
        relationships: { order: linkTo('order', order.id) },
      },
    },
  });

  const id = readId(decodeDocument(attachment, answer.body, 'single').data[0] ?? null);
  if (id === null) throw makeUndecodableError(`${attachment}: the answer has no id`);

  return { result: { orderAttachmentId: id, orderId: order.id } };
}

/**
 * Finds the order of a row. A follow-up belongs to the order that the row before it made, whatever
 * the number of that order is now: another order may have the number by now.
 * @throws NotFoundError if the service does not have the order
 */
async function findAttachedOrder(context: PushContext): Promise<FoundOrder> {
  const target = await readSentTarget(context.db, context.row.id);
  if (target === null) return findOrder(context);

  const found = await readOrderById(context, target.id);
  if (found !== null) return found;
  throw new NotFoundError(
    `the service does not have the order ${target.id} any more, to which this document belongs; ` +
      'cancel this row',
  );
}
