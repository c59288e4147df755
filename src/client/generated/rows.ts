/** Made by `npm run golden` from the migrated database. Do not edit it. */

export type Json = string | number | boolean | null | Json[] | { [member: string]: Json };

/** Feed of every change of the tables in this schema, in the order of commit */
export interface ChangesRow {
  /** Order of the feed */
  readonly seq: number;
  /** Client key */
  readonly client: string;
  /** Table of the row that changed; outbox for a row that became done, dead, unknown or cancelled */
  readonly entity: string;
  /** Id of the row that changed */
  readonly id: number | null;
  /** Key of the row, if its table has no bigint id */
  readonly key: string | null;
  /** created, updated, unlisted or removed */
  readonly operation: string;
  /** Transaction time of the change */
  readonly changed_at: Date;
}

/** Programs that follow the feed with consume_changes, and how far each has read; written by functions only */
export interface ConsumersRow {
  /** Name that the program chose, at most 64 characters */
  readonly name: string;
  /** Last seq that the consumer has read */
  readonly seq: number;
  /** When it was started first */
  readonly created_at: Date;
  /** When seq last changed */
  readonly moved_at: Date;
}

/** Return labels and order attachments that the service made for outbox rows; kept until an operator deletes them; personal data */
export interface DocumentsRow {
  /** Id of the outbox row that asked for it */
  readonly id: number;
  /** Client key */
  readonly client: string;
  /** return_label or order_attachment */
  readonly kind: string;
  /** Reference of the outbox row: your order number */
  readonly reference: string;
  /** Order, if it was known here */
  readonly order_id: number | null;
  /** return_label: shipment that the label is for */
  readonly shipment_id: number | null;
  /** order_attachment: its id at the service */
  readonly order_attachment_id: number | null;
  /** File name as received, or of the attachment as sent */
  readonly file_name: string | null;
  /** mimeType as received; application/pdf for attachments */
  readonly mime_type: string | null;
  /** return_label: packageNumber as received */
  readonly package_number: string | null;
  /** return_label: shippingMethodId (settings list returnShippingMethods) */
  readonly shipping_method_id: number | null;
  /** return_label: isPaperlessReturnShippingMethod as received */
  readonly is_paperless: boolean | null;
  /** result of the outbox row: for a return_label the answer as received, with the content of the document */
  readonly result: Json;
  /** When the outbox row became done */
  readonly created_at: Date;
  /** When personal data was removed from the row; null if it was not */
  readonly erased_at: Date | null;
}

/** Orders whose personal data was erased here; erase your own copies too */
export interface ErasedOrdersRow {
  /** Client key */
  readonly client: string | null;
  /** Order (orders.id) */
  readonly order_id: number | null;
  /** Your order number when it was erased */
  readonly external_order_number: string | null;
  /** When it was erased */
  readonly erased_at: Date | null;
}

/** Lines of inbounds (v3 inboundItem) */
export interface InboundItemsRow {
  /** Client key */
  readonly client: string;
  /** Inbound item id at the service */
  readonly id: number;
  /** Inbound it is a line of */
  readonly inbound_id: number | null;
  /** Article */
  readonly sku: string | null;
  /** Pieces */
  readonly quantity: number | null;
  /** Lot */
  readonly lot_number: string | null;
  /** Use before */
  readonly expiration_date: string | null;
  /** Product id at the service */
  readonly product_id: number | null;
  /** Line of the slip that announced it */
  readonly inbound_packing_slip_item_id: number | null;
  /** The resource as received */
  readonly raw: Json;
  /** When it was first stored here */
  readonly first_seen_at: Date;
  /** When its content last changed here */
  readonly changed_at: Date;
  /** Since when the service no longer knows it; null while it does */
  readonly unlisted_since: Date | null;
}

/** Lines of announced deliveries (v3 inboundPackingSlipItem) */
export interface InboundPackingSlipItemsRow {
  /** Client key */
  readonly client: string;
  /** Inbound packing slip item id at the service */
  readonly id: number;
  /** Slip it is a line of */
  readonly inbound_packing_slip_id: number | null;
  /** Article */
  readonly sku: string | null;
  /** Pieces expected */
  readonly quantity: number | null;
  /** Pieces received so far */
  readonly received: number | null;
  /** The resource as received */
  readonly raw: Json;
  /** When it was first stored here */
  readonly first_seen_at: Date;
  /** When its content last changed here */
  readonly changed_at: Date;
  /** Since when the service no longer knows it; null while it does */
  readonly unlisted_since: Date | null;
}

/** Announced deliveries, one row each (v3 inboundPackingSlip) */
export interface InboundPackingSlipsRow {
  /** Client key */
  readonly client: string;
  /** Inbound packing slip id at the service */
  readonly id: number;
  /** Warehouse it is announced for */
  readonly expected_in: string | null;
  /** Day it is announced for */
  readonly expected_on: string | null;
  /** When the inbound started; its own zone, else the client's */
  readonly received_on: Date | null;
  /** When it finished with no further items expected; its own zone, else the client's */
  readonly completed_on: Date | null;
  /** reference */
  readonly reference: string | null;
  /** EXPECTED, IN_PROGRESS, CHECKING or COMPLETED; another value is kept as received */
  readonly status: string | null;
  /** comments */
  readonly comments: string | null;
  /** serviceLevel, purchases and reference */
  readonly metadata: Json | null;
  /** Inbound that received it */
  readonly inbound_id: number | null;
  /** The resource as received, without its included */
  readonly raw: Json;
  /** When it was first stored here */
  readonly first_seen_at: Date;
  /** When its content last changed here */
  readonly changed_at: Date;
  /** Since when two complete walks lacked it; null while it is listed */
  readonly unlisted_since: Date | null;
  /** Number of the reading this content is from */
  readonly read_no: number;
}

