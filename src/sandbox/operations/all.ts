/**
 * This folder: the operations of the service, each with its route, parameters, checks and answer.
 * The routes, the OpenAPI document and the page of `npm run coverage` are all created from this
 * list.
 */

import { z } from 'zod';
import { dayMs } from '../../core/time.ts';
import { shownListsSchema } from '../store/service-lists.ts';
import { olderOrderOperations } from './older-orders.ts';
import { olderProductOperations } from './older-products.ts';
import { olderShipmentOperations } from './older-shipments.ts';
import { defineOperation, envelope, members, type Operation, ok } from './operation.ts';
import { goodsOperations } from './v3-goods.ts';
import { orderOperations } from './v3-orders.ts';
import { returnOperations } from './v3-returns.ts';
import { shipmentOperations } from './v3-shipments.ts';

/**
 * The token, the status and the service lists (docs/interface.md, 3 Authentication, 6 Status and
 * settings).
 */
const commonOperations = [
  defineOperation({
    name: 'common.token',
    route: 'POST /token',
    summary: 'A token for the right user name and password',
    open: true,
    form: 'only',
    body: z.object({
      grant_type: z.literal('password'),
      ...members(z.string(), ['username', 'password']),
    }),
    answer: z.strictObject({
      token_type: z.literal('bearer'),
      expires_in: z.int(),
      ...members(z.string(), ['access_token', 'userName', 'issued', 'expires']),
    }),
    run: ({ world, body: { username, password } }) => world.grantToken(username, password),
  }),
  defineOperation({
    name: 'common.status.get',
    route: 'GET /status/get',
    summary: 'Whether the service is up',
    open: true,
    answer: envelope(z.null()),
    run: () => ok('Status is OK.'),
  }),
  defineOperation({
    name: 'common.settings.get',
    route: 'GET /settings/get',
    summary: 'The lists whose ids other calls use',
    advised: { everyMs: dayMs, words: 'at most once a day, and keep the lists' },
    answer: envelope(shownListsSchema),
    run: ({ client }) => ok('Settings are ok.', client.lists.shown),
  }),
];

/**
 * All operations that the sandbox serves. Those that docs/interface.md does not name are not
 * `described`.
 */
export const operations: readonly Operation[] = [
  ...commonOperations,
  ...olderProductOperations,
  ...olderOrderOperations,
  ...olderShipmentOperations,
  ...orderOperations,
  ...shipmentOperations,
  ...returnOperations,
  ...goodsOperations,
];
