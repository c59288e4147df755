/** Made by `npm run golden` from the schemas of all kinds. Do not edit it. */

/** Payload of order.create. */
export interface OrderCreatePayload {
  readonly externalOrderNumber: string;
  /** code of the settings list orderTypes */
  readonly orderType?: string | null | undefined;
  readonly orderTypeId?: number | null | undefined;
  /** code of the settings list mainShippingMethods */
  readonly shippingMethod?: string | null | undefined;
  readonly shippingMethodId?: number | null | undefined;
  readonly locale: string;
  readonly email?: string | null | undefined;
  readonly phoneNumber?: string | null | undefined;
  readonly vatNumber?: string | null | undefined;
  readonly reference?: string | null | undefined;
  readonly consumerReference?: string | null | undefined;
  readonly promotionCode?: string | null | undefined;
  readonly orderedOn?: string | null | undefined;
  readonly fulfillFrom?: string | null | undefined;
  readonly preferredShippingDate?: string | null | undefined;
  readonly allowPartialDelivery?: boolean | null | undefined;
  readonly onHold?: boolean | null | undefined;
  readonly metadata?: {
    readonly extra1?: string | null | undefined;
    readonly extra2?: string | null | undefined;
    readonly extra3?: string | null | undefined;
    readonly extra4?: string | null | undefined;
    readonly extra5?: string | null | undefined;
  } | null | undefined;
  readonly items: readonly {
    readonly sku: string;
    readonly quantity: number;
    readonly price?: number | string | null | undefined;
    readonly vat?: number | string | null | undefined;
    readonly name?: string | null | undefined;
    readonly fulfillFrom?: string | null | undefined;
    readonly channelIdentifier?: string | null | undefined;
    readonly metadata?: {
      readonly serviceLevel?: string | null | undefined;
      readonly purchases?: string | null | undefined;
      readonly reference?: string | null | undefined;
      readonly extra6?: string | null | undefined;
      readonly extra7?: string | null | undefined;
    } | null | undefined;
  }[];
  readonly deliveryAddress: {
    readonly firstName?: string | null | undefined;
    readonly prefix?: string | null | undefined;
    readonly lastName: string;
    readonly street1: string;
    readonly houseNumber?: string | null | undefined;
    readonly houseNumberExtension?: string | null | undefined;
    readonly postcode?: string | null | undefined;
    readonly city?: string | null | undefined;
    readonly countryCode: string;
  };
  readonly billingAddress?: {
    readonly firstName?: string | null | undefined;
    readonly prefix?: string | null | undefined;
    readonly lastName: string;
    readonly street1: string;
    readonly houseNumber?: string | null | undefined;
    readonly houseNumberExtension?: string | null | undefined;
    readonly postcode?: string | null | undefined;
    readonly city?: string | null | undefined;
    readonly countryCode: string;
  } | null | undefined;
  readonly pickUpPoint?: { readonly [member: string]: unknown } | null | undefined;
  readonly attachments?: readonly {
    readonly filename: string;
    /** pdf document, base64; white space is allowed */
    readonly content: string;
  }[] | null | undefined;
}

/** Payload of order.update. */
export interface OrderUpdatePayload {
  readonly reference?: string | null | undefined;
  readonly consumerReference?: string | null | undefined;
  readonly promotionCode?: string | null | undefined;
  readonly locale?: string | undefined;
  readonly email?: string | null | undefined;
  readonly phoneNumber?: string | null | undefined;
  readonly vatNumber?: string | null | undefined;
  readonly fulfillFrom?: string | null | undefined;
  readonly preferredShippingDate?: string | null | undefined;
  readonly allowPartialDelivery?: boolean | null | undefined;
  readonly onHold?: boolean | undefined;
  readonly metadata?: {
    readonly extra1?: string | null | undefined;
    readonly extra2?: string | null | undefined;
    readonly extra3?: string | null | undefined;
    readonly extra4?: string | null | undefined;
    readonly extra5?: string | null | undefined;
  } | null | undefined;
}

/** Payload of order.rename. */
export interface OrderRenamePayload {
  /** the new number; the reference of the row is the present one */
  readonly externalOrderNumber: string;
}

/** Payload of order.cancel. */
export interface OrderCancelPayload {
  readonly [member: string]: never;
}

