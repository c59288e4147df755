import { inboundPackingSlips } from './inbound-packing-slips.ts';
import { inbounds } from './inbounds.ts';
import { orders } from './orders.ts';
import { returnItems } from './return-items.ts';
import { shipments } from './shipments.ts';

/** All streams, in the order in which pages show them. */
export const streams = [shipments, returnItems, inbounds, inboundPackingSlips, orders];