/** Goods that came in, one row a delivery (v3 inbound) */
export interface InboundsRow {
  /** Client key */
  readonly client: string;
  /** Inbound id at the service */
  readonly id: number;
  /** Reference, as announced */
  readonly reference: string | null;
  /** PROCESSING, CHECKING, CHECKED or COMPLETED; another value is kept as received */
  readonly status: string | null;
  /** Warehouse that received it */
  readonly received_in: string | null;
  /** createdOn */
  readonly created_on: Date | null;
  /** checkingOn */
  readonly checking_on: Date | null;
  /** completedOn */
  readonly completed_on: Date | null;
  /** Inbound packing slip that announced it; null if there is none */
  readonly inbound_packing_slip_id: number | null;
  /** The resource as received, without its included */
  readonly raw: Json;
  /** When it was first stored here */
  readonly first_seen_at: Date;
  /** When its content last changed here */
  readonly changed_at: Date;
  /** Since when the service no longer knows it; null while it does */
  readonly unlisted_since: Date | null;
  /** Number of the reading this content is from */
  readonly read_no: number;
}

/** The shipping method that each warehouse uses for a main shipping method */
export interface MainShippingMethodWarehousesRow {
  /** Client key */
  readonly client: string;
  /** Entry of the list mainShippingMethods */
  readonly main_shipping_method_id: number;
  /** Method of that warehouse */
  readonly shipping_method_id: number;
  /** Warehouse code */
  readonly warehouse: string;
  /** Since when the list no longer holds it; null while it does */
  readonly removed_at: Date | null;
}

/** Announced goods that have not arrived completely */
export interface OpenInboundExpectationsRow {
  /** Client key */
  readonly client: string | null;
  /** Inbound packing slip */
  readonly inbound_packing_slip_id: number | null;
  /** Its reference */
  readonly reference: string | null;
  /** Warehouse it is announced for */
  readonly expected_in: string | null;
  /** Day it is announced for */
  readonly expected_on: string | null;
  /** Status of the slip */
  readonly status: string | null;
  /** When the first goods came */
  readonly received_on: Date | null;
  /** Line of the slip */
  readonly inbound_packing_slip_item_id: number | null;
  /** Article */
  readonly sku: string | null;
  /** Pieces expected */
  readonly quantity: number | null;
  /** Pieces received so far */
  readonly received: number | null;
  /** Pieces still to come */
  readonly outstanding: number | null;
  /** Inbound that receives it */
  readonly inbound_id: number | null;
}

/** Delivery and billing addresses of orders (v3 address); personal data */
export interface OrderAddressesRow {
  /** Client key */
  readonly client: string;
  /** Order it belongs to */
  readonly order_id: number;
  /** delivery or billing */
  readonly role: string;
  /** Address id at the service; both roles may share one */
  readonly id: number | null;
  /** firstName */
  readonly first_name: string | null;
  /** lastName */
  readonly last_name: string | null;
  /** prefix */
  readonly prefix: string | null;
  /** street1 */
  readonly street1: string | null;
  /** postcode */
  readonly postcode: string | null;
  /** houseNumber */
  readonly house_number: string | null;
  /** houseNumberExtension */
  readonly house_number_extension: string | null;
  /** city */
  readonly city: string | null;
  /** Two letters (ISO 3166) */
  readonly country_code: string | null;
  /** The resource as received */
  readonly raw: Json;
  /** When it was first stored here */
  readonly first_seen_at: Date;
  /** When its content last changed here */
  readonly changed_at: Date;
}

/** Lines of orders (v3 orderItem) */
export interface OrderItemsRow {
  /** Client key */
  readonly client: string;
  /** Order item id at the service */
  readonly id: number;
  /** Order it is a line of */
  readonly order_id: number | null;
  /** Article */
  readonly sku: string | null;
  /** Pieces; 0 when cancelled whole */
  readonly quantity: number | null;
  /** Warehouse it is to be fulfilled from */
  readonly fulfill_from: string | null;
  /** price, with the digits received */
  readonly price: string | null;
  /** Rate, with the digits received */
  readonly vat: string | null;
  /** name */
  readonly name: string | null;
  /** channelIdentifier */
  readonly channel_identifier: string | null;
  /** serviceLevel, purchases, reference, extra6 and extra7 */
  readonly metadata: Json | null;
  /** Product id at the service */
  readonly product_id: number | null;
  /** The resource as received */
  readonly raw: Json;
  /** When it was first stored here */
  readonly first_seen_at: Date;
  /** When its content last changed here */
  readonly changed_at: Date;
  /** Since when the service no longer knows it; null while it does */
  readonly unlisted_since: Date | null;
}

