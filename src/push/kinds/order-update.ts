import { z } from 'zod';
import type { Operations, TakenMember } from '../../../config/operations.ts';
import { type OrderRow, orders } from '../../pull/streams/orders.ts';
import {
  type CheckContext,
  type CheckFacts,
  checkCodes,
  defineKind,
  type JsonObject,
  PayloadError,
  type PayloadProblem,
  type PushContext,
  type PushResult,
  problemAt,
} from '../kind.ts';
import {
  anyMembers,
  codeOf,
  day,
  idNumber,
  optionalText,
  personalText,
  refusing,
  requiredText,
} from '../payload.ts';
import { type CodedMember, findCodeProblems, findNamedId } from '../setting-codes.ts';
import {
  allowPartialDelivery,
  describeAddressDoubt,
  email,
  findAddressProblems,
  findListProblems,
  findWarehouseProblems,
  linkParts,
  locale,
  makeAddresses,
  methodMember,
  orderLinks,
  orderMetadata,
  orderTypeMember,
} from './order-payload.ts';
import { buildWantedState, findOrder, sendUpdate } from './order-state.ts';

/** Members of every change. One that is absent is kept. */
const alwaysTaken = {
  reference: optionalText,
  consumerReference: personalText,
  promotionCode: optionalText,
  locale: locale.optional(),
  email,
  phoneNumber: personalText,
  vatNumber: personalText,
  fulfillFrom: optionalText,
  preferredShippingDate: day.nullish(),
  allowPartialDelivery,
  onHold: z.boolean().optional(),
  metadata: orderMetadata,
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
