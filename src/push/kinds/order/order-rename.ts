import { z } from 'zod';
import { orders } from '../../../pull/streams/orders.ts';
import { readId } from '../../../service/decoding/jsonapi.ts';
import { defineKind, PayloadError, type PushContext, type PushResult } from '../../kind.ts';
import { orderNumber } from '../../payloads/order.ts';
import { findTargetIds, findUserOfNumber } from '../../sql/renames.ts';
import {
  type AnsweredOrder,
  type FoundOrder,
  makeRenameAwaited,
  readOrderById,
  searchOrder,
} from './find-order.ts';
import { findRenamedOrders } from './look-up-renames.ts';
import { changeNumber } from './order-state.ts';

const schema = z.strictObject({
  externalOrderNumber: orderNumber.meta({
    description: 'the new number; the reference of the row is the present one',
  }),
});
type OrderRename = z.infer<typeof schema>;

/**
 * Changes the number of an order (docs/interface.md, 7.1 Fields and 7.7 Update). The reference of
 * the row is the present number. After a lost answer, the order is read by its id, because it has
 * one number or the other.
 */
export const orderRename = defineKind<OrderRename>({
  name: 'order.rename',
  schema,
  operation: 'v3.orders.update',
  notFoundMeansRoute: true,
  push: renameOrder,
  unknown: {
    do: 'look up',
    lookUp: {
      stream: orders,
      find: findRenamedOrders,
      // The order that is found has the new number, which is all that the row asks for.
      differs: () => null,
      resultOf: (resource, { externalOrderNumber }) => ({
        orderId: readId(resource),
        externalOrderNumber,
      }),
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

function toPushResult(
  { order, resource, escaped }: AnsweredOrder,
  note: string | null,
): PushResult {
  const { id: orderId, external_order_number: externalOrderNumber } = order;
  const result = { orderId, externalOrderNumber, ...(note === null ? {} : { note }) };
  return { result, reading: { stream: orders, resource, escaped } };
}

/**
 * Finds the order by its present number. If we know its id, an order that already has the new
 * number is found too.
 * @throws NotFoundError if the service has no order with the present number
 */
async function findOrderToRename(number: string, context: PushContext): Promise<FoundOrder> {
  const { id, reference } = context.row;
  const targetId = (await findTargetIds(context.db, [id])).get(id);
  const known = targetId === undefined ? null : await readOrderById(context, targetId);
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
  throw new PayloadError([
    `externalOrderNumber: ${number} is the number of row ${user.id} (${user.kind}), ` +
      `which is ${user.status}; choose another number, or cancel that row and retry this one`,
  ]);
}
