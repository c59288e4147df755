import { z } from 'zod';
import { ruleBroken } from '../refusal.ts';
import { announceReturn } from '../rules/announcements.ts';
import { writePage } from '../rules/pdf.ts';
import type { ServiceLists } from '../store/service-lists.ts';
import type { Simulation } from '../store/simulation.ts';
import { textIn } from './older-fields.ts';
import { defineOperation, envelope, ok } from './operation.ts';
import { flag, wholeNumber } from './parameters.ts';

const rmaBody = z.strictObject({
  shipmentId: z.int(),
  remark: textIn,
  externalReference: textIn,
  // One object, not an array (docs/interface.md, 15.8 Create a return: body).
  rmaItems: z.strictObject({
    shipmentItemId: z.int(),
    quantity: z.int().min(1, 'must be at least 1').max(1_000_000),
    returnReasonId: z.int(),
    externalReference: textIn,
    metadata: z
      .strictObject({ purchasePrice: z.union([z.string(), z.number()]).nullish(), reference: textIn })
      .nullish(),
  }),
});
const labelSchema = z.strictObject({
  mimeType: z.literal('application/pdf'),
  fileName: z.string(),
  shippingMethodId: z.string(),
  packageNumber: z.string(),
  isPaperlessReturnShippingMethod: z.boolean(),
  /** docs/interface.md does not show further fields. The names of these are our decision (docs/sandbox.md). */
  content: z.base64(),
  data: z.base64(),
});

/** The v2 operations on returns (docs/interface.md, 15.1 Operations). */
export const v2ReturnOperations = [
  defineOperation({
    name: 'v2.rma.add',
    route: 'POST /v2/rma/add',
    summary: 'Announces a return of one shipment item',
    documented: false,
    body: rmaBody,
    answer: envelope(z.int()),
    run: ({ simulation, body, nowMs }) => {
      const { shipmentItemId, quantity, returnReasonId, externalReference, metadata } = body.rmaItems;
      const line = {
        shipmentItemId,
        quantity,
        reasonId: returnReasonId,
        externalReference: externalReference || null,
        metadata: metadata ?? {},
        claim: { sku: null, productId: null },
      };
      const { shipmentId, remark, externalReference: authorizationReference } = body;
      const draft = {
        shipmentId,
        externalReference: authorizationReference || null,
        comments: remark || null,
        metadata: {},
        lines: [line],
      };
      return ok('Return announced', announceReturn(simulation, draft, nowMs).id);
    },
  }),
  defineOperation({
    name: 'v2.returnLabel.get',
    route: 'GET /v2/returnlabel/get/:shipmentId',
    summary: 'A label by which a customer sends something back',
    documented: false,
    query: { shippingMethodId: wholeNumber, paperless: flag },
    answer: envelope(labelSchema),
    run: async (call) => {
      const { shippingMethodId, paperless = false } = call.query;
      const label = await makeReturnLabel(
        call.simulation,
        Number(call.path.shipmentId),
        { shippingMethodId, paperless },
        call.nowMs,
      );
      // This read changes the shipment.
      call.world.changes++;
      return ok('Return label', label);
    },
  }),
];

interface LabelRequest {
  readonly shippingMethodId: number | undefined;
  readonly paperless: boolean;
}

/**
 * Creates a return label (docs/interface.md, 15.9 Return label). The label is the same for each request with the same
 * shipment and method. Its number becomes the `returnLabel` of the shipment.
 * @throws Refusal if the shipment does not exist or was not shipped, or if no method fits the request
 */
async function makeReturnLabel(simulation: Simulation, shipmentId: number, request: LabelRequest, nowMs: number) {
  const { store } = simulation;
  const shipment = Number.isSafeInteger(shipmentId) ? store.shipments.get(shipmentId) : undefined;
  if (shipment === undefined || shipment.visibleFromMs > nowMs) throw ruleBroken('Shipment not found');
  if (shipment.status !== 'SHIPPED') throw ruleBroken('No label could be made: the shipment has not been shipped');
  const method = chooseMethod(store.lists, request);
  const isPaperless = method.paperless ?? false;
  const packageNumber = `3SRET${String(shipment.id).padStart(9, '0')}${method.id}`;
  const lines = [
    'Return label',
    method.name,
    `Shipment ${shipment.id}`,
    packageNumber,
    `To warehouse ${shipment.warehouseCode}`,
  ];
  const document = await writePage(isPaperless ? [...lines, 'Paperless: show this code at the counter'] : lines);
  const content = document.toString('base64');
  store.listedShipments.change(shipment, () => {
    shipment.returnLabel = packageNumber;
  });
  return {
    mimeType: 'application/pdf',
    fileName: `return-label-${shipment.id}.pdf`,
    shippingMethodId: String(method.id),
    packageNumber,
    isPaperlessReturnShippingMethod: isPaperless,
    content,
    data: content,
  };
}

function chooseMethod({ returnShippingMethods }: ServiceLists, { shippingMethodId, paperless }: LabelRequest) {
  const method =
    shippingMethodId === undefined
      ? returnShippingMethods.find((known) => !paperless || known.paperless)
      : returnShippingMethods.find(({ id }) => id === shippingMethodId);
  const wanted = shippingMethodId ?? 'without paper';
  if (method === undefined) throw ruleBroken(`No label could be made: there is no return shipping method ${wanted}`);
  if (paperless && !method.paperless) throw ruleBroken(`No label could be made: ${method.name} is not paperless`);
  return method;
}
