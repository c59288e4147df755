import { z } from 'zod';
import { idSchema, toMany, toOne } from './jsonapi.ts';
import { count, date, metadata, relations, text } from './v3-members.ts';

/** returnMerchandiseAuthorizationItem (interface.md, v3 returnMerchandiseAuthorization). */
export const authorizationItemSchema = z.looseObject({
  id: idSchema,
  type: z.literal('returnMerchandiseAuthorizationItem'),
  attributes: z.looseObject({ externalReference: text, sku: text, quantity: count, reasonCode: text, metadata }),
  relationships: relations({ shipmentItem: toOne, product: toOne, returnReason: toOne, returnItem: toOne }),
});
export type AuthorizationItem = z.infer<typeof authorizationItemSchema>;

/** returnMerchandiseAuthorization (interface.md, v3 returnMerchandiseAuthorization). */
export const authorizationSchema = z.looseObject({
  id: idSchema,
  type: z.literal('returnMerchandiseAuthorization'),
  attributes: z.looseObject({
    externalReference: text,
    comments: text,
    metadata,
    status: text,
    createdOn: date,
    modifiedOn: date,
  }),
  relationships: relations({ shipment: toOne, returnMerchandiseAuthorizationItems: toMany }),
});
export type Authorization = z.infer<typeof authorizationSchema>;
