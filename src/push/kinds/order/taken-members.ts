import type { z } from 'zod';
import type { Operations, TakenMember } from '../../../../config/operations.ts';
import type { CheckContext, JsonObject } from '../../kind.ts';
import { anyMembers, codeOf, idNumber, requiredText } from '../../payloads/members.ts';
import { makeAddresses, orderLinks } from '../../payloads/order.ts';
import { type CodedMember, findCodeProblems, findNamedId } from '../../setting-codes.ts';
import { findAddressProblems, methodMember, orderTypeMember } from './order-problems.ts';
import { linkParts } from './order-request.ts';

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
export type TakenChange = z.infer<z.ZodObject<ReturnType<typeof makeMembers>>>;
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
export function makeTakenMembers(operations: Operations): {
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
export async function findTakenProblems(
  change: JsonObject,
  context: CheckContext,
): Promise<string[]> {
  const taken = listTaken(context.operations);

  return [
    ...(taken.includes('orderType') ? await findCodeProblems(change, optionalType, context) : []),
    ...(taken.includes('shippingMethod')
      ? await findCodeProblems(change, methodMember, context)
      : []),
    ...(taken.includes('deliveryAddress')
      ? findAddressProblems(change.deliveryAddress, context.operations)
      : []),
  ];
}

/**
 * Returns the relationships and the included resources that a change asks for. Relationships that
 * it does not name are omitted.
 * @throws PayloadError if a code has no single id
 */
export async function buildTakenChange(
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
