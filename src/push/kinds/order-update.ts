/** The kinds that change members of an order: order.update, order.rename and order.release. */

import { z } from 'zod';
import type { Operations, TakenMember } from '../../../config/operations.ts';
import { makeUndecodableError, WarehouseError } from '../../core/errors.ts';
import { type OrderRow, orders } from '../../pull/streams/orders.ts';
import { decodeEnvelope } from '../../service/decoding/envelope.ts';
import { readId } from '../../service/decoding/jsonapi.ts';
import {
  type CheckContext,
  type CheckFacts,
  checkCodes,
  defineKind,
  type FoundResource,
  isEmpty,
  type JsonObject,
  type LookUpContext,
  type LookUpResult,
  lookUpEach,
  PayloadError,
  type PayloadProblem,
  type PushContext,
  type PushResult,
  problemAt,
  readAfterChange,
} from '../kind.ts';
import { anyMembers, codeOf, idNumber, noMembers, refusing, requiredText } from '../payload.ts';
import { type CodedMember, findCodeProblems, findNamedId } from '../setting-codes.ts';
import { findTargetId, findUserOfNumber, readSentTarget } from '../sql/renames.ts';
import {
  describeAddressDoubt,
  findAddressProblems,
  findListProblems,
  findWarehouseProblems,
  linkParts,
  locale,
  makeAddresses,
  methodMember,
  orderLinks,
  orderNumber,
  orderTypeMember,
  sharedMembers,
} from './order-payload.ts';
import {
  type AnsweredOrder,
  buildWantedState,
  changeNumber,
  describeLoss,
  describeLostMembers,
  type FoundOrder,
  findOrder,
  listByNumbers,
  listMembers,
  makeRenameAwaited,
  readOrderById,
  readOrders,
  searchOrder,
  sendUpdate,
} from './order-state.ts';

/** Members of every change. One that is absent is kept. */
const alwaysTaken = {
  ...sharedMembers,
  locale: locale.optional(),
  onHold: z.boolean().optional(),
};

const itemsReason =
  'cannot be changed by an update; order_item.cancel cancels a line, ' +
  'and order.replace changes lines and keeps the number';

/** Reasons for members that no update takes. */
const neverTaken = {
  externalOrderNumber: 'cannot be changed by an update; use order.rename',
  items: itemsReason,
  orderItems: itemsReason,
  orderedOn: 'cannot be changed by an update',
  currency: 'is read-only at the service and cannot be sent',
  channelIdentifier: 'is read-only at the service and cannot be sent',
  preferredShippingMethod: 'is not a known member; the shipping method is called shippingMethod',
};

/** Returns the schema of a change, with the members that the service takes. */
function makeOrderChange(operations: Operations) {
  const { members, refused } = makeTakenMembers(operations);
  const schema = z.strictObject({ ...alwaysTaken, ...members });

  return schema.meta(refusing({ ...neverTaken, ...refused })) as unknown as z.ZodType<OrderChange>;
}
type OrderChange = z.infer<z.ZodObject<typeof alwaysTaken>> & TakenChange;

/**
 * Changes an order (docs/interface.md, 7.7 Update). Reads the order, applies the change and sends
 * the whole state back, because the service may erase omitted fields.
 */
export const orderUpdate = (operations: Operations) =>
  defineKind<OrderChange>({
    name: 'order.update',
    schema: makeOrderChange(operations),
    operation: 'v3.orders.update',
    notFoundMeansRoute: true,
    unknown: { do: 'resend' },
    check: (change, _reference, facts) => findChangeProblems(change, facts),
    push: updateOrder,
  });

function findChangeProblems(change: JsonObject, facts: CheckFacts): readonly PayloadProblem[] {
  if (Object.keys(change).length === 0)
    return [problemAt([], 'must name at least one member to change')];

  return [...findListProblems(change, facts.known), ...findTakenProblems(change, facts)];
}

/**
 * @throws PayloadError if the shipping method that the order keeps is not offered in its new
 * warehouse
 */
async function assertOffered(
  { fulfillFrom = null, ...change }: OrderChange,
  order: OrderRow,
  context: CheckContext,
): Promise<void> {
  const shippingMethodId = order.preferred_shipping_method_id;
  if (
    shippingMethodId === null ||
    change.shippingMethod !== undefined ||
    change.shippingMethodId !== undefined
  )
    return;

  const kept = { fulfillFrom, shippingMethodId };
  const problems = await checkCodes(context, (known) => findWarehouseProblems(kept, known));
  if (problems.length > 0) throw new PayloadError(problems);
}

