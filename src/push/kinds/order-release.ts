import { makeUndecodableError, WarehouseError } from '../../core/errors.ts';
import { orders } from '../../pull/streams/orders.ts';
import { decodeEnvelope } from '../../service/decoding/envelope.ts';
import { defineKind, isEmpty, type PushContext, type PushResult } from '../kind.ts';
import { noMembers } from '../payload.ts';
import { findOrder } from './order-state.ts';

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
  return { result: {}, ...(knownId === null ? {} : { reread: { stream: orders, id: knownId } }) };
}

/**
 * Checks whether the order is released. If the service refused, an earlier attempt whose answer was
 * lost may have released it, or someone else.
 * @throws WarehouseError `failure`, if the order is still on hold
 */
async function checkReleased(context: PushContext, failure: WarehouseError): Promise<PushResult> {
  const found = await findOrder(context);
  if (found.order.on_hold !== false) throw failure;
  return { result: {}, reading: { stream: orders, ...found } };
}