/** Orders at the warehouse, one row each (v3 order) */
export interface OrdersRow {
  /** Client key */
  readonly client: string;
  /** Order id at the service */
  readonly id: number;
  /** Your order number; it can be changed at the service */
  readonly external_order_number: string | null;
  /** reference */
  readonly reference: string | null;
  /** orderedOn */
  readonly ordered_on: string | null;
  /** consumerReference */
  readonly consumer_reference: string | null;
  /** promotionCode */
  readonly promotion_code: string | null;
  /** Three-letter code */
  readonly currency: string | null;
  /** language-region */
  readonly locale: string | null;
  /** Consumer's address (personal data) */
  readonly email: string | null;
  /** Consumer's number (personal data) */
  readonly phone_number: string | null;
  /** vatNumber */
  readonly vat_number: string | null;
  /** Warehouse it is to be fulfilled from */
  readonly fulfill_from: string | null;
  /** Not shipped before */
  readonly preferred_shipping_date: string | null;
  /** allowPartialDelivery */
  readonly allow_partial_delivery: boolean | null;
  /** onHold */
  readonly on_hold: boolean | null;
  /** extra1 to extra5 */
  readonly metadata: Json | null;
  /** channelIdentifier */
  readonly channel_identifier: string | null;
  /** Order type (settings list orderTypes) */
  readonly order_type_id: number | null;
  /** Delivery address at the service */
  readonly delivery_address_id: number | null;
  /** Billing address at the service */
  readonly billing_address_id: number | null;
  /** Pick-up point at the service */
  readonly pick_up_point_id: number | null;
  /** Main shipping method asked for */
  readonly preferred_shipping_method_id: number | null;
  /** Pick-up point as received, if it was included */
  readonly pick_up_point: Json | null;
  /** The resource as received, without its included */
  readonly raw: Json;
  /** When it was first stored here */
  readonly first_seen_at: Date;
  /** When its content last changed here */
  readonly changed_at: Date;
  /** Since when the service no longer knows it; null while it does */
  readonly unlisted_since: Date | null;
  /** Number of the reading this content is from */
  readonly read_no: number;
}

/** Requests of the ERP to the service: insert client, kind, reference and payload, and read status and result */
export interface OutboxRow {
  /** Number of the row; rows of one lane (client, family, reference) are sent in this order */
  readonly id: number;
  /** Client key, at most 64 characters */
  readonly client: string;
  /** What the row asks for, such as order.create (docs/outbox.md); at most 64 characters */
  readonly kind: string;
  /** External order number, external reference, slip reference or sku; at most 200 characters */
  readonly reference: string;
  /** Contents of the request, at most 16 MB of JSON text; fulfilment.outbox_schema(kind) returns its JSON Schema */
  readonly payload: Json;
  /** pending, sending, unknown (the service may have carried it out), done, dead (refused or given up) or cancelled */
  readonly status: string;
  /** Number of sends; look-ups do not count */
  readonly attempts: number;
  /** pending: not sent before this time; unknown: when it is looked up, or null if an operator has to decide */
  readonly next_attempt_at: Date | null;
  /** While sending: when another worker may take the row over */
  readonly lease_until: Date | null;
  /** Why the row is not done, as text */
  readonly last_error: string | null;
  /** Answer of the service; docs/outbox.md lists its members by kind */
  readonly result: Json | null;
  /** When it was inserted */
  readonly created_at: Date;
  /** When it became done, dead or cancelled */
  readonly finished_at: Date | null;
  /** Kinds that share a lane: order (with order_item, order_attachment, return_label), return, inbound_packing_slip, product */
  readonly family: string;
  /** Number of the last claim. It identifies late outcomes, and is the read_no of the answer */
  readonly claim_no: number | null;
  /** While sending: set before the request is written; null means that no request was written */
  readonly sent_at: Date | null;
  /** Last attempt that the service may have carried out; null: none */
  readonly written_at: Date | null;
  /** While unknown: the reason with which the service refused the row. The row becomes dead with it unless a look-up finds the change */
  readonly refusal: string | null;
  /** Look-ups since the last attempt */
  readonly lookups: number;
  /** Look-ups since the last attempt that did not find the change, and count */
  readonly absences: number;
  /** Time of the last look-up that did not find the change, and counts */
  readonly absent_at: Date | null;
  /** When its payload was last replaced */
  readonly replaced_at: Date | null;
  /** PUSH_MAX_AGE counts from here: the first attempt that counted, or the last retry or replacement by a person */
  readonly bounded_from: Date;
  /** Attempts before bounded_from; PUSH_MAX_ATTEMPTS does not count them */
  readonly bounded_attempts: number;
  /** Sends since the last attempt that counted which were refused with 429 or for the token; each makes the pause longer */
  readonly unburnt: number;
  /** Identity of the database in which the row was inserted (sync.database_mark); null: the row is older than this column */
  readonly database_mark: string | null;
  /** When personal data was removed from the row; null if it was not */
  readonly erased_at: Date | null;
}

/** Rows of the outbox that are not done or cancelled, and what each row waits for */
export interface OutboxOpenRow {
  /** Row of fulfilment.outbox */
  readonly id: number | null;
  /** Client key */
  readonly client: string | null;
  /** What is asked */
  readonly kind: string | null;
  /** What it is about */
  readonly reference: string | null;
  /** pending, sending, unknown or dead */
  readonly status: string | null;
  /** Times it was sent */
  readonly attempts: number | null;
  /** When it is tried or looked up next */
  readonly next_attempt_at: Date | null;
  /** When it was inserted */
  readonly created_at: Date | null;
  /** Row that comes first: of the same lane, or the product.save of one of its skus; null where there is none */
  readonly waits_for: number | null;
  /** Why it is not through, in words */
  readonly because: string | null;
}