async function updateOrder(change: OrderChange, context: PushContext): Promise<PushResult> {
  const found = await findOrder(context);
  const { order, today } = found;
  await assertOffered(change, order, context);

  const { attributes, note } = buildWantedState(order, change, today, context.row.maybeCarriedOut);
  const taken = await buildTakenChange(change, context);
  const named = [...listNamedMembers(change), ...(note === null ? [] : ['preferredShippingDate'])];
  const changed = await sendUpdate(context, found, { attributes, ...taken }, named);
  const doubt =
    change.deliveryAddress === undefined
      ? null
      : describeAddressDoubt(change.deliveryAddress, context.operations);
  const notes = [note, doubt].filter((text) => text !== null);
  return {
    result: { orderId: order.id, ...(notes.length === 0 ? {} : { note: notes.join('; ') }) },
    reading: { stream: orders, ...changed },
  };
}

/**
 * Returns the members of the order that a change names. Of its metadata, these are the members that
 * it names.
 */
function listNamedMembers({ metadata, ...change }: OrderChange): string[] {
  const names = Object.keys(change).map((name) => {
    if (name.startsWith('shippingMethod')) return 'preferredShippingMethod';
    return name.startsWith('orderType') ? 'orderType' : name;
  });
  const parts =
    metadata === null
      ? ['metadata']
      : Object.keys(metadata ?? {}).map((name) => `metadata.${name}`);
  // The service may choose another default for another order type.
  const defaults = names.includes('orderType') ? ['allowPartialDelivery'] : [];

  return [...names, ...parts, ...defaults];
}

/**
 * Makes the members that an update sends only if `WAREHOUSE_OPERATIONS_FILE` says that the service
 * takes them (docs/assumptions.md). Names and forms are those of order.create.
 */
function makeMembers(operations: Operations) {
  const { deliveryAddress, billingAddress } = makeAddresses(operations);

  return {
    deliveryAddress: deliveryAddress.optional(),
    billingAddress: billingAddress.optional(),
    pickUpPoint: anyMembers,
    shippingMethod: orderLinks.shippingMethod,
    shippingMethodId: orderLinks.shippingMethodId,
    orderType: requiredText.optional().meta(codeOf('orderTypes')),
    orderTypeId: idNumber.optional(),
  } satisfies Record<TakenMember, z.ZodType> & Record<string, z.ZodType>;
}

/** All members of a change that the service may take. */
type TakenChange = z.infer<z.ZodObject<ReturnType<typeof makeMembers>>>;
const listTaken = (operations: Operations): readonly TakenMember[] =>
  operations['v3.orders.update'].takes ?? [];

/** Returns the name that `takes` has for a member. A code and its id are taken together. */
const toTakenMember = (name: string) => name.replace(/Id$/, '') as TakenMember;

/** Returns the reason for a member that the service is not known to take, and the ways out. */
const describeUntaken = (name: string) =>
  'the interface does not show that the service takes it in an update. If it does, add' +
  ` "${toTakenMember(name)}" to "takes" of v3.orders.update in WAREHOUSE_OPERATIONS_FILE.` +
  ' Otherwise use order.replace, which cancels the order and creates it anew with the same number';

/**
 * Returns the schemas of the members that the service takes in an update, and the reasons for those
 * that it is not known to take.
 */
function makeTakenMembers(operations: Operations): {
  readonly members: Readonly<Record<string, z.ZodType>>;
  readonly refused: Readonly<Record<string, string>>;
} {
  const taken = listTaken(operations);
  const isTaken = ([name]: readonly [string, unknown]) => taken.includes(toTakenMember(name));
  const members = Object.entries(makeMembers(operations));
  const untaken = members.filter((member) => !isTaken(member));

  return {
    members: Object.fromEntries(members.filter(isTaken)),
    refused: Object.fromEntries(untaken.map(([name]) => [name, describeUntaken(name)])),
  };
}

const optionalType: CodedMember = { ...orderTypeMember, required: false };

