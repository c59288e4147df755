/**
 * Kinds that concern a product. A product is known by its sku, so saving it twice changes nothing.
 */

import { z } from 'zod';
import { hasCode } from '../../../../core/errors.ts';
import { isObject } from '../../../../core/json.ts';
import { decodeEnvelope } from '../../../../warehouse/decoding/envelope.ts';
import { defineKind, type PushContext, type Pushed } from '../../payload/kind.ts';
import { asNumber, base64Text, decimal, optionalText, requiredText } from '../../payload/payload.ts';

const schema = z.strictObject({
  name: requiredText,
  weight: decimal.nullish(),
  description: optionalText,
  encodedImage: base64Text.nullish(),
  barcode: z.string().nullish().meta({ description: 'only used to search' }),
});
type Product = z.infer<typeof schema>;

/** Adds a product, or changes the one with that sku (interface.md, Rules of the oldest generation). The reference is the sku. */
export const productSave = defineKind<Product>({
  name: 'product.save',
  schema,
  operation: 'oldest.product.edit',
  notFoundMeansRoute: true,
  unknown: { do: 'resend' },
  push: saveProduct,
});

async function saveProduct(product: Product, context: PushContext): Promise<Pushed> {
  if (await exists(product, context)) return save('oldest.product.edit', product, context);
  try {
    return await save('oldest.product.add', product, context);
  } catch (error) {
    // An attempt whose answer was lost may have added it, with a search that lags behind.
    if (!(hasCode(error, 'nok') && context.row.mayBeWritten)) throw error;
    return save('oldest.product.edit', product, context);
  }
}

/** Whether the service has the product. The answer that finds one is not shown: any result counts (docs/assumptions.md). */
async function exists({ barcode }: Product, { row, warehouse, signal }: PushContext): Promise<boolean> {
  try {
    const body = { Sku: row.reference, Barcode: barcode ?? null };
    const found = await warehouse.ask({ operation: 'oldest.product.search', body }, { signal });
    const sku = isObject(found) ? (found.sku ?? found.Sku) : undefined;
    // One with the same barcode is another product.
    return found !== null && (typeof sku !== 'string' || sku === row.reference);
  } catch (error) {
    if (hasCode(error, 'nok')) return false;
    throw error;
  }
}

async function save(
  operation: 'oldest.product.add' | 'oldest.product.edit',
  { name, weight, description, encodedImage }: Product,
  context: PushContext,
): Promise<Pushed> {
  // What is absent is left out, null is sent: what the service makes of either is not shown.
  const body = {
    Sku: context.row.reference,
    Name: name,
    Weight: weight === null || weight === undefined ? weight : asNumber(weight),
    Description: description,
    EncodedImage: encodedImage,
  };
  decodeEnvelope(operation, (await context.send({ operation, body })).body);
  return { result: { action: operation === 'oldest.product.add' ? 'added' : 'edited' } };
}
