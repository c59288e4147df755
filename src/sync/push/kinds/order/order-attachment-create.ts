import { z } from 'zod';
import { undecodableAnswer } from '../../../../core/errors.ts';
import { decodeDocument, readId } from '../../../../warehouse/decoding/jsonapi.ts';
import { defineKind, type PushContext, type Pushed } from '../../payload/kind.ts';
import { documentContent, documentProblems, personal, requiredText } from '../../payload/payload.ts';
import { findOrder } from './find-order.ts';
import { attachmentAttributes } from './order-payload.ts';

const schema = z.strictObject({
  filename: requiredText.meta(personal),
  content: documentContent,
  contentType: z.literal('application/pdf', 'must be application/pdf').nullish(),
  printStrategy: z.literal('REQUIRED', 'must be REQUIRED').nullish(),
});
type Attachment = z.infer<typeof schema>;

/** Links a pdf to an order, to be printed during picking (interface.md, POST /v3/orderAttachments). It cannot be looked up. */
export const orderAttachmentCreate = defineKind<Attachment>({
  name: 'order_attachment.create',
  schema,
  operation: 'v3.orderAttachments.create',
  notFoundMeansRoute: true,
  unknown: { do: 'ask operator' },
  check: ({ content }, _reference, { signal }) => documentProblems('content', content, signal),
  push: attach,
});

async function attach(payload: Attachment, context: PushContext): Promise<Pushed> {
  const { order } = await findOrder(context);
  const answer = await context.send({
    operation: 'v3.orderAttachments.create',
    body: {
      data: {
        type: 'orderAttachment',
        attributes: attachmentAttributes(context.row.reference, payload),
        relationships: { order: { data: { id: order.id, type: 'order' } } },
      },
    },
  });
  const id = readId(decodeDocument('v3.orderAttachments.create', answer.body, 'single').data[0] ?? null);
  if (id === null) throw undecodableAnswer('v3.orderAttachments.create: the answer has no id');
  return { result: { orderAttachmentId: id } };
}
