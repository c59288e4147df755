/** The settings lists of the sandbox (docs/interface.md, 6.2 Settings). All rows use the ids of these lists. */
export const settings = {
  mainShippingMethods: [
    {
      id: 11,
      name: 'Parcel',
      code: 'PARCEL',
      shippingMethods: [
        { id: 111, warehouse: 'AMS' },
        { id: 112, warehouse: 'EIN' },
      ],
    },
    { id: 12, name: 'Letterbox', code: 'LETTERBOX', shippingMethods: [{ id: 121, warehouse: 'AMS' }] },
    { id: 13, name: 'Pallet', code: 'PALLET', shippingMethods: [{ id: 132, warehouse: 'EIN' }] },
  ],
  shippingMethods: [
    { id: 111, name: 'Parcel AMS', code: 'PARCEL_AMS' },
    { id: 112, name: 'Parcel EIN', code: 'PARCEL_EIN' },
    { id: 121, name: 'Letterbox AMS', code: 'LETTERBOX_AMS' },
    { id: 132, name: 'Pallet EIN', code: 'PALLET_EIN' },
  ],
  returnShippingMethods: [
    { id: 21, name: 'Return parcel', code: 'RETURN_PARCEL' },
    { id: 22, name: 'Paperless return', code: 'RETURN_PAPERLESS' },
  ],
  orderTypes: [
    { id: 31, name: 'Consumer', code: 'B2C' },
    { id: 32, name: 'Business', code: 'B2B' },
  ],
  returnReasons: [
    { id: 41, name: 'Too small', code: 'TOO_SMALL' },
    { id: 42, name: 'Damaged', code: 'DAMAGED' },
    { id: 43, name: 'Changed my mind', code: 'REGRET' },
  ],
  languages: [
    { id: 51, name: 'Nederlands', code: 'nl-NL' },
    { id: 52, name: 'Deutsch', code: 'de-DE' },
    { id: 53, name: 'Français', code: 'fr-BE' },
  ],
  countries: [
    { id: 61, name: 'Netherlands', code: 'NL' },
    { id: 62, name: 'Germany', code: 'DE' },
    { id: 63, name: 'Belgium', code: 'BE' },
  ],
  paymentMethods: [],
} as const;

/** The id of a return reason that exists but is not available to the clients of the sandbox. */
export const unavailableReturnReasonId = 49;

/** The warehouses of the fulfilment strategy. v2 orders use their ids. */
export const warehouses = [
  { id: 1, code: 'AMS' },
  { id: 2, code: 'EIN' },
] as const;
/** A warehouse of the service that is not part of the fulfilment strategy. */
export const warehouseOutsideStrategy = { id: 3, code: 'ROT' } as const;
export const warehouseCodes = warehouses.map(({ code }) => code);

/** Whether an order may leave in several parcels if it does not say so itself (docs/interface.md, 7.1 Fields). */
export const partialDeliveryByOrderType: Readonly<Record<number, boolean>> = { 31: false, 32: true };

export const noReplyAddress = 'no-reply@fulfilment.example';
export const paperlessReturnMethodId = 22;

/** Returns the id of the older shipping method that a warehouse uses for a main shipping method. */
export function findShippingMethodId(mainMethodId: number, warehouseCode: string): number {
  const methods = settings.mainShippingMethods.find(({ id }) => id === mainMethodId)?.shippingMethods ?? [];
  return (methods.find(({ warehouse }) => warehouse === warehouseCode) ?? methods[0])?.id ?? 0;
}
