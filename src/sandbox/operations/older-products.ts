/**
 * The operations on products and stock of the generations oldest and v2, with two that
 * docs/interface.md does not name.
 */

import { z } from 'zod';
import { readBoolean } from '../normalize-body.ts';
import { ruleBroken } from '../refusal.ts';
import { countStock, createProduct } from '../rules/products.ts';
import type { ClientStore } from '../store/client-store.ts';
import { type Product, shipmentStatuses } from '../store/model.ts';
import { decimalIn, members } from './older-fields.ts';
import { defineOperation, envelope, markExtra, nok, ok } from './operation.ts';
import { textIn } from './v3-document.ts';

const productSchema = z.strictObject({
  id: z.int(),
  ...members(z.string(), ['sku', 'name']),
  weight: z.number().nullable(),
  ...members(z.string().nullable(), ['description', 'barcode']),
});
const productBody = z.strictObject({
  Sku: z.string().min(1),
  Weight: decimalIn.transform(Number).pipe(z.number().min(0)).nullish(),
  Name: z.string().min(1),
  Description: textIn,
  EncodedImage: z.union([z.literal(''), z.base64('must be base64')]).nullish(),
  Barcode: markExtra(textIn),
});

const articleSchema = z.strictObject({
  ...members(z.string(), ['sku', 'name']),
  ...members(z.int(), ['stock', 'physicalStock']),
});

/** docs/interface.md, 16 Oldest operations. Bodies are JSON or a form, with PascalCase names. */
export const olderProductOperations = [
  defineOperation({
    name: 'oldest.product.search',
    route: 'POST /product/search',
    summary: 'Whether a product exists',
    form: 'allowed',
    body: z.strictObject({ Sku: textIn, Barcode: textIn }),
    answer: envelope(productSchema),
    run: (call) => {
      const { Sku, Barcode } = call.body;
      const { products, listedProducts } = call.store;
      const hasBarcode = ({ barcode }: Product) => Boolean(Barcode) && barcode === Barcode;
      const product = Sku ? products.get(Sku) : [...listedProducts].find(hasBarcode);
      return answerProduct(product && call.viewRow('product', product));
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
      if (store.products.has(body.Sku))
        throw ruleBroken(`Product ${body.Sku} exists already; use edit`);
      const product = createProduct(
        simulation.ids.next(),
        body.Sku,
        body.Name,
        simulation.store.lists.warehouseCodes,
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
      return product === undefined ? nok('Product not found') : ok('Stock', countStock(product));
    },
  }),
  defineOperation({
    name: 'oldest.stock.bulk',
    route: 'GET /stock/bulk/:all',
    summary:
      'The stock of all articles (true), or of those that changed since the last bulk call (false)',
    described: false,
    answer: envelope(z.array(articleSchema)),
    run: (call) => {
      const isWhole = readBoolean(call.path.all ?? '');
      if (isWhole === undefined) throw ruleBroken('The path must end with true or false');
      const { toldStock } = call.store;
      const picked = countPickedGoods(call.store);
      const result: z.input<typeof articleSchema>[] = [];
      for (const product of call.store.listedProducts) {
        const seen = call.viewRow('product', product);
        if (seen === null) continue;
        const stock = countStock(seen);
        const article = {
          sku: seen.sku,
          name: seen.name,
          stock,
          physicalStock: stock + (picked.get(seen.sku) ?? 0),
        };
        const told = JSON.stringify(article);
        if (isWhole || toldStock.get(seen.sku) !== told) result.push(article);
        toldStock.set(seen.sku, told);
      }
      // This read changes what the next one answers.
      call.world.changes++;
      return ok('Stock', result);
    },
  }),
  defineOperation({
    name: 'v2.product.search',
    route: 'GET /v2/product/search',
    summary: 'Whether a product exists',
    described: false,
    query: { sku: z.string().min(1, 'must not be empty') },
    required: ['sku'],
    answer: envelope(productSchema),
    run: (call) => {
      const product = call.store.products.get(call.query.sku ?? '');
      return answerProduct(product && call.viewRow('product', product));
    },
  }),
];

function answerProduct(product: Product | null | undefined) {
  if (!product) return nok('Product not found');
  const { id, sku, name, weight, description, barcode } = product;
  return ok('Product found', { id, sku, name, weight, description, barcode });
}

function readChanges(body: z.output<typeof productBody>): Partial<Product> {
  const { Name, Weight, Description, EncodedImage, Barcode } = body;
  return {
    ...(Barcode !== undefined && { barcode: Barcode || null }),
    name: Name,
    weight: Weight ?? null,
    description: Description ?? null,
    encodedImage: EncodedImage || null,
  };
}

/**
 * Counts the pieces by sku that are in shipments which have not left yet: stock no longer has them.
 */
function countPickedGoods({ listedShipments }: ClientStore): ReadonlyMap<string, number> {
  const picked = new Map<string, number>();
  for (const status of shipmentStatuses.filter((known) => known !== 'SHIPPED'))
    for (const { items } of listedShipments.findRows('status', status))
      for (const { sku, quantity } of items) picked.set(sku, (picked.get(sku) ?? 0) + quantity);
  return picked;
}
