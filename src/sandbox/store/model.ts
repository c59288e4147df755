/** The states of a shipment (docs/interface.md, 10.3 States). */
export const shipmentStatuses = [
  'READY_TO_PICK',
  'READY_TO_SORT',
  'READY_TO_SHIP',
  'SHIPPED',
  'ERROR',
] as const;
export type ShipmentStatus = (typeof shipmentStatuses)[number];
/** The states of an inbound (docs/interface.md, 13.3 States). */
export const inboundStatuses = ['PROCESSING', 'CHECKING', 'CHECKED', 'COMPLETED'] as const;
type InboundStatus = (typeof inboundStatuses)[number];
/** The states of an inbound packing slip (docs/interface.md, 14.3 States). */
export const slipStatuses = ['EXPECTED', 'IN_PROGRESS', 'CHECKING', 'COMPLETED'] as const;
export type SlipStatus = (typeof slipStatuses)[number];

/** Any members, such as those that the client chooses. */
export type Members = Readonly<Record<string, unknown>>;
/** Texts that the client chooses, such as `extra1`. */
export type Texts = Readonly<Record<string, string>>;

/*
 * All rows are plain data, so that a state file has a line for each row. Members that end in `Ms`
 * are moments in milliseconds since 1970. `visibleFromMs` is the virtual moment from which on a row
 * is shown; its id may be older.
 */

export interface Product {
  readonly id: number;
  readonly sku: string;
  name: string;
  weight: number | null;
  description: string | null;
  barcode: string | null;
  /**
   * A service product, such as shipping costs or a discount: ordered like other products, but
   * without stock.
   */
  readonly service: boolean;
  readonly keeping: 'plain' | 'lots' | 'serials';
  /** Pieces by warehouse code. */
  readonly stock: Record<string, number>;
}

export interface OrderItem {
  readonly id: number;
  readonly sku: string;
  /** The quantity that the client ordered. `quantity` is this minus what was cancelled. */
  readonly ordered: number;
  quantity: number;
  /** The quantity that is in shipments. */
  fulfilled: number;
  readonly fulfillFrom: string | null;
  readonly price: number | null;
  /** A decimal as it was sent: a number, or a text. */
  readonly vat: number | string | null;
  readonly name: string | null;
  readonly channelIdentifier: string | null;
  readonly metadata: Texts;
}

/** The texts of an address that may be empty in requests. */
export const addressTexts = [
  'firstName',
  'lastName',
  'prefix',
  'street1',
  'postcode',
  'houseNumber',
  'houseNumberExtension',
  'city',
] as const;
export type AddressLines = Readonly<
  Record<(typeof addressTexts)[number] | 'countryCode', string | null>
>;

/** The texts of an order that an update may erase. */
export const orderTexts = [
  'reference',
  'consumerReference',
  'promotionCode',
  'phoneNumber',
  'vatNumber',
  'fulfillFrom',
] as const;

export interface Attachment {
  readonly id: number;
  readonly filename: string;
}

/** The attributes of an order that an update may change (docs/interface.md, 7.1 Fields). */
export interface ChangeableOrder extends Record<(typeof orderTexts)[number], string | null> {
  externalOrderNumber: string;
  locale: string;
  email: string;
  preferredShippingDate: string | null;
  allowPartialDelivery: boolean;
  onHold: boolean;
  metadata: Texts;
}

/** What an update may also change if the switch `changeableRelationships` is on. */
export interface ChangeableRelationships {
  orderTypeId: number;
  shippingMethodId: number | null;
  /** Orders may share an address object, so it is replaced and never changed. */
  deliveryAddress: AddressLines;
  billingAddress: AddressLines;
  pickUpPoint: {
    readonly id: number;
    readonly attributes: Members;
  } | null;
}

export interface Order extends ChangeableOrder, ChangeableRelationships {
  readonly id: number;
  readonly orderedOn: string;
  readonly currency: string;
  readonly channelIdentifier: string | null;
  readonly items: readonly OrderItem[];
  readonly deliveryAddressId: number;
  readonly billingAddressId: number;
  attachments: readonly Attachment[];
  /** Whether a required house number is missing. The order is not shipped until it has one. */
  notValid: boolean;
  shipmentIds: readonly number[];
}

export interface ShipmentItem {
  readonly id: number;
  readonly sku: string;
  quantity: number;
  lotNumber: string | null;
  readonly expirationDate: string | null;
  readonly serialNumbers: readonly string[];
  readonly orderItemId: number;
  /** The quantity that has come back. */
  returned: number;
}

/** The tracking data that a carrier reports for a package. */
export interface Track {
  readonly packageNumber: string | null;
  status: number;
  statusOnMs: number | null;
  exceptionLevel: number | null;
}

export interface Shipment {
  readonly id: number;
  status: ShipmentStatus;
  readyToPickOnMs: number;
  readyToShipOnMs: number | null;
  shippedOnMs: number | null;
  readonly warehouseCode: string;
  returnLabel: string | null;
  readonly orderId: number;
  readonly orderTypeId: number;
  readonly shippingMethodId: number;
  readonly items: readonly ShipmentItem[];
  /** Empty if no carrier reports about the shipment. */
  tracks: readonly Track[];
  visibleFromMs: number;
  /** Whether the client has acknowledged the shipment. The v2 lists then leave it out. */
  acknowledged?: true;
}

export interface AuthorizationItem {
  readonly id: number;
  readonly externalReference: string | null;
  readonly sku: string;
  readonly quantity: number;
  readonly reasonId: number;
  readonly metadata: Members;
  readonly shipmentItemId: number;
  returnItemId: number | null;
}

/** A return authorization (docs/interface.md, 11.1 Fields). */
export interface Authorization {
  readonly id: number;
  externalReference: string | null;
  comments: string | null;
  metadata: Members;
  readonly createdOn: string;
  modifiedOn: string;
  shipmentId: number;
  items: readonly AuthorizationItem[];
}

export interface ReturnItem {
  readonly id: number;
  readonly returnId: number;
  readonly sku: string;
  readonly quantity: number;
  /** Null until the return item is processed. Until then it is not shown. */
  processedOn: string | null;
  readonly processedIn: string;
  restockIn: string | null;
  restockOnMs: number | null;
  comment: string | null;
  readonly redeliver: boolean;
  readonly orderId: number;
  readonly orderItemId: number;
  readonly reasonId: number;
  readonly shipmentItemId: number;
  /** The authorization that announced it. */
  readonly authorizationId: number | null;
  authorizationItemId: number | null;
}

export interface InboundItem {
  readonly id: number;
  readonly sku: string;
  readonly quantity: number;
  readonly lotNumber: string | null;
  readonly expirationDate: string | null;
  readonly slipItemId: number | null;
}

export interface Inbound {
  readonly id: number;
  readonly reference: string | null;
  status: InboundStatus;
  readonly receivedIn: string;
  readonly createdOnMs: number;
  checkingOnMs: number | null;
  completedOnMs: number | null;
  readonly slipId: number | null;
  items: readonly InboundItem[];
}

export interface SlipItem {
  readonly id: number;
  readonly sku: string;
  readonly quantity: number;
  received: number;
}

/** An inbound packing slip: an announcement of expected goods. */
export interface Slip {
  readonly id: number;
  readonly expectedIn: string;
  readonly expectedOn: string;
  receivedOnMs: number | null;
  completedOnMs: number | null;
  readonly reference: string | null;
  status: SlipStatus;
  readonly comments: string | null;
  readonly metadata: Texts;
  inboundId: number | null;
  readonly items: readonly SlipItem[];
}