/** Packages of shipped shipments, with their latest known status; filled by the jobs pull-parcels and track-trace */
export interface ParcelsRow {
  /** Client key */
  readonly client: string;
  /** Shipment that the package belongs to */
  readonly shipment_id: number;
  /** packageNumber; empty if there is none */
  readonly package_number: string;
  /** colloNr; null unless the service gives it */
  readonly collo_number: string | null;
  /** trackAndTraceCode; it may be a URL */
  readonly track_and_trace_code: string | null;
  /** trackAndTraceBarCode */
  readonly track_and_trace_bar_code: string | null;
  /** returnPackageNumber */
  readonly return_package_number: string | null;
  /** Latest known status: of the look-up, or of the track-trace list while the package is listed there */
  readonly current_track_trace_status: string | null;
  /** Exception level, from the same source as the status */
  readonly current_track_trace_exception_level: string | null;
  /** shippingDate, read in the client's zone */
  readonly shipping_date: Date | null;
  /** When a look-up last returned the package; null if only the track-trace list has named it */
  readonly read_at: Date | null;
  /** Number of the reading that the row comes from */
  readonly read_no: number;
  /** The item of the look-up as received; of the track-trace list, if read_at is null */
  readonly raw: Json;
  /** When it was first stored here */
  readonly first_seen_at: Date;
  /** When its content last changed here */
  readonly changed_at: Date;
  /** Since when the look-up of its shipment no longer returns the package */
  readonly unlisted_since: Date | null;
}

/** Return lines that a warehouse has processed (v3 returnItem) */
export interface ReturnItemsRow {
  /** Client key */
  readonly client: string;
  /** Return item id at the service */
  readonly id: number;
  /** Article */
  readonly sku: string | null;
  /** Pieces */
  readonly quantity: number | null;
  /** condition; of its values only RETURN is shown */
  readonly condition: string | null;
  /** Day the warehouse processed it */
  readonly processed_on: string | null;
  /** Warehouse that processed it */
  readonly processed_in: string | null;
  /** Warehouse it went back on the shelf in; null while it did not */
  readonly restock_in: string | null;
  /** restockOn, read in the client's zone if it names no zone */
  readonly restock_on: Date | null;
  /** Remark of the warehouse */
  readonly comment: string | null;
  /** Whether it is to be delivered once more */
  readonly redeliver: boolean | null;
  /** Your order number, as the return item itself carries it */
  readonly external_order_number: string | null;
  /** Order it comes back from */
  readonly order_id: number | null;
  /** Order line it comes back from */
  readonly order_item_id: number | null;
  /** Product id at the service */
  readonly product_id: number | null;
  /** Return it arrived with */
  readonly return_id: number | null;
  /** Line of the return authorization that announced it; null if there is none */
  readonly return_merchandise_authorization_item_id: number | null;
  /** Return reason (settings list returnReasons) */
  readonly return_reason_id: number | null;
  /** Shipment line that delivered it */
  readonly shipment_item_id: number | null;
  /** The resource as received */
  readonly raw: Json;
  /** When it was first stored here */
  readonly first_seen_at: Date;
  /** When its content last changed here */
  readonly changed_at: Date;
  /** Since when the service no longer knows it; null while it does */
  readonly unlisted_since: Date | null;
  /** Number of the reading this content is from */
  readonly read_no: number;
}

/** Lines of announced returns (v3 returnMerchandiseAuthorizationItem) */
export interface ReturnMerchandiseAuthorizationItemsRow {
  /** Client key */
  readonly client: string;
  /** Id at the service */
  readonly id: number;
  /** Announced return it is a line of */
  readonly return_merchandise_authorization_id: number | null;
  /** externalReference */
  readonly external_reference: string | null;
  /** Article */
  readonly sku: string | null;
  /** Pieces */
  readonly quantity: number | null;
  /** reasonCode */
  readonly reason_code: string | null;
  /** metadata */
  readonly metadata: Json | null;
  /** Line of the shipment that comes back */
  readonly shipment_item_id: number | null;
  /** Product id at the service */
  readonly product_id: number | null;
  /** Reason (settings list returnReasons) */
  readonly return_reason_id: number | null;
  /** Return item, once the warehouse has processed it */
  readonly return_item_id: number | null;
  /** The resource as received */
  readonly raw: Json;
  /** When it was first stored here */
  readonly first_seen_at: Date;
  /** When its content last changed here */
  readonly changed_at: Date;
  /** Since when the service no longer knows it; null while it does */
  readonly unlisted_since: Date | null;
}

/** Announced returns (v3 returnMerchandiseAuthorization) that were pushed from here */
export interface ReturnMerchandiseAuthorizationsRow {
  /** Client key */
  readonly client: string;
  /** Id at the service */
  readonly id: number;
  /** externalReference: the outbox row's reference */
  readonly external_reference: string | null;
  /** comments */
  readonly comments: string | null;
  /** metadata */
  readonly metadata: Json | null;
  /** PENDING is the only value the interface shows */
  readonly status: string | null;
  /** createdOn */
  readonly created_on: string | null;
  /** modifiedOn */
  readonly modified_on: string | null;
  /** Shipment that comes back */
  readonly shipment_id: number | null;
  /** The resource as received */
  readonly raw: Json;
  /** Number of the reading this content is from */
  readonly read_no: number;
  /** When it was first stored here */
  readonly first_seen_at: Date;
  /** When its content last changed here */
  readonly changed_at: Date;
  /** Since when the service no longer knows it, deleted ones too; null while it does */
  readonly unlisted_since: Date | null;
}

