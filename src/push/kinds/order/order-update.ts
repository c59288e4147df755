import { z } from 'zod';
import type { Operations } from '../../../../config/operations.ts';
import { type OrderRow, orders } from '../../../pull/streams/orders.ts';
import {
  type CheckContext,
  defineKind,
  type JsonObject,
  PayloadError,
  type PushContext,
  type PushResult,
} from '../../kind.ts';
import { day, optionalText, personalText, refusing } from '../../payloads/members.ts';
import { allowPartialDelivery, email, locale, orderMetadata } from '../../payloads/order.ts';
import { findOrder } from './find-order.ts';
import { describeAddressDoubt, findListProblems, findWarehouseProblems } from './order-problems.ts';
import { buildWantedState, sendUpdate } from './order-state.ts';
import {
  buildTakenChange,
  findTakenProblems,
  makeTakenMembers,
  type TakenChange,
} from './taken-members.ts';

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
    check: (change, _reference, context) => findChangeProblems(change, context),
    push: updateOrder,
  });

async function findChangeProblems(
  change: JsonObject,
  context: CheckContext,
): Promise<readonly string[]> {
  if (Object.keys(change).length === 0) return ['payload: must name at least one member to change'];

  return [
    ...(await findListProblems(change, context)),
    ...(await findTakenProblems(change, context)),
  ];
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

  const problems = await findWarehouseProblems({ fulfillFrom, shippingMethodId }, context);
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
