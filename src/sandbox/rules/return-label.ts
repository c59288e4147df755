import { ruleBroken } from '../refusal.ts';
import type { ServiceSettings } from '../store/settings.ts';
import type { Simulation } from '../store/simulation.ts';
import { writePage } from './pdf.ts';

export interface LabelRequest {
  readonly shippingMethodId: number | undefined;
  readonly paperless: boolean;
}

/**
 * Creates a return label (docs/interface.md, 15.9 Return label). The label is the same for each request with the same
 * shipment and method. Its number becomes the `returnLabel` of the shipment.
 * @throws Refusal if the shipment does not exist or was not shipped, or if no method fits the request
 */
export async function makeReturnLabel(
  simulation: Simulation,
  shipmentId: number,
  request: LabelRequest,
  nowMs: number,
) {
  const { store } = simulation;
  const shipment = Number.isSafeInteger(shipmentId) ? store.shipments.get(shipmentId) : undefined;
  if (shipment === undefined || shipment.visibleFromMs > nowMs) throw ruleBroken('Shipment not found');
  if (shipment.status !== 'SHIPPED') throw ruleBroken('No label could be made: the shipment has not been shipped');
  const method = chooseMethod(store.settings, request);
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

function chooseMethod({ returnShippingMethods }: ServiceSettings, { shippingMethodId, paperless }: LabelRequest) {
  const method =
    shippingMethodId === undefined
      ? returnShippingMethods.find((known) => !paperless || known.paperless)
      : returnShippingMethods.find(({ id }) => id === shippingMethodId);
  const wanted = shippingMethodId ?? 'without paper';
  if (method === undefined) throw ruleBroken(`No label could be made: there is no return shipping method ${wanted}`);
  if (paperless && !method.paperless) throw ruleBroken(`No label could be made: ${method.name} is not paperless`);
  return method;
}
