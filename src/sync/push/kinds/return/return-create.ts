import { defineKind } from '../../payload/kind.ts';
import { readAnnouncement } from './announcement.ts';
import { buildReturnDocument, findReturnProblems, type ReturnPayload, returnPayload } from './return-payload.ts';

/**
 * Announces a return (docs/interface.md, 11.4 Operations). The service does not list them, so it cannot be looked up.
 */
export const returnCreate = defineKind<ReturnPayload>({
  name: 'return.create',
  schema: returnPayload,
  operation: 'v3.returnMerchandiseAuthorizations.create',
  notFoundMeansRoute: true,
  unknown: { do: 'ask operator' },
  check: findReturnProblems,
  push: async (payload, context) => {
    const body = await buildReturnDocument(payload, context, null);
    const operation = 'v3.returnMerchandiseAuthorizations.create';
    return readAnnouncement(operation, (await context.send({ operation, body })).body, null);
  },
});
