import { z } from 'zod';
import {
  anyMembers,
  assumedRequired,
  codeOf,
  codeOrId,
  idNumber,
  optionalText,
  personalText,
  quantity,
  requiredText,
} from './members.ts';

const item = z.strictObject({
  shipmentItemId: idNumber,
  quantity: assumedRequired(quantity),
  reason: requiredText.nullish().meta(codeOrId('returnReasons', 'reasonId')),
  reasonId: idNumber
    .nullish()
    .meta({ description: 'id of the service list returnReasons, instead of reason' }),
  externalReference: optionalText,
  metadata: anyMembers,
});

/** Payload of return.create. */
export const returnPayload = z.strictObject({
  shipmentId: idNumber,
  comments: personalText,
  metadata: anyMembers,
  items: assumedRequired(z.array(item).min(1, 'must have at least one entry')),
});
export type ReturnPayload = z.infer<typeof returnPayload>;

/** Payload of return.replace. */
export const returnReplacement = returnPayload.extend({
  returnMerchandiseAuthorizationId: idNumber.nullish(),
});

/** Payload of return.delete. */
export const deletedReturn = z.strictObject({
  returnMerchandiseAuthorizationId: idNumber.nullish(),
});

/** Payload of return_label.create. */
export const labelRequest = z.strictObject({
  shipmentId: idNumber,
  shippingMethod: requiredText.nullish().meta(codeOf('returnShippingMethods')),
  shippingMethodId: idNumber.nullish().meta({
    description: 'id of the service list returnShippingMethods, instead of shippingMethod',
  }),
  paperless: z.boolean().nullish(),
});
