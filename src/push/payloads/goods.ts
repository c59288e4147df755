import { z } from 'zod';
import {
  assumedRequired,
  base64Text,
  day,
  decimal,
  optionalText,
  personalText,
  quantity,
  requiredText,
  textsNamed,
} from './members.ts';

/** Payload of inbound_packing_slip.create. */
export const slipPayload = z.strictObject({
  expectedIn: assumedRequired(requiredText.meta({ description: 'warehouse code' })),
  expectedOn: assumedRequired(day),
  comments: personalText,
  metadata: textsNamed('serviceLevel', 'purchases', 'reference'),
  items: assumedRequired(
    z
      .array(
        z.strictObject({ sku: assumedRequired(requiredText), quantity: assumedRequired(quantity) }),
      )
      .min(1, 'must have at least one entry'),
  ),
});

/** Payload of product.save. */
export const product = z.strictObject({
  name: assumedRequired(requiredText),
  weight: decimal.nullish(),
  description: optionalText,
  encodedImage: base64Text.nullish(),
  barcode: z.string().nullish().meta({ description: 'only used to search' }),
});