/** Returns that were processed and are not back in stock */
export interface ReturnsToRestockRow {
  /** Client key */
  readonly client: string | null;
  /** Return item */
  readonly return_item_id: number | null;
  /** Your order number */
  readonly external_order_number: string | null;
  /** Order */
  readonly order_id: number | null;
  /** Line of the order */
  readonly order_item_id: number | null;
  /** Article */
  readonly sku: string | null;
  /** Pieces */
  readonly quantity: number | null;
  /** Condition they came in */
  readonly condition: string | null;
  /** Day they were processed */
  readonly processed_on: string | null;
  /** Warehouse that processed them */
  readonly processed_in: string | null;
  /** Reason (settings list returnReasons) */
  readonly return_reason_id: number | null;
  /** Whether something is to be sent instead */
  readonly redeliver: boolean | null;
  /** Comment of the warehouse */
  readonly comment: string | null;
}

/** Entries of the service's configuration lists (settings/get); their codes are what outbox payloads name */
export interface SettingOptionsRow {
  /** Client key */
  readonly client: string;
  /** mainShippingMethods, shippingMethods, returnShippingMethods, orderTypes, returnReasons, languages, countries or paymentMethods */
  readonly list: string;
  /** Id at the service, unique within the list */
  readonly id: number;
  /** code */
  readonly code: string | null;
  /** name */
  readonly name: string | null;
  /** The entry as received */
  readonly raw: Json;
  /** When it was first stored here */
  readonly first_seen_at: Date;
  /** When its content last changed here */
  readonly changed_at: Date;
  /** Since when the list no longer holds it; null while it does */
  readonly removed_at: Date | null;
}

/** Lines of shipments (v3 shipmentItem) */
export interface ShipmentItemsRow {
  /** Client key */
  readonly client: string;
  /** Shipment item id at the service */
  readonly id: number;
  /** Shipment it is a line of */
  readonly shipment_id: number | null;
  /** Article */
  readonly sku: string | null;
  /** Pieces */
  readonly quantity: number | null;
  /** Lot */
  readonly lot_number: string | null;
  /** Use before */
  readonly expiration_date: string | null;
  /** Serial numbers of the pieces */
  readonly serial_numbers: string[];
  /** Order line it fulfils */
  readonly order_item_id: number | null;
  /** Product id at the service */
  readonly product_id: number | null;
  /** The resource as received */
  readonly raw: Json;
  /** When it was first stored here */
  readonly first_seen_at: Date;
  /** When its content last changed here */
  readonly changed_at: Date;
  /** Since when the service no longer knows it; null while it does */
  readonly unlisted_since: Date | null;
}

/** What was or will be sent, line by line, with the order it is for and where its packages are */
export interface ShipmentLinesRow {
  /** Client key */
  readonly client: string | null;
  /** Your order number; null until the order is stored */
  readonly external_order_number: string | null;
  /** Order */
  readonly order_id: number | null;
  /** Shipment */
  readonly shipment_id: number | null;
  /** Status of the shipment */
  readonly status: string | null;
  /** When the carrier took it */
  readonly shipped_on: Date | null;
  /** Warehouse it comes from */
  readonly warehouse_code: string | null;
  /** Line of the shipment */
  readonly shipment_item_id: number | null;
  /** Line of the order */
  readonly order_item_id: number | null;
  /** Article */
  readonly sku: string | null;
  /** Pieces */
  readonly quantity: number | null;
  /** Lot */
  readonly lot_number: string | null;
  /** Use before */
  readonly expiration_date: string | null;
  /** Serial numbers of the pieces */
  readonly serial_numbers: string[] | null;
  /** Packages of the whole shipment; it is not known which line is in which package */
  readonly package_numbers: string[] | null;
  /** Their latest known statuses in the same order, as numbers; null if a status is not a number */
  readonly track_trace_statuses: (number | null)[] | null;
  /** Latest time that track-trace gives for these packages */
  readonly track_trace_at: Date | null;
  /** Since when the service no longer knows the shipment */
  readonly unlisted_since: Date | null;
  /** Their latest known statuses in the same order, as received */
  readonly package_statuses: string[] | null;
  /** Their track-and-trace codes, in the same order */
  readonly track_and_trace_codes: string[] | null;
  /** Address for tracking: a code that is a URL, else attributes.tracking.url of the shipment; null if there is neither */
  readonly tracking_url: string | null;
}

/** Shipments of the warehouse, one row each (v3 shipment) */
export interface ShipmentsRow {
  /** Client key */
  readonly client: string;
  /** Shipment id at the service */
  readonly id: number;
  /** READY_TO_PICK, READY_TO_SORT, READY_TO_SHIP, SHIPPED or ERROR; another value is kept as received */
  readonly status: string | null;
  /** readyToPickOn, read in the client's zone */
  readonly ready_to_pick_on: Date | null;
  /** readyToShipOn, read in the client's zone */
  readonly ready_to_ship_on: Date | null;
  /** shippedOn, read in the client's zone */
  readonly shipped_on: Date | null;
  /** Warehouse that fulfils it */
  readonly warehouse_code: string | null;
  /** returnLabel as received */
  readonly return_label: string | null;
  /** Order it belongs to */
  readonly order_id: number | null;
  /** Order type (settings list orderTypes) */
  readonly order_type_id: number | null;
  /** Shipping method; whether a main or a nested id is not shown */
  readonly shipping_method_id: number | null;
  /** Your order number, from orders */
  readonly external_order_number: string | null;
  /** The resource as received, without its included */
  readonly raw: Json;
  /** When it was first stored here */
  readonly first_seen_at: Date;
  /** When its content last changed here */
  readonly changed_at: Date;
  /** Since when the service no longer knows it; null while it does */
  readonly unlisted_since: Date | null;
  /** Number of the reading this content is from */
  readonly read_no: number;
}

