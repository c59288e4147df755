/**
 * Operations that docs/interface.md does not name, but that clients of similar services use. Their fields are our
 * decision (docs/sandbox.md).
 */

import { z } from 'zod';
import { readBoolean } from '../normalize-body.ts';
import { ruleBroken } from '../refusal.ts';
import { countStock } from '../rules/products.ts';
import type { ClientStore } from '../store/client-store.ts';
import { shipmentStatuses } from '../store/model.ts';
import { dayIn, integerIn, textIn } from './older-fields.ts';
import { answerProduct, productSchema } from './oldest.ts';
import { defineOperation, envelope, ok } from './operation.ts';
import { paging, wholeNumber } from './parameters.ts';
import {
  answerShipments,
  filterByOrderTypes,
  findShipments,
  foundShipmentSchema,
  listedShipmentSchema,
  orderTypes,
  toFoundShipments,
  toListedShipment,
} from './v2-shipments.ts';
import { pageSchema, resourceSchema } from './v3-document.ts';

const articleSchema = z.strictObject({
  sku: z.string(),
  name: z.string(),
  stock: z.int(),
  physicalStock: z.int(),
});

const list = { described: false, answer: envelope(z.array(listedShipmentSchema)) } as const;

export const extraOperations = [
  defineOperation({
    name: 'oldest.stock.bulk',
    route: 'GET /stock/bulk/:all',
    summary: 'The stock of all articles (true), or of those that changed since the last bulk call (false)',
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
        const article = { sku: seen.sku, name: seen.name, stock, physicalStock: stock + (picked.get(seen.sku) ?? 0) };
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
  defineOperation({
    name: 'v3.products.list',
    route: 'GET /v3/products',
    summary: "The client's products, by ascending id",
    described: false,
    query: paging,
    answer: pageSchema(resourceSchema('product', { sku: z.string(), name: z.string() }, null)),
    run: (call) =>
      call.renderList('product', { sources: [call.store.listedProducts], tests: [] }, ({ id, sku, name }) => ({
        resource: { id, type: 'product', attributes: { sku, name } },
        included: [],
      })),
  }),
  defineOperation({
    name: 'oldest.shipment.search',
    route: 'POST /shipment/search',
    summary: 'Shipments by criteria, all optional',
    described: false,
    form: 'allowed',
    body: z.strictObject({ Id: integerIn.nullish(), ExternalOrderNumber: textIn, ShippingDate: dayIn }).nullable(),
    answer: envelope(z.array(foundShipmentSchema)),
    run: (call) => {
      const { Id, ExternalOrderNumber, ShippingDate } = call.body ?? {};
      const criteria = { id: Id, externalOrderNumber: ExternalOrderNumber, shippingDate: ShippingDate };
      const found = findShipments(call, criteria);
      return ok(
        'Shipments',
        found.flatMap((shipment) => toFoundShipments(call.store, shipment)),
      );
    },
  }),
  defineOperation({
    ...list,
    name: 'v2.shipment.get',
    route: 'GET /v2/shipment/get',
    summary: 'One shipment of any age, or all that the list has',
    query: { id: wholeNumber },
    run: (call) => {
      const { id } = call.query;
      if (id === undefined) return answerShipments(call, []);
      const found = findShipments(call, { id });
      return ok(
        'Shipments',
        found.map((shipment) => toListedShipment(call.store, shipment)),
      );
    },
  }),
  defineOperation({
    ...list,
    name: 'v2.shipment.byOrderType',
    route: 'POST /v2/shipment/byordertype',
    summary: 'Shipments of certain order types',
    body: orderTypes,
    run: (call) => answerShipments(call, filterByOrderTypes(call)),
  }),
  defineOperation({
    name: 'v2.shipment.sync',
    route: 'POST /v2/shipment/sync',
    summary: 'Acknowledges shipments, so that the v2 lists leave them out',
    described: false,
    body: z.strictObject({ ids: z.array(z.int('must be a whole number')) }),
    answer: envelope(z.null()),
    run: (call) => {
      const shipments = call.body.ids.map((id) => {
        const [shipment] = findShipments(call, { id });
        if (shipment === undefined) throw ruleBroken(`There is no shipment ${id}`);
        return shipment;
      });
      for (const shipment of shipments) shipment.acknowledged = true;
      return ok('Shipments acknowledged');
    },
  }),
];

/** Counts the pieces by sku that are in shipments which have not left yet: stock no longer has them. */
function countPickedGoods({ listedShipments }: ClientStore): ReadonlyMap<string, number> {
  const picked = new Map<string, number>();
  for (const status of shipmentStatuses.filter((known) => known !== 'SHIPPED'))
    for (const { items } of listedShipments.findRows('status', status))
      for (const { sku, quantity } of items) picked.set(sku, (picked.get(sku) ?? 0) + quantity);
  return picked;
}
