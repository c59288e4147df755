import type { z } from 'zod';
import { makeUndecodableError } from '../../../../core/errors.ts';
import { findTargetIds, findUserOfNumber } from '../../../../erp/outbox/renames.ts';
import { orderRename as renamedOrder } from '../../../../payloads/order.ts';
import { decodeRow } from '../../../../warehouse/decoding/fields.ts';
import type { OrderRow } from '../../../streams/orders.ts';
import { order, orders } from '../../../streams/orders.ts';
import { defineKind, PayloadError, type PushContext, type PushResult } from '../../payload/kind.ts';
import { type FoundOrder, makeRenameAwaited, readOrderById, searchOrder } from './find-order.ts';
import { findRenamedOrders } from './look-up-renames.ts';
import { buildWantedState, sendUpdate } from './order-state.ts';

type OrderRename = z.infer<typeof renamedOrder>;

/**
 * Changes the number of an order (docs/interface.md, 7.1 Fields and 7.7 Update). The reference of the row is the present
 * number. After a lost answer, the order is read by its id, because it has one number or the other.
 */
export const orderRename = defineKind<OrderRename>({
  name: 'order.rename',
  schema: renamedOrder,
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
      resultOf: (resource) => {
        const read = decodeRow(order, resource);
        return 'row' in read ? toResult(read.row) : {};
      },
      whenAbsent: 'resend',
      doubtsRefusal: false,
      byTarget: true,
    },
  },
});

const toResult = ({ id, external_order_number: externalOrderNumber }: OrderRow): PushResult['result'] => ({
  orderId: id,
  externalOrderNumber,
});

async function renameOrder({ externalOrderNumber: number }: OrderRename, context: PushContext): Promise<PushResult> {
  const found = await findOrderToRename(number, context);
  if (found.order.external_order_number === number) return toPushResult(found, null);
  await assertNumberUnused(number, context);
  const { attributes, note } = buildWantedState(found.order, {}, found.today);
  const change = { attributes: { ...attributes, externalOrderNumber: number } };
  const named = ['externalOrderNumber', ...(note === null ? [] : ['preferredShippingDate'])];
  const renamed = await sendUpdate(context, found, change, named);
  if (renamed.order.external_order_number !== number)
    throw makeUndecodableError('v3.orders.update: the answer does not have the new number');
  return toPushResult(renamed, note);
}

function toPushResult(
  { order, resource, escaped }: Pick<FoundOrder, 'order' | 'resource' | 'escaped'>,
  note: string | null,
): PushResult {
  const result = { ...toResult(order), ...(note === null ? {} : { note }) };
  return { result, reading: { stream: orders, resource, escaped } };
}

/**
 * Finds the order by its present number. If we know its id, an order that already has the new number is found too.
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
 * @throws PayloadError if an `order.create` waits under the number
 */
async function assertNumberUnused(number: string, context: PushContext): Promise<void> {
  const user = await findUserOfNumber(context.db, context.row, number);
  if (user === null) return;
  if (user.kind === 'order.rename') throw makeRenameAwaited(user, `frees the number ${number}`);
  throw new PayloadError([
    `externalOrderNumber: ${number} is the number of row ${user.id} (order.create), which is ${user.status}; choose` +
      ' another number, or cancel that row and retry this one',
  ]);
}
