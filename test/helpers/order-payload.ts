/** Returns the payload of an order.create with one line, with changes. `undefined` removes a member. */
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
