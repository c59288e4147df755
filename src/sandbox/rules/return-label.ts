import { ruleBroken } from '../refusal.ts';
import type { Life } from '../store/life.ts';
import { paperlessReturnMethodId, settings } from '../store/settings.ts';
import { writePage } from './pdf.ts';

export interface LabelWish {
  readonly shippingMethodId: number | undefined;
  readonly paperless: boolean;
}

/**
 * Makes the label of a return, the same one for the same shipment and method however often it is asked for
 * (interface.md, Return label for a shipment). The shipment shows its number from then on.
 * @throws Refusal where the shipment does not exist or was not shipped, or the method does not go with the wish
 */
export async function makeReturnLabel(life: Life, shipmentId: number, wish: LabelWish, nowMs: number) {
  const { store } = life;
  const shipment = Number.isSafeInteger(shipmentId) ? store.shipments.get(shipmentId) : undefined;
  if (shipment === undefined || shipment.visibleFromMs > nowMs) throw ruleBroken('Shipment not found');
  if (shipment.status !== 'SHIPPED') throw ruleBroken('No label could be made: the shipment has not been shipped');
  const method = methodFor(wish);
  const isPaperless = method.id === paperlessReturnMethodId;
  const packageNumber = `3SRET${String(shipment.id).padStart(9, '0')}${method.id}`;
  const lines = [
    'Return label',
    method.name,
    `Shipment ${shipment.id}`,
    packageNumber,
    `To warehouse ${shipment.warehouseCode}`,
  ];
  const content = await writePage(isPaperless ? [...lines, 'Paperless: show this code at the counter'] : lines);
  store.listedShipments.change(shipment, () => {
    shipment.returnLabel = packageNumber;
  });
  return {
    mimeType: 'application/pdf',
    fileName: `return-label-${shipment.id}.pdf`,
    shippingMethodId: String(method.id),
    packageNumber,
    isPaperlessReturnShippingMethod: isPaperless,
    content: content.toString('base64'),
  };
}

function methodFor({ shippingMethodId, paperless }: LabelWish) {
  const [usual] = settings.returnShippingMethods;
  const wanted = shippingMethodId ?? (paperless ? paperlessReturnMethodId : usual.id);
  const method = settings.returnShippingMethods.find(({ id }) => id === wanted);
  if (method === undefined) throw ruleBroken(`No label could be made: there is no return shipping method ${wanted}`);
  if (paperless && method.id !== paperlessReturnMethodId)
    throw ruleBroken(`No label could be made: ${method.name} is not paperless`);
  return method;
}
