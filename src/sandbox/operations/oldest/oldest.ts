/**
 * The operations of the oldest generation. The member names are those of docs/interface.md.
 */

import { z } from 'zod';
import { ruleBroken } from '../../refusal.ts';
import { placeOrder } from '../../rules/orders.ts';
import { countStock, createProduct } from '../../rules/products.ts';
import type { Product } from '../../store/model.ts';
import { decimalIn, textIn } from '../older-fields.ts';
import { defineOperation, envelope, nok, ok } from '../operation.ts';
import { lookUpOrder, orderLookup } from '../v2/orders.ts';
import { orderBody, readOrder } from './order-body.ts';

/** A product that a search has found. */
export const productSchema = z.strictObject({
  id: z.int(),
  sku: z.string(),
  name: z.string(),
  weight: z.number().nullable(),
  description: z.string().nullable(),
  barcode: z.string().nullable(),
});
const productBody = z.strictObject({
  Sku: z.string().min(1),
  Weight: decimalIn.transform(Number).pipe(z.number().min(0)).nullish(),
  Name: z.string().min(1),
  Description: textIn,
  EncodedImage: z.union([z.literal(''), z.base64('must be base64')]).nullish(),
});

/**
 * The oldest operations (docs/interface.md, 16 Oldest operations). Bodies are JSON or a form, with PascalCase names.
 */
export const oldestOperations = [
  defineOperation({
    name: 'oldest.product.search',
    route: 'POST /product/search',
    summary: 'Whether a product exists',
    form: 'allowed',
    body: z.strictObject({ Sku: textIn, Barcode: textIn }),
    answer: envelope(productSchema),
    run: (call) => {
      const { Sku, Barcode } = call.body;
      const { products, productByBarcode } = call.store;
      const product = Sku ? products.get(Sku) : productByBarcode.get(Barcode ?? '');
      const seen = product && call.viewRow('product', product);
      return answerProduct(seen);
    },
  }),
  defineOperation({
    name: 'oldest.product.add',
    route: 'POST /product/add',
    summary: 'Adds a product',
    form: 'allowed',
    body: productBody,
    answer: envelope(z.int()),
    run: (call) => {
      const { simulation, store, body } = call;
      if (store.products.has(body.Sku)) throw ruleBroken(`Product ${body.Sku} exists already; use edit`);
      const product = createProduct(
        simulation.ids.next(),
        body.Sku,
        body.Name,
        simulation.store.settings.warehouseCodes,
      );
      Object.assign(product, readChanges(body));
      store.addProduct(product);
      call.recordWrite('product', product.id, null);
      return ok('Product added', product.id);
    },
  }),
  defineOperation({
    name: 'oldest.product.edit',
    route: 'POST /product/edit',
    summary: 'Changes a product',
    form: 'allowed',
    body: productBody,
    answer: envelope(z.int()),
    run: (call) => {
      const product = call.store.products.get(call.body.Sku);
      if (product === undefined) throw ruleBroken(`There is no product ${call.body.Sku}; use add`);
      call.recordWrite('product', product.id, product);
      Object.assign(product, readChanges(call.body));
      return ok('Product changed', product.id);
    },
  }),
  defineOperation({
    name: 'oldest.stock.get',
    route: 'GET /stock/get/:sku',
    summary: 'The stock of a product over all warehouses',
    answer: envelope(z.int()),
    run: ({ store, path }) => {
      const product = store.products.get(path.sku ?? '');
      if (product === undefined) return nok('Product not found');
      return ok('Stock', countStock(product));
    },
  }),
  defineOperation({
    name: 'oldest.order.search',
    route: 'POST /order/search',
    summary: 'Whether an order exists',
    form: 'allowed',
    body: z.strictObject({ ExternalOrderNumber: z.string().min(1) }),
    answer: envelope(orderLookup),
    run: (call) => lookUpOrder(call, call.body.ExternalOrderNumber),
  }),
  defineOperation({
    name: 'oldest.order.add',
    route: 'POST /order/add',
    summary: 'Adds an order',
    form: 'allowed',
    body: orderBody,
    answer: envelope(z.int()),
    run: (call) => {
      const { simulation, nowMs } = call;
      const order = placeOrder(simulation, readOrder(call.body, simulation.store, nowMs), nowMs);
      call.recordWrite('order', order.id, null);
      return ok('Order added', order.id);
    },
  }),
];

/** Answers a search with the product that was found, or with NOK. */
export function answerProduct(product: Product | null | undefined) {
  if (!product) return nok('Product not found');
  const { id, sku, name, weight, description, barcode } = product;
  return ok('Product found', { id, sku, name, weight, description, barcode });
}

function readChanges(body: z.output<typeof productBody>): Partial<Product> {
  const { Name, Weight, Description, EncodedImage } = body;
  return {
    name: Name,
    weight: Weight ?? null,
    description: Description ?? null,
    encodedImage: EncodedImage || null,
  };
}
