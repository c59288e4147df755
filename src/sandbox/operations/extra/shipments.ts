/**
 * Operations on shipments that docs/interface.md does not name. Their fields are our decision (docs/sandbox.md).
 */

import { z } from 'zod';
import { ruleBroken } from '../../refusal.ts';
import {
  foundShipmentSchema,
  listedShipmentSchema,
  toFoundShipments,
  toListedShipment,
} from '../../resources/v2-shipments.ts';
import { dayIn, integerIn, textIn } from '../older-fields.ts';
import { defineOperation, envelope, ok } from '../operation.ts';
import { wholeNumber } from '../parameters.ts';
import { answerShipments, filterByOrderTypes, findShipments, orderTypes } from '../v2/shipments.ts';

const list = { described: false, answer: envelope(z.array(listedShipmentSchema)) } as const;

export const extraShipmentOperations = [
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