/** Payload of order.release. */
export interface OrderReleasePayload {
  readonly [member: string]: never;
}

/** Payload of order_item.cancel. */
export interface OrderItemCancelPayload {
  readonly orderItemId?: number | null | undefined;
  readonly sku?: string | null | undefined;
}

/** Payload of order_attachment.create. */
export interface OrderAttachmentCreatePayload {
  readonly filename: string;
  /** pdf document, base64; white space is allowed */
  readonly content: string;
  readonly contentType?: 'application/pdf' | null | undefined;
  readonly printStrategy?: 'REQUIRED' | null | undefined;
}

/** Payload of return.create. */
export interface ReturnCreatePayload {
  readonly shipmentId: number;
  readonly comments?: string | null | undefined;
  readonly metadata?: { readonly [member: string]: unknown } | null | undefined;
  readonly items: readonly {
    readonly shipmentItemId: number;
    readonly quantity: number;
    /** code of the settings list returnReasons */
    readonly reason?: string | null | undefined;
    /** id of the settings list returnReasons, instead of reason */
    readonly reasonId?: number | null | undefined;
    readonly externalReference?: string | null | undefined;
    readonly metadata?: { readonly [member: string]: unknown } | null | undefined;
  }[];
}

/** Payload of return.replace. */
export interface ReturnReplacePayload {
  readonly shipmentId: number;
  readonly comments?: string | null | undefined;
  readonly metadata?: { readonly [member: string]: unknown } | null | undefined;
  readonly items: readonly {
    readonly shipmentItemId: number;
    readonly quantity: number;
    /** code of the settings list returnReasons */
    readonly reason?: string | null | undefined;
    /** id of the settings list returnReasons, instead of reason */
    readonly reasonId?: number | null | undefined;
    readonly externalReference?: string | null | undefined;
    readonly metadata?: { readonly [member: string]: unknown } | null | undefined;
  }[];
  readonly returnMerchandiseAuthorizationId?: number | null | undefined;
}

/** Payload of return.delete. */
export interface ReturnDeletePayload {
  readonly returnMerchandiseAuthorizationId?: number | null | undefined;
}

/** Payload of inbound_packing_slip.create. */
export interface InboundPackingSlipCreatePayload {
  /** warehouse code */
  readonly expectedIn: string;
  readonly expectedOn: string;
  readonly comments?: string | null | undefined;
  readonly metadata?: {
    readonly serviceLevel?: string | null | undefined;
    readonly purchases?: string | null | undefined;
    readonly reference?: string | null | undefined;
  } | null | undefined;
  readonly items: readonly {
    readonly sku: string;
    readonly quantity: number;
  }[];
}

/** Payload of product.save. */
export interface ProductSavePayload {
  readonly name: string;
  readonly weight?: number | string | null | undefined;
  readonly description?: string | null | undefined;
  readonly encodedImage?: string | null | undefined;
  /** only used to search */
  readonly barcode?: string | null | undefined;
}

/** Payload of return_label.create. */
export interface ReturnLabelCreatePayload {
  readonly shipmentId: number;
  /** code of the settings list returnShippingMethods */
  readonly shippingMethod?: string | null | undefined;
  /** id of the settings list returnShippingMethods, instead of shippingMethod */
  readonly shippingMethodId?: number | null | undefined;
  readonly paperless?: boolean | null | undefined;
}

/** The payload types of all kinds of outbox rows. */
export interface Payloads {
  'order.create': OrderCreatePayload;
  'order.update': OrderUpdatePayload;
  'order.rename': OrderRenamePayload;
  'order.cancel': OrderCancelPayload;
  'order.release': OrderReleasePayload;
  'order_item.cancel': OrderItemCancelPayload;
  'order_attachment.create': OrderAttachmentCreatePayload;
  'return.create': ReturnCreatePayload;
  'return.replace': ReturnReplacePayload;
  'return.delete': ReturnDeletePayload;
  'inbound_packing_slip.create': InboundPackingSlipCreatePayload;
  'product.save': ProductSavePayload;
  'return_label.create': ReturnLabelCreatePayload;
}

/** Kinds of outbox rows. */
export type OutboxKind = keyof Payloads;
