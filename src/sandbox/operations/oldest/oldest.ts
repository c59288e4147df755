/**
 * Operations of the oldest generation. Its member names are written as the description shows them.
 */

import { z } from 'zod';
import { ruleBroken } from '../../refusal.ts';
import { placeOrder } from '../../rules/place-order.ts';
import { newProduct } from '../../store/catalogue.ts';
import type { Product } from '../../store/model.ts';
import { decimalIn, textIn } from '../older-input.ts';
import { envelope, nok, ok, operation } from '../operation.ts';
import { lookUpOrder, orderLookup } from '../v2/orders.ts';
import { orderBody, readOrder } from './order-body.ts';

const productSchema = z.strictObject({
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

/** Oldest-generation operations (interface.md): PascalCase bodies, JSON or form. */
export const oldestOperations = [
  operation({
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
      const seen = product && call.seen('product', product);
      return seen ? ok('Product found', shown(seen)) : nok('Product not found');
    },
  }),
  operation({
    name: 'oldest.product.add',
    route: 'POST /product/add',
    summary: 'Adds a product',
    form: 'allowed',
    body: productBody,
    answer: envelope(z.int()),
    run: (call) => {
      const { life, store, body } = call;
      if (store.products.has(body.Sku)) throw ruleBroken(`Product ${body.Sku} exists already; use edit`);
      const product = newProduct(life.ids.next(), body.Sku, body.Name);
      Object.assign(product, changesOf(body));
      store.addProduct(product);
      call.wrote('product', product.id, null);
      return ok('Product added', product.id);
    },
  }),
  operation({
    name: 'oldest.product.edit',
    route: 'POST /product/edit',
    summary: 'Changes a product',
    form: 'allowed',
    body: productBody,
    answer: envelope(z.int()),
    run: (call) => {
      const product = call.store.products.get(call.body.Sku);
      if (product === undefined) throw ruleBroken(`There is no product ${call.body.Sku}; use add`);
      call.wrote('product', product.id, product);
      Object.assign(product, changesOf(call.body));
      return ok('Product changed', product.id);
    },
  }),
  operation({
    name: 'oldest.stock.get',
    route: 'GET /stock/get/:sku',
    summary: 'The stock of a product over all warehouses',
    answer: envelope(z.int()),
    run: ({ store, path }) => {
      const product = store.products.get(path.sku ?? '');
      if (product === undefined) return nok('Product not found');
      return ok(
        'Stock',
        Object.values(product.stock).reduce((sum, pieces) => sum + pieces, 0),
      );
    },
  }),
  operation({
    name: 'oldest.order.search',
    route: 'POST /order/search',
    summary: 'Whether an order exists',
    form: 'allowed',
    body: z.strictObject({ ExternalOrderNumber: z.string().min(1) }),
    answer: envelope(orderLookup),
    run: (call) => lookUpOrder(call, call.body.ExternalOrderNumber),
  }),
  operation({
    name: 'oldest.order.add',
    route: 'POST /order/add',
    summary: 'Adds an order',
    form: 'allowed',
    body: orderBody,
    answer: envelope(z.int()),
    run: (call) => {
      const { life, nowMs } = call;
      const order = placeOrder(life, readOrder(call.body, life.store.zone, nowMs), nowMs);
      call.wrote('order', order.id, null);
      return ok('Order added', order.id);
    },
  }),
];

function shown({ id, sku, name, weight, description, barcode }: Product) {
  return { id, sku, name, weight, description, barcode };
}

function changesOf(body: z.output<typeof productBody>): Partial<Product> {
  const { Name, Weight, Description, EncodedImage } = body;
  return {
    name: Name,
    weight: Weight ?? null,
    description: Description ?? null,
    encodedImage: EncodedImage || null,
  };
}
