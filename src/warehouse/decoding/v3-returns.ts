import { z } from 'zod';
import { idSchema, toMany, toOne } from './jsonapi.ts';
import { count, date, metadata, relations, text } from './v3-members.ts';

/** returnMerchandiseAuthorizationItem (docs/interface.md, 11.2 Items). */
export const authorizationItemSchema = z.looseObject({
  id: idSchema,
  type: z.literal('returnMerchandiseAuthorizationItem'),
  attributes: z.looseObject({ externalReference: text, sku: text, quantity: count, reasonCode: text, metadata }),
  relationships: relations({ shipmentItem: toOne, product: toOne, returnReason: toOne, returnItem: toOne }),
});
export type AuthorizationItem = z.infer<typeof authorizationItemSchema>;

/** returnMerchandiseAuthorization (docs/interface.md, 11.1 Fields). */
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