/** Returns the problems of the taken members that the schema cannot find. */
function findTakenProblems(
  change: JsonObject,
  { known, operations }: CheckFacts,
): PayloadProblem[] {
  const taken = listTaken(operations);

  return [
    ...(taken.includes('orderType') ? findCodeProblems(change, optionalType, known) : []),
    ...(taken.includes('shippingMethod') ? findCodeProblems(change, methodMember, known) : []),
    ...(taken.includes('deliveryAddress')
      ? findAddressProblems(change.deliveryAddress, operations)
      : []),
  ];
}

/**
 * Returns the relationships and the included resources that a change asks for. Relationships that
 * it does not name are omitted.
 * @throws PayloadError if a code has no single id
 */
async function buildTakenChange(
  change: TakenChange,
  context: CheckContext,
): Promise<{
  readonly relationships: Readonly<Record<string, object>>;
  readonly included: readonly object[];
}> {
  const orderTypeId = await findNamedId(change, optionalType, context);
  const shippingMethodId = await findNamedId(change, methodMember, context);
  const { relationships, included } = linkParts({ ...change, orderTypeId, shippingMethodId });
  const erasesMethod =
    shippingMethodId === null &&
    (change.shippingMethod === null || change.shippingMethodId === null);
  const erased = {
    ...(change.pickUpPoint === null && { pickUpPoint: { data: null } }),
    ...(erasesMethod && { preferredShippingMethod: { data: null } }),
  };
  return { relationships: { ...relationships, ...erased }, included };
}

const renameSchema = z.strictObject({
  externalOrderNumber: orderNumber.meta({
    description: 'the new number; the reference of the row is the present one',
  }),
});
type OrderRename = z.infer<typeof renameSchema>;

/**
 * Changes the number of an order (docs/interface.md, 7.1 Fields and 7.7 Update). The reference of
 * the row is the present number. After a lost answer, the order is read by its id, because it has
 * one number or the other.
 */
export const orderRename = defineKind<OrderRename, RenamedOrder>({
  name: 'order.rename',
  schema: renameSchema,
  operation: 'v3.orders.update',
  notFoundMeansRoute: true,
  push: renameOrder,
  unknown: {
    do: 'look up',
    lookUp: {
      stream: orders,
      find: (rows, context) => lookUpEach(rows, (row) => findRenamedOrder(row, context)),
      // The order that is found has the new number, which is all that the row asks for.
      conclude: ({ resource, lost }, { externalOrderNumber }, isOthers) =>
        lost === null || isOthers
          ? { result: { orderId: readId(resource), externalOrderNumber } }
          : { status: 'dead', error: lost },
      whenAbsent: 'resend',
      doubtsRefusal: false,
      byTarget: true,
    },
  },
});

async function renameOrder(
  { externalOrderNumber: number }: OrderRename,
  context: PushContext,
): Promise<PushResult> {
  const found = await findOrderToRename(number, context);
  if (found.order.external_order_number === number) return toPushResult(found, null);
  await assertNumberUnused(number, context);
  const renamed = await changeNumber(context, found, number);
  return toPushResult(renamed, renamed.note);
}

function toPushResult(renamed: AnsweredOrder, note: string | null): PushResult {
  const { id: orderId, external_order_number: externalOrderNumber } = renamed.order;
  const result = { orderId, externalOrderNumber, ...(note === null ? {} : { note }) };
  return { result, reading: { stream: orders, ...renamed } };
}

/**
 * Finds the order by its present number. If we know its id, an order that already has the new
 * number is found too.
 * @throws NotFoundError if the service has no order with the present number
 */
async function findOrderToRename(number: string, context: PushContext): Promise<FoundOrder> {
  const { id, reference } = context.row;
  const targetId = await findTargetId(context.db, id);
  const known = targetId === null ? null : await readOrderById(context, targetId);
  const knownNumber = known?.order.external_order_number;
  if (known !== null && (knownNumber === reference || knownNumber === number)) return known;
  return searchOrder(context);
}

/**
 * Checks that no unfinished row of the outbox uses the new number.
 * @throws PostponedError if an earlier rename will free the number
 * @throws PayloadError if a row makes an order with the number
 */
async function assertNumberUnused(number: string, context: PushContext): Promise<void> {
  const user = await findUserOfNumber(context.db, context.row, number);
  if (user === null) return;
  if (user.kind === 'order.rename') throw makeRenameAwaited(user, `frees the number ${number}`);
  const words =
    `${number} is the number of row ${user.id} (${user.kind}), ` +
    `which is ${user.status}; choose another number, or cancel that row and retry this one`;
  throw new PayloadError([problemAt(['externalOrderNumber'], words)]);
}

