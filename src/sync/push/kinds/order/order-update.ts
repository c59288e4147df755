import type { z } from 'zod';
import { orderChange } from '../../../../payloads/order.ts';
import type { OrderRow } from '../../../streams/orders.ts';
import { orders } from '../../../streams/orders.ts';
import {
  type CheckContext,
  defineKind,
  type JsonObject,
  PayloadError,
  type PushContext,
  type PushResult,
} from '../../payload/kind.ts';
import { findOrder } from './find-order.ts';
import { describeAddressDoubt, findListProblems, findWarehouseProblems } from './order-payload.ts';
import { buildWantedState, sendUpdate } from './order-state.ts';
import {
  buildTakenChange,
  describeUntaken,
  findTakenProblems,
  selectTakenShape,
  type TakenChange,
} from './taken-members.ts';

const itemsReason =
  'cannot be changed by an update; order_item.cancel cancels a line, and order.replace changes lines and keeps the number';

type OrderChange = z.infer<typeof orderChange> & TakenChange;

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

/**
 * Changes an order (docs/interface.md, 7.7 Update). Reads the order, applies the change and sends the whole state back,
 * because the service may erase omitted fields.
 */
export const orderUpdate = defineKind<OrderChange>({
  name: 'order.update',
  schema: orderChange,
  refused: { ...neverTaken, ...describeUntaken([]) },
  operation: 'v3.orders.update',
  notFoundMeansRoute: true,
  unknown: { do: 'resend' },
  // Addresses need the same members as in a new order.
  optional: (operations) => {
    const { takes = [] } = operations['v3.orders.update'];
    const { optional = [] } = operations['v3.orders.create'];
    return optional.filter((name) => takes.some((member) => name.startsWith(`${member}.`)));
  },
  check: (change, _reference, context) => findChangeProblems(change, context),
  push: updateOrder,
  withTaken: (taken) => ({
    schema: orderChange.extend(selectTakenShape(taken)),
    refused: { ...neverTaken, ...describeUntaken(taken) },
    check: async (change, _reference, context) => [
      ...(await findChangeProblems(change, context)),
      ...(await findTakenProblems(change, taken, context)),
    ],
  }),
});

async function findChangeProblems(change: JsonObject, context: CheckContext): Promise<readonly string[]> {
  const isEmpty = Object.keys(change).length === 0;
  return isEmpty ? ['payload: must name at least one member to change'] : findListProblems(change, context);
}

/** @throws PayloadError if the shipping method that the order keeps is not offered in its new warehouse */
async function assertOffered(
  { fulfillFrom = null, ...change }: OrderChange,
  order: OrderRow,
  context: CheckContext,
): Promise<void> {
  const shippingMethodId = order.preferred_shipping_method_id;
  if (shippingMethodId === null || change.shippingMethod !== undefined || change.shippingMethodId !== undefined) return;
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
  const rules = context.operations['v3.orders.create'];
  const doubt = change.deliveryAddress === undefined ? null : describeAddressDoubt(change.deliveryAddress, rules);
  const notes = [note, doubt].filter((text) => text !== null);
  return {
    result: { orderId: order.id, ...(notes.length === 0 ? {} : { note: notes.join('; ') }) },
    reading: { stream: orders, ...changed },
  };
}

/** Returns the members of the order that a change names. Of its metadata, these are the members that it names. */
function listNamedMembers({ metadata, ...change }: OrderChange): string[] {
  const names = Object.keys(change).map((name) =>
    name.startsWith('shippingMethod') ? 'preferredShippingMethod' : name.startsWith('orderType') ? 'orderType' : name,
  );
  const parts = metadata === null ? ['metadata'] : Object.keys(metadata ?? {}).map((name) => `metadata.${name}`);
  // The service may choose another default for another order type.
  const defaults = names.includes('orderType') ? ['allowPartialDelivery'] : [];
  return [...names, ...parts, ...defaults];
}
