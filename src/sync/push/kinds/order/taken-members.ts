import { z } from 'zod';
import type { TakenMember } from '../../../../../config/operations.ts';
import { codeOf, idNumber, personal, requiredText } from '../../../../payloads/members.ts';
import { address, deliveryAddress } from '../../../../payloads/order.ts';
import type { CheckContext, JsonObject } from '../../payload/kind.ts';
import { pickGiven } from '../../payload/payload.ts';
import { type CodedMember, findCodeProblems, findNamedId } from '../../payload/setting-codes.ts';
import { billingId, deliveryId, findAddressProblems, methodMember, orderTypeMember, toLink } from './order-payload.ts';

/**
 * The members of order.update that are sent only if `WAREHOUSE_OPERATIONS_FILE` says that the service takes them
 * (docs/assumptions.md). Names and forms are those of order.create.
 */
const shapes = {
  deliveryAddress: { deliveryAddress: deliveryAddress.optional() },
  billingAddress: { billingAddress: address.optional() },
  pickUpPoint: { pickUpPoint: z.record(z.string(), z.unknown()).nullish().meta(personal) },
  shippingMethod: {
    shippingMethod: requiredText.nullish().meta(codeOf('mainShippingMethods')),
    shippingMethodId: idNumber.nullish(),
  },
  orderType: { orderType: requiredText.optional().meta(codeOf('orderTypes')), orderTypeId: idNumber.optional() },
} satisfies Record<TakenMember, z.ZodRawShape>;
const takenMembers = Object.keys(shapes) as TakenMember[];

/** All members of a change that the service may take. */
export type TakenChange = z.infer<
  z.ZodObject<
    (typeof shapes)['deliveryAddress'] &
      (typeof shapes)['billingAddress'] &
      (typeof shapes)['pickUpPoint'] &
      (typeof shapes)['shippingMethod'] &
      (typeof shapes)['orderType']
  >
>;

/** Returns the shape of the members that the service takes. */
export function selectTakenShape(taken: readonly TakenMember[]): z.ZodRawShape {
  return Object.assign({}, ...taken.map((member) => shapes[member])) as z.ZodRawShape;
}

/** Returns, for each member that the service is not known to take, the reason and the ways out. */
export function describeUntaken(taken: readonly TakenMember[]): Record<string, string> {
  const untaken = takenMembers.filter((member) => !taken.includes(member));
  return Object.fromEntries(
    untaken.flatMap((member) =>
      Object.keys(shapes[member]).map((name) => [
        name,
        `the interface does not show that the service takes it in an update. If it does, add "${member}" to "takes" of` +
          ' v3.orders.update in WAREHOUSE_OPERATIONS_FILE. Otherwise use order.replace, which cancels the order and creates' +
          ' it anew with the same number',
      ]),
    ),
  );
}

const optionalType: CodedMember = { ...orderTypeMember, required: false };

/** Returns the problems of the taken members that the schema cannot find. */
export async function findTakenProblems(
  change: JsonObject,
  taken: readonly TakenMember[],
  context: CheckContext,
): Promise<string[]> {
  return [
    ...(taken.includes('orderType') ? await findCodeProblems(change, optionalType, context) : []),
    ...(taken.includes('shippingMethod') ? await findCodeProblems(change, methodMember, context) : []),
    ...(taken.includes('deliveryAddress')
      ? findAddressProblems(change.deliveryAddress, context.operations['v3.orders.create'])
      : []),
  ];
}

/**
 * Returns the relationships and the included resources that a change asks for. Relationships that it does not name are
 * omitted.
 * @throws PayloadError if a code has no single id
 */
export async function buildTakenChange(
  change: TakenChange,
  context: CheckContext,
): Promise<{ readonly relationships: Readonly<Record<string, object>>; readonly included: readonly object[] }> {
  const { deliveryAddress, billingAddress, pickUpPoint } = change;
  const orderTypeId = await findNamedId(change, optionalType, context);
  const methodId = await findNamedId(change, methodMember, context);
  const erasesMethod = methodId === null && (change.shippingMethod === null || change.shippingMethodId === null);
  const relationships = {
    ...(orderTypeId === null ? {} : { orderType: toLink('orderType', orderTypeId) }),
    ...(deliveryAddress && { deliveryAddress: toLink('address', deliveryId) }),
    ...(billingAddress && { billingAddress: toLink('address', billingId) }),
    ...(pickUpPoint && { pickUpPoint: { data: { type: 'pickUpPoint' } } }),
    ...(pickUpPoint === null && { pickUpPoint: { data: null } }),
    ...(methodId !== null && { preferredShippingMethod: toLink('shippingMethod', methodId) }),
    ...(erasesMethod && { preferredShippingMethod: { data: null } }),
  };
  const included = [
    ...(deliveryAddress ? [{ type: 'address', id: deliveryId, attributes: pickGiven(deliveryAddress) }] : []),
    ...(billingAddress ? [{ type: 'address', id: billingId, attributes: pickGiven(billingAddress) }] : []),
    ...(pickUpPoint ? [{ type: 'pickUpPoint', attributes: pickUpPoint }] : []),
  ];
  return { relationships, included };
}