/** Stock of the watched articles, as the service last told it */
export interface StockLevelsRow {
  /** Client key */
  readonly client: string;
  /** Article */
  readonly sku: string;
  /** Pieces; null if the service has not told any yet */
  readonly stock: number | null;
  /** When it was last asked */
  readonly asked_at: Date;
  /** When stock last changed here */
  readonly changed_at: Date;
}

/** Articles whose stock the job pull-stock asks for: insert and delete as you like */
export interface StockWatchRow {
  /** Client key */
  readonly client: string;
  /** Article */
  readonly sku: string;
  /** When it was put here */
  readonly created_at: Date;
}

/** One row for each change of a package's status. Changes between two readings, an hour apart, are not seen */
export interface TrackTraceEventsRow {
  /** Number of the event */
  readonly id: number;
  /** Client key */
  readonly client: string;
  /** Shipment the package belongs to */
  readonly shipment_id: number;
  /** packageNumber; empty if the item has none */
  readonly package_number: string;
  /** Status from then on */
  readonly current_track_trace_status: number | null;
  /** Time of the status, as the carrier tells it */
  readonly current_track_trace_status_date_time: Date | null;
  /** Exception level from then on */
  readonly current_track_trace_exception_level: number | null;
  /** The item as received */
  readonly raw: Json;
  /** When it was read */
  readonly seen_at: Date;
}

/** Where parcels are, by package (v2 track-trace item); filled by the job track-trace */
export interface TrackTracesRow {
  /** Client key */
  readonly client: string;
  /** Shipment the package belongs to */
  readonly shipment_id: number;
  /** packageNumber; empty if the item has none */
  readonly package_number: string;
  /** externalOrderNumber as received */
  readonly external_order_number: string | null;
  /** shipmentMethod as received */
  readonly shipment_method: string | null;
  /** Status; its values are not shown in the interface */
  readonly current_track_trace_status: number | null;
  /** Time of the status, read in the client's zone */
  readonly current_track_trace_status_date_time: Date | null;
  /** Exception level; its values are not shown in the interface */
  readonly current_track_trace_exception_level: number | null;
  /** The item as received */
  readonly raw: Json;
  /** When it was first stored here */
  readonly first_seen_at: Date;
  /** When its content last changed here */
  readonly changed_at: Date;
  /** Since when the list no longer has the package; its last status is read for fulfilment.parcels */
  readonly unlisted_since: Date | null;
}

/** The row types of all tables and views of schema fulfilment. */
export interface Rows {
  changes: ChangesRow;
  consumers: ConsumersRow;
  documents: DocumentsRow;
  erased_orders: ErasedOrdersRow;
  inbound_items: InboundItemsRow;
  inbound_packing_slip_items: InboundPackingSlipItemsRow;
  inbound_packing_slips: InboundPackingSlipsRow;
  inbounds: InboundsRow;
  main_shipping_method_warehouses: MainShippingMethodWarehousesRow;
  open_inbound_expectations: OpenInboundExpectationsRow;
  order_addresses: OrderAddressesRow;
  order_items: OrderItemsRow;
  orders: OrdersRow;
  outbox: OutboxRow;
  outbox_open: OutboxOpenRow;
  parcels: ParcelsRow;
  return_items: ReturnItemsRow;
  return_merchandise_authorization_items: ReturnMerchandiseAuthorizationItemsRow;
  return_merchandise_authorizations: ReturnMerchandiseAuthorizationsRow;
  returns_to_restock: ReturnsToRestockRow;
  setting_options: SettingOptionsRow;
  shipment_items: ShipmentItemsRow;
  shipment_lines: ShipmentLinesRow;
  shipments: ShipmentsRow;
  stock_levels: StockLevelsRow;
  stock_watch: StockWatchRow;
  track_trace_events: TrackTraceEventsRow;
  track_traces: TrackTracesRow;
}

/** Tables whose rows the feed names. */
export type TableName =
  | 'documents'
  | 'inbound_items'
  | 'inbound_packing_slip_items'
  | 'inbound_packing_slips'
  | 'inbounds'
  | 'main_shipping_method_warehouses'
  | 'order_addresses'
  | 'order_items'
  | 'orders'
  | 'outbox'
  | 'parcels'
  | 'return_items'
  | 'return_merchandise_authorization_items'
  | 'return_merchandise_authorizations'
  | 'setting_options'
  | 'shipment_items'
  | 'shipments'
  | 'stock_levels'
  | 'track_traces';

/** The primary key of each table, and the columns of each table and view with the cast that they need. */
export const relations: Readonly<
  Record<keyof Rows, { readonly key: readonly string[]; readonly columns: Readonly<Record<string, string>> }>
