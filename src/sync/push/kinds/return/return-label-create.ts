import { z } from 'zod';
import { makeUndecodableError } from '../../../../core/errors.ts';
import { isObject } from '../../../../core/json.ts';
import { decodeEnvelope } from '../../../../warehouse/decoding/envelope.ts';
import { encodeQuery } from '../../../../warehouse/transport/query.ts';
import { shipments } from '../../../streams/shipments.ts';
import { defineKind, NotFoundError, PayloadError, type PushContext, type PushResult } from '../../payload/kind.ts';
import { idNumber, requiredText } from '../../payload/payload.ts';

const operation = 'v2.returnLabel.get';
const schema = z.strictObject({
  shipmentId: idNumber,
  shippingMethod: requiredText.nullish().meta({ description: 'code of the settings list returnShippingMethods' }),
  paperless: z.boolean().nullish(),
});
type Label = z.infer<typeof schema>;

/**
 * Requests a return label for a shipment (docs/interface.md, 15.9 Return label). A repeated request returns the same
 * label.
 */
export const returnLabelCreate = defineKind<Label>({
  name: 'return_label.create',
  schema,
  operation,
  notFoundMeansRoute: false,
  unknown: { do: 'resend' },
  check: async ({ shippingMethod }, _reference, { codes, signal }) => {
    if (typeof shippingMethod !== 'string' || shippingMethod === '') return [];
    const found = await codes.find('returnShippingMethods', shippingMethod, signal);
    return 'problem' in found ? [`shippingMethod: ${found.problem}`] : [];
  },
  push: createLabel,
});

async function createLabel(
  { shipmentId, shippingMethod, paperless }: Label,
  context: PushContext,
): Promise<PushResult> {
  const method = shippingMethod
    ? await context.codes.find('returnShippingMethods', shippingMethod, context.signal)
    : null;
  if (method !== null && 'problem' in method) throw new PayloadError([`shippingMethod: ${method.problem}`]);
  const query = encodeQuery({
    ...(method === null ? {} : { shippingMethodId: method.id }),
    ...(paperless ? { paperless: 'true' } : {}),
  });
  const answer = await context.send({ operation, path: { shipmentId }, query });
  const label = decodeEnvelope(operation, answer.body);
  if (label === null) throw new NotFoundError(`the service made no label for shipment ${shipmentId}`);
  if (!isObject(label)) throw makeUndecodableError(`${operation}: the answer has no label`);
  return { result: label, reread: { stream: shipments, id: shipmentId } };
}
