/** The payload of order.create for one mug, with changes; `undefined` takes a member away. */
export function orderPayload(externalOrderNumber: string, changes: Record<string, unknown> = {}) {
  return {
    externalOrderNumber,
    orderType: 'B2C',
    locale: 'nl-NL',
    email: 'anna@example.com',
    items: [{ sku: 'MUG-BLUE', quantity: 2, price: '9.95', vat: 0.21 }],
    deliveryAddress: {
      firstName: 'Anna',
      lastName: 'de Vries',
      street1: 'Keizersgracht',
      houseNumber: '12',
      postcode: '1015CJ',
      city: 'Amsterdam',
      countryCode: 'NL',
    },
    ...changes,
  };
}
