import { makeUndecodableError } from '../../../core/errors.ts';
import { decodeDocument, readId } from '../../../service/decoding/jsonapi.ts';
import { defineKind, type PushContext, type PushResult } from '../../kind.ts';
import { attachment, type OrderAttachment } from '../../payloads/order.ts';
import { findOrder } from './find-order.ts';
import { toAttachmentAttributes } from './order-payload.ts';

const operation = 'v3.orderAttachments.create';

/**
 * Adds a pdf to an order. The warehouse prints it during picking (docs/interface.md, 9.2
 * Operations). The service has no operation to look up attachments.
 */
export const orderAttachmentCreate = defineKind<OrderAttachment>({
  name: 'order_attachment.create',
  schema: attachment,
  operation,
  notFoundMeansRoute: true,
  unknown: { do: 'ask operator' },
  documents: ({ content }) => [{ path: 'content', content }],
  push: createAttachment,
});

async function createAttachment(
  payload: OrderAttachment,
  context: PushContext,
): Promise<PushResult> {
  const { order } = await findOrder(context);
  const answer = await context.send({
    operation,
    body: {
      data: {
        type: 'orderAttachment',
        attributes: toAttachmentAttributes(
          context.row.reference,
          payload,
          context.operations[operation],
        ),
        relationships: { order: { data: { id: order.id, type: 'order' } } },
      },
    },
  });
  const id = readId(decodeDocument(operation, answer.body, 'single').data[0] ?? null);
  if (id === null) throw makeUndecodableError(`${operation}: the answer has no id`);
  return { result: { orderAttachmentId: id, orderId: order.id } };
}
