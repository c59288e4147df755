/**
 * The operations on products and stock of the generations oldest and v2, with two that
 * docs/interface.md does not name.
 */

import { z } from 'zod';
import { requireFound, ruleBroken } from '../refusal.ts';
import { countStock, createProduct } from '../rules/products.ts';
import type { Client } from '../store/client.ts';
import type { Product } from '../store/model.ts';
import {
  type Call,
  defineFields,
  defineOperation,
  envelope,
  markExtra,
  members,
  nok,
  notEmpty,
  numberIn,
  ok,
  readBoolean,
  recordWrite,
  textIn,
  viewRow,
} from './operation.ts';

const productFields = defineFields<Product>({
  id: z.int(),
  ...members(z.string(), ['sku', 'name']),
  weight: z.number().nullable(),
  ...members(z.string().nullable(), ['description', 'barcode']),
});
const productBody = z.strictObject({
  Sku: z.string().min(1),
  Weight: numberIn.pipe(z.number().min(0)).nullish(),
  Name: z.string().min(1),
  // No answer shows the image.
  ...members(textIn, ['Description', 'EncodedImage']),
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
    body: z.strictObject({ Sku: textIn, Barcode: textIn }),
    answer: envelope(productFields.schema),
    run: (call) => {
      const { Sku, Barcode } = call.body;
      const { products } = call.client;
      const hasBarcode = ({ barcode }: Product) => Boolean(Barcode) && barcode === Barcode;
      return answerProduct(call, Sku ? products.get(Sku) : products.values().find(hasBarcode));
    },
  }),
  defineOperation({
    name: 'oldest.product.add',
    route: 'POST /product/add',
    summary: 'Adds a product',
    body: productBody,
    answer: envelope(z.int()),
    run: (call) => {
      const { client, body } = call;
      if (client.products.has(body.Sku))
        throw ruleBroken(`Product ${body.Sku} exists already; use edit`);

      const product = { ...createProduct(client, body.Sku, body.Name), ...readChanges(body) };
      client.products.set(body.Sku, product);
      recordWrite(call, product, 'creation');
      return ok('Product added', product.id);
    },
  }),
  defineOperation({
    name: 'oldest.product.edit',
    route: 'POST /product/edit',
    summary: 'Changes a product',
    body: productBody,
    answer: envelope(z.int()),
    run: (call) => {
      const { Sku } = call.body;
      const known = call.client.products.get(Sku);
      const product = requireFound(known, `There is no product ${Sku}; use add`);

      recordWrite(call, product);
      Object.assign(product, readChanges(call.body));
      return ok('Product changed', product.id);
    },
  }),
  defineOperation({
    name: 'oldest.stock.get',
    route: 'GET /stock/get/:sku',
    summary: 'The stock of a product over all warehouses',
    answer: envelope(z.int()),
    run: ({ client, path }) => {
      const product = client.products.get(path.sku ?? '');
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
      const given = readBoolean(call.path.all ?? '');
      const isWhole = requireFound(given, 'The path must end with true or false');
      return ok('Stock', listStock(call, isWhole));
    },
  }),
  defineOperation({
    name: 'v2.product.search',
    route: 'GET /v2/product/search',
    summary: 'Whether a product exists',
    described: false,
    query: { sku: notEmpty },
    required: ['sku'],
    answer: envelope(productFields.schema),
    run: (call) => answerProduct(call, call.client.products.get(call.query.sku ?? '')),
  }),
];

function answerProduct(call: Call, known: Product | undefined) {
  const product = known && viewRow(call, known);
  return product
    ? ok('Product found', productFields.show(product, call.client))
    : nok('Product not found');
}

function readChanges(body: z.output<typeof productBody>): Partial<Product> {
  const { Name, Weight, Description, Barcode } = body;
  return {
    ...(Barcode !== undefined && { barcode: Barcode || null }),
    name: Name,
    weight: Weight ?? null,
    description: Description ?? null,
  };
}

function listStock(call: Call, isWhole: boolean): z.input<typeof articleSchema>[] {
  const { products, toldStock } = call.client;
  const picked = countPickedGoods(call.client);
  const articles: z.input<typeof articleSchema>[] = [];

  for (const product of products.values()) {
    const seen = viewRow(call, product);
    if (seen === null) continue;

    const { sku, name } = seen;
    const stock = countStock(seen);
    const article = { sku, name, stock, physicalStock: stock + (picked.get(sku) ?? 0) };
    const told = JSON.stringify(article);
    if (isWhole || toldStock.get(sku) !== told) articles.push(article);
    toldStock.set(sku, told);
  }

  // This read changes what the next one answers.
  call.world.changes++;
  return articles;
}

/** Counts the pieces by sku in shipments that have not left yet: stock no longer has them. */
function countPickedGoods({ shipments }: Client): ReadonlyMap<string, number> {
  const picked = new Map<string, number>();
  for (const { items } of shipments.filter(({ status }) => status !== 'SHIPPED'))
    for (const { sku, quantity } of items) picked.set(sku, (picked.get(sku) ?? 0) + quantity);
  return picked;
}