/** An order that has the new number, and what the attempt lost of it, in words. */
interface RenamedOrder extends FoundResource {
  readonly lost: string | null;
}

/** An `order.rename` row with unknown outcome. */
interface RenameRow {
  readonly id: number;
  /** The former number. */
  readonly reference: string;
  readonly payloadRead: { readonly externalOrderNumber: string };
}

/**
 * Looks up a rename: reads the order by the id that was stored before the request. A row without a
 * stored id was not sent by this database. Its order is the one that the tables or earlier rows of
 * its lane name; otherwise it is searched by both numbers.
 */
async function findRenamedOrder(
  row: RenameRow,
  context: LookUpContext,
): Promise<LookUpResult<RenamedOrder>> {
  const { id: rowId, reference } = row;
  const { externalOrderNumber: wanted } = row.payloadRead;
  const id = await findTargetId(context.db, rowId);
  if (id === null) return searchBothNumbers(row, context);

  const found = await readOrderById(context, id);
  if (found === null)
    return { seen: 'several', why: `the service does not have the order ${id} any more` };

  const number = found.order.external_order_number;
  if (number === wanted) {
    const named = ['externalOrderNumber', 'preferredShippingDate'];
    const sent = await readSentTarget(context.db, rowId);
    const loss = describeLoss(new Map(), listMembers(found.resource), named, sent?.present);
    const lost = loss === null ? null : describeLostMembers(loss);
    return { seen: 'there', resource: found.resource, escaped: found.escaped, lost };
  }

  if (number === reference) return { seen: 'absent', basis: 'read', why: stillFormerNumber };

  return {
    seen: 'several',
    why: `the order ${id} has the number ${number}, neither ${reference} nor ${wanted}`,
  };
}

const stillFormerNumber = 'the order still has its former number; looked up again';

async function searchBothNumbers(
  { reference, payloadRead: { externalOrderNumber: wanted } }: RenameRow,
  { warehouse, signal }: LookUpContext,
): Promise<LookUpResult<RenamedOrder>> {
  const isThere = async (number: string) => {
    const pages = await listByNumbers(warehouse, [number], signal);
    return pages.flatMap(readOrders).some(({ order }) => order.external_order_number === number);
  };

  if (!(await isThere(wanted)) || (await isThere(reference)))
    return { seen: 'absent', basis: 'list', why: stillFormerNumber };

  return {
    seen: 'several',
    why: `an order has the number ${wanted}, but it is not known whether it was ${reference}`,
  };
}

/** Releases an order that was created with onHold true (docs/interface.md, 15.1 Operations). */
export const orderRelease = defineKind<Record<string, never>>({
  name: 'order.release',
  schema: noMembers,
  operation: 'v2.order.release',
  notFoundMeansRoute: true,
  unknown: { do: 'resend' },
  push: releaseOrder,
});

async function releaseOrder(_payload: unknown, context: PushContext): Promise<PushResult> {
  const { reference, knownId } = context.row;
  try {
    const answer = await context.send({
      operation: 'v2.order.release',
      body: { externalOrderNumber: reference },
    });
    if (isEmpty(answer)) {
      const problem = 'v2.order.release: the answer is empty, and the order is still on hold';
      return await checkReleased(context, makeUndecodableError(problem));
    }
    decodeEnvelope('v2.order.release', answer.body);
  } catch (error) {
    if (!(error instanceof WarehouseError) || error.code !== 'nok') throw error;
    return checkReleased(context, error);
  }

  // The answer does not show the order.
  return { result: {}, rereads: knownId === null ? [] : [{ stream: orders, id: knownId }] };
}

/**
 * Checks whether the order is released. If the service refused, an earlier attempt whose answer was
 * lost may have released it, or someone else.
 * @throws WarehouseError `failure`, if the order is still on hold
 */
async function checkReleased(context: PushContext, failure: WarehouseError): Promise<PushResult> {
  const found = await readAfterChange('v2.order.release', () => findOrder(context));
  if (found.order.on_hold !== false) throw failure;
  return { result: {}, reading: { stream: orders, ...found } };
}
