#!/usr/bin/env bash
# Orders two mugs at a sandbox, lets them be shipped, and sends one back (docs/sandbox.md). Start the
# sandbox with: fulfilment-sync sandbox --speed 0 --orders-per-day 0
set -euo pipefail

BASE=http://127.0.0.1:8090
field() { node -p "const answer = JSON.parse(fs.readFileSync(0, 'utf8')); answer$1"; }

TOKEN=$(curl -s "$BASE/token" -d grant_type=password -d username=default -d password=default | field .access_token)
call() { curl -sg -H "authorization: bearer $TOKEN" -H 'content-type: application/json' "$@"; }

# An order of two mugs.
ORDER=$(call "$BASE/v3/orders" -d '{"data": {
  "type": "order",
  "attributes": {"externalOrderNumber": "SO-1001", "locale": "nl-NL"},
  "relationships": {
    "orderType": {"data": {"id": 31, "type": "orderType"}},
    "deliveryAddress": {"data": {"id": "home", "type": "address"}}
  },
  "included": [
    {"type": "orderItem", "attributes": {"sku": "MUG-BLUE", "quantity": 2, "price": 9.95, "vat": 0.21}},
    {"type": "address", "id": "home", "attributes": {"firstName": "Anna", "lastName": "de Vries", "street1": "Keizersgracht",
      "houseNumber": "12", "postcode": "1015CJ", "city": "Amsterdam", "countryCode": "NL"}}
  ]
}}' | field .data.id)

# A day later it is shipped.
call "$BASE/_sandbox/advance" -d '{"seconds": 86400}' > /dev/null
SHIPMENTS=$(call "$BASE/v3/shipments?filter[orderId]=$ORDER&include=shipmentItems")
field '.data.map((shipment) => shipment.attributes.status).join()' <<< "$SHIPMENTS"
# => SHIPPED
field '.data.flatMap((shipment) => shipment.included).map(({ attributes }) => attributes.quantity + " x " + attributes.sku).join()' <<< "$SHIPMENTS"
# => 2 x MUG-BLUE

# One comes back.
SHIPMENT=$(field '.data[0].id' <<< "$SHIPMENTS")
MUG=$(field '.data[0].included[0].id' <<< "$SHIPMENTS")
call "$BASE/v3/returnMerchandiseAuthorizations" -d '{"data": {
  "type": "returnMerchandiseAuthorization",
  "attributes": {"externalReference": "RET-1", "comments": "handle broken"},
  "relationships": {"shipment": {"data": {"id": '"$SHIPMENT"', "type": "shipment"}}},
  "included": [{
    "type": "returnMerchandiseAuthorizationItem",
    "attributes": {"quantity": 1, "reasonCode": "DAMAGED"},
    "relationships": {"shipmentItem": {"data": {"id": '"$MUG"', "type": "shipmentItem"}}}
  }]
}}' | field .data.attributes.status
# => PENDING

# It is processed.
call "$BASE/_sandbox/advance" -d '{"seconds": 2592000}' > /dev/null
call "$BASE/v3/returnItems" | field '.data.map(({ attributes }) => attributes.quantity + " x " + attributes.sku).join()'
# => 1 x MUG-BLUE

# Older generations answer in envelopes.
call "$BASE/v2/order/search?externalOrderNumber=SO-1001" | field .result.externalOrderNumber
# => SO-1001
curl -s -H "authorization: bearer $TOKEN" "$BASE/product/search" -d Sku=MUG-BLUE | field .result.name
# => Mug, blue