> = {
  changes: {
    key: ['seq'],
    columns: {
      seq: 'float8',
      client: '',
      entity: '',
      id: 'float8',
      key: '',
      operation: '',
      changed_at: '',
    },
  },
  consumers: {
    key: ['name'],
    columns: {
      name: '',
      seq: 'float8',
      created_at: '',
      moved_at: '',
    },
  },
  documents: {
    key: ['id'],
    columns: {
      id: 'float8',
      client: '',
      kind: '',
      reference: '',
      order_id: 'float8',
      shipment_id: 'float8',
      order_attachment_id: 'float8',
      file_name: '',
      mime_type: '',
      package_number: '',
      shipping_method_id: 'float8',
      is_paperless: '',
      result: '',
      created_at: '',
      erased_at: '',
    },
  },
  erased_orders: {
    key: [],
    columns: {
      client: '',
      order_id: 'float8',
      external_order_number: '',
      erased_at: '',
    },
  },
  inbound_items: {
    key: ['client', 'id'],
    columns: {
      client: '',
      id: 'float8',
      inbound_id: 'float8',
      sku: '',
      quantity: '',
      lot_number: '',
      expiration_date: 'text',
      product_id: 'float8',
      inbound_packing_slip_item_id: 'float8',
      raw: '',
      first_seen_at: '',
      changed_at: '',
      unlisted_since: '',
    },
  },
  inbound_packing_slip_items: {
    key: ['client', 'id'],
    columns: {
      client: '',
      id: 'float8',
      inbound_packing_slip_id: 'float8',
      sku: '',
      quantity: '',
      received: '',
      raw: '',
      first_seen_at: '',
      changed_at: '',
      unlisted_since: '',
    },
  },
  inbound_packing_slips: {
    key: ['client', 'id'],
    columns: {
      client: '',
      id: 'float8',
      expected_in: '',
      expected_on: 'text',
      received_on: '',
      completed_on: '',
      reference: '',
      status: '',
      comments: '',
      metadata: '',
      inbound_id: 'float8',
      raw: '',
      first_seen_at: '',
      changed_at: '',
      unlisted_since: '',
      read_no: 'float8',
    },
  },
  inbounds: {
    key: ['client', 'id'],
    columns: {
      client: '',
      id: 'float8',
      reference: '',
      status: '',
      received_in: '',
      created_on: '',
      checking_on: '',
      completed_on: '',
      inbound_packing_slip_id: 'float8',
      raw: '',
      first_seen_at: '',
      changed_at: '',
      unlisted_since: '',
      read_no: 'float8',
    },
  },
  main_shipping_method_warehouses: {
    key: ['client', 'main_shipping_method_id', 'shipping_method_id', 'warehouse'],
    columns: {
      client: '',
      main_shipping_method_id: 'float8',
      shipping_method_id: 'float8',
      warehouse: '',
      removed_at: '',
    },
  },
  open_inbound_expectations: {
    key: [],
    columns: {
      client: '',
      inbound_packing_slip_id: 'float8',
      reference: '',
      expected_in: '',
      expected_on: 'text',
      status: '',
      received_on: '',
      inbound_packing_slip_item_id: 'float8',
      sku: '',
      quantity: '',
      received: '',
      outstanding: '',
      inbound_id: 'float8',
    },
  },
  order_addresses: {
    key: ['client', 'order_id', 'role'],
    columns: {
      client: '',
      order_id: 'float8',
      role: '',
      id: 'float8',
      first_name: '',
      last_name: '',
      prefix: '',
      street1: '',
      postcode: '',
      house_number: '',
      house_number_extension: '',
      city: '',
      country_code: '',
      raw: '',
      first_seen_at: '',
      changed_at: '',
    },
  },
  order_items: {
    key: ['client', 'id'],
    columns: {
      client: '',
      id: 'float8',
      order_id: 'float8',
      sku: '',
      quantity: '',
      fulfill_from: '',
      price: 'text',
      vat: 'text',
      name: '',
      channel_identifier: '',
      metadata: '',
      product_id: 'float8',
      raw: '',
      first_seen_at: '',
      changed_at: '',
      unlisted_since: '',
    },
  },
  orders: {
    key: ['client', 'id'],
    columns: {
      client: '',
      id: 'float8',
      external_order_number: '',
      reference: '',
      ordered_on: 'text',
      consumer_reference: '',
      promotion_code: '',
      currency: '',
      locale: '',
      email: '',
      phone_number: '',
      vat_number: '',
      fulfill_from: '',
      preferred_shipping_date: 'text',
      allow_partial_delivery: '',
      on_hold: '',
      metadata: '',
      channel_identifier: '',
      order_type_id: 'float8',
      delivery_address_id: 'float8',
      billing_address_id: 'float8',
      pick_up_point_id: 'float8',
      preferred_shipping_method_id: 'float8',
      pick_up_point: '',
      raw: '',
      first_seen_at: '',
      changed_at: '',
      unlisted_since: '',
      read_no: 'float8',
    },
  },
  outbox: {
    key: ['id'],
    columns: {
      id: 'float8',
      client: '',
      kind: '',
      reference: '',
      payload: '',
      status: '',
      attempts: '',
      next_attempt_at: '',
      lease_until: '',
      last_error: '',
      result: '',
      created_at: '',
      finished_at: '',
      family: '',
      claim_no: 'float8',
      sent_at: '',
      written_at: '',
      refusal: '',
      lookups: '',
      absences: '',
      absent_at: '',
      replaced_at: '',
      bounded_from: '',
      bounded_attempts: '',
      unburnt: '',
      database_mark: '',
      erased_at: '',
    },
  },
  outbox_open: {
    key: [],
    columns: {
      id: 'float8',
      client: '',
      kind: '',
      reference: '',
      status: '',
      attempts: '',
      next_attempt_at: '',
      created_at: '',
      waits_for: 'float8',
      because: '',
    },
  },
  parcels: {
    key: ['client', 'shipment_id', 'package_number'],
    columns: {
      client: '',
      shipment_id: 'float8',
      package_number: '',
      collo_number: '',
      track_and_trace_code: '',
      track_and_trace_bar_code: '',
      return_package_number: '',
      current_track_trace_status: '',
      current_track_trace_exception_level: '',
      shipping_date: '',
      read_at: '',
      read_no: 'float8',
      raw: '',
      first_seen_at: '',
      changed_at: '',
      unlisted_since: '',
    },
  },
  return_items: {
    key: ['client', 'id'],
    columns: {
      client: '',
      id: 'float8',
      sku: '',
      quantity: '',
      condition: '',
      processed_on: 'text',
      processed_in: '',
      restock_in: '',
      restock_on: '',
      comment: '',
      redeliver: '',
      external_order_number: '',
      order_id: 'float8',
      order_item_id: 'float8',
      product_id: 'float8',
      return_id: 'float8',
      return_merchandise_authorization_item_id: 'float8',
      return_reason_id: 'float8',
      shipment_item_id: 'float8',
      raw: '',
      first_seen_at: '',
      changed_at: '',
      unlisted_since: '',
      read_no: 'float8',
    },
  },
  return_merchandise_authorization_items: {
    key: ['client', 'id'],
    columns: {
      client: '',
      id: 'float8',
      return_merchandise_authorization_id: 'float8',
      external_reference: '',
      sku: '',
      quantity: '',
      reason_code: '',
      metadata: '',
      shipment_item_id: 'float8',
      product_id: 'float8',
      return_reason_id: 'float8',
      return_item_id: 'float8',
      raw: '',
      first_seen_at: '',
      changed_at: '',
      unlisted_since: '',
    },
  },
  return_merchandise_authorizations: {
    key: ['client', 'id'],
    columns: {
      client: '',
      id: 'float8',
      external_reference: '',
      comments: '',
      metadata: '',
      status: '',
      created_on: 'text',
      modified_on: 'text',
      shipment_id: 'float8',
      raw: '',
      read_no: 'float8',
      first_seen_at: '',
      changed_at: '',
      unlisted_since: '',
    },
  },
  returns_to_restock: {
    key: [],
    columns: {
      client: '',
      return_item_id: 'float8',
      external_order_number: '',
      order_id: 'float8',
      order_item_id: 'float8',
      sku: '',
      quantity: '',
      condition: '',
      processed_on: 'text',
      processed_in: '',
      return_reason_id: 'float8',
      redeliver: '',
      comment: '',
    },
  },
  setting_options: {
    key: ['client', 'list', 'id'],
    columns: {
      client: '',
      list: '',
      id: 'float8',
      code: '',
      name: '',
      raw: '',
      first_seen_at: '',
      changed_at: '',
      removed_at: '',
    },
  },
  shipment_items: {
    key: ['client', 'id'],
    columns: {
      client: '',
      id: 'float8',
      shipment_id: 'float8',
      sku: '',
      quantity: '',
      lot_number: '',
      expiration_date: 'text',
      serial_numbers: '',
      order_item_id: 'float8',
      product_id: 'float8',
      raw: '',
      first_seen_at: '',
      changed_at: '',
      unlisted_since: '',
    },
  },
  shipment_lines: {
    key: [],
    columns: {
      client: '',
      external_order_number: '',
      order_id: 'float8',
      shipment_id: 'float8',
      status: '',
      shipped_on: '',
      warehouse_code: '',
      shipment_item_id: 'float8',
      order_item_id: 'float8',
      sku: '',
      quantity: '',
      lot_number: '',
      expiration_date: 'text',
      serial_numbers: '',
      package_numbers: '',
      track_trace_statuses: '',
      track_trace_at: '',
      unlisted_since: '',
      package_statuses: '',
      track_and_trace_codes: '',
      tracking_url: '',
    },
  },
  shipments: {
    key: ['client', 'id'],
    columns: {
      client: '',
      id: 'float8',
      status: '',
      ready_to_pick_on: '',
      ready_to_ship_on: '',
      shipped_on: '',
      warehouse_code: '',
      return_label: '',
      order_id: 'float8',
      order_type_id: 'float8',
      shipping_method_id: 'float8',
      external_order_number: '',
      raw: '',
      first_seen_at: '',
      changed_at: '',
      unlisted_since: '',
      read_no: 'float8',
    },
  },
  stock_levels: {
    key: ['client', 'sku'],
    columns: {
      client: '',
      sku: '',
      stock: '',
      asked_at: '',
      changed_at: '',
    },
  },
  stock_watch: {
    key: ['client', 'sku'],
    columns: {
      client: '',
      sku: '',
      created_at: '',
    },
  },
  track_trace_events: {
    key: ['id'],
    columns: {
      id: 'float8',
      client: '',
      shipment_id: 'float8',
      package_number: '',
      current_track_trace_status: '',
      current_track_trace_status_date_time: '',
      current_track_trace_exception_level: '',
      raw: '',
      seen_at: '',
    },
  },
  track_traces: {
    key: ['client', 'shipment_id', 'package_number'],
    columns: {
      client: '',
      shipment_id: 'float8',
      package_number: '',
      external_order_number: '',
      shipment_method: '',
      current_track_trace_status: '',
      current_track_trace_status_date_time: '',
      current_track_trace_exception_level: '',
      raw: '',
      first_seen_at: '',
      changed_at: '',
      unlisted_since: '',
    },
  },
};
