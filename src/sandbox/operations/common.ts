import { z } from 'zod';
import { defineOperation, envelope, ok } from './operation.ts';

const option = z.strictObject({ id: z.int(), name: z.string(), code: z.string() });
const mainMethod = option.extend({ shippingMethods: z.array(z.strictObject({ id: z.int(), warehouse: z.string() })) });
const listsSchema = z.strictObject({
  mainShippingMethods: z.array(mainMethod),
  shippingMethods: z.array(option),
  returnShippingMethods: z.array(option),
  orderTypes: z.array(option),
  returnReasons: z.array(option),
  languages: z.array(option),
  countries: z.array(option),
  paymentMethods: z.array(option),
});

/**
 * The operations for the token, the status and the service lists (docs/interface.md, 3 Authentication, 6 Status and
 * settings).
 */
export const commonOperations = [
  defineOperation({
    name: 'common.token',
    route: 'POST /token',
    summary: 'A token for the right user name and password',
    open: true,
    form: 'only',
    body: z.object({ grant_type: z.literal('password'), username: z.string(), password: z.string() }),
    answer: z.strictObject({
      access_token: z.string(),
      token_type: z.literal('bearer'),
      expires_in: z.int(),
      userName: z.string(),
      issued: z.string(),
      expires: z.string(),
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
    answer: envelope(listsSchema),
    run: ({ store }) => ok('Settings are ok.', store.lists.shown),
  }),
];
