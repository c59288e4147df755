import { z } from 'zod';
import type { Operations } from '../../../config/operations.ts';
import { hasCode, rewordError, WarehouseError } from '../../core/errors.ts';
import { isObject } from '../../core/json.ts';
import { decodeEnvelope } from '../../service/decoding/envelope.ts';
import { mayBeWrongPath } from '../../service/health/evidence.ts';
import { defineKind, type PushContext, type PushResult, saysNothing } from '../kind.ts';
import {
  asNumber,
  base64Text,
  decimal,
  optionalText,
  requiredText,
  requireUnless,
} from '../payload.ts';

/** The same payload is added, or changes a product. */
function makeProduct(operations: Operations) {
  const require = requireUnless(operations['oldest.product.add'].optional);

  return z.strictObject({
    name: require('name', requiredText),
    weight: decimal.nullish(),
    description: optionalText,
    encodedImage: base64Text.nullish(),
    barcode: z.string().nullish().meta({ description: 'only used to search' }),
  });
}
type Product = z.infer<ReturnType<typeof makeProduct>>;

/**
 * Adds a product, or changes the one whose sku is the row's reference (docs/interface.md, 16.3
 * Rules). The sku identifies the product, so saving it twice changes nothing.
 */
export const productSave = (operations: Operations) =>
  defineKind<Product>({
    name: 'product.save',
    schema: makeProduct(operations),
    operation: 'oldest.product.edit',
    notFoundMeansRoute: true,
    unknown: { do: 'resend' },
    push: saveProduct,
  });

async function saveProduct(product: Product, context: PushContext): Promise<PushResult> {
  if (await hasProduct(product, context))
    return sendProduct('oldest.product.edit', product, context);
  try {
    return await sendProduct('oldest.product.add', product, context);
  } catch (error) {
    // The product may exist although the search does not show it. The words of the refusal are not
    // known, so any refusal may say that; if the product does not exist, the change is refused too.
    if (!isRefusal(error)) throw error;
    return await changeInstead(error, product, context);
  }
}

/** Returns true if the service itself refused this product. */
const isRefusal = (error: unknown): error is WarehouseError =>
  error instanceof WarehouseError && error.outcome === 'refused' && !mayBeWrongPath(error, false);

/**
 * Changes a product that could not be added.
 * @throws WarehouseError with both reasons if that is refused, too
 */
async function changeInstead(
  added: WarehouseError,
  product: Product,
  context: PushContext,
): Promise<PushResult> {
  try {
    return await sendProduct('oldest.product.edit', product, context);
  } catch (error) {
    if (!isRefusal(error)) throw error;
    throw rewordError(error, `${added.message}; and as a change: ${error.message}`);
  }
}

/**
 * Returns true if the service has the product. Any result of the search counts, unless it names
 * another sku, because its form is assumed (docs/assumptions.md).
 */
async function hasProduct(
  { barcode }: Product,
  { row, warehouse, signal }: PushContext,
): Promise<boolean> {
  try {
    const body = { Sku: row.reference, Barcode: barcode ?? null };
    const found = await warehouse.ask({ operation: 'oldest.product.search', body }, { signal });
    const sku = isObject(found) ? (found.sku ?? found.Sku) : undefined;
    // A product with the same barcode but another sku is another product. The service may write a
    // sku in another case.
    return (
      found !== null &&
      (typeof sku !== 'string' || sku.toLowerCase() === row.reference.toLowerCase())
    );
  } catch (error) {
    if (hasCode(error, 'nok')) return false;
    throw error;
  }
}

async function sendProduct(
  operation: 'oldest.product.add' | 'oldest.product.edit',
  { name, weight, description, encodedImage }: Product,
  context: PushContext,
): Promise<PushResult> {
  // Absent members are omitted and null is sent as null. How the service treats either is not
  // known.
  const body = {
    Sku: context.row.reference,
    Name: name,
    Weight: asNumber(weight),
    Description: description,
    EncodedImage: encodedImage,
  };

  const answer = await context.send({ operation, body });
  if (!saysNothing(answer)) decodeEnvelope(operation, answer.body);

  return { result: { action: operation === 'oldest.product.add' ? 'added' : 'edited' } };
}
