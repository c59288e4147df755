import { type ReturnPayload, returnPayload } from '../../../../payloads/return.ts';
import { defineKind } from '../../payload/kind.ts';
import { readAnnouncement } from './announcement.ts';
import { buildReturnDocument, creation, findReturnProblems } from './return-payload.ts';

/**
 * Announces a return (docs/interface.md, 11.4 Operations). The service does not list them, so it cannot be looked up.
 */
export const returnCreate = defineKind<ReturnPayload>({
  name: 'return.create',
  schema: returnPayload,
  operation: creation,
  notFoundMeansRoute: true,
  unknown: { do: 'ask operator' },
  check: (payload, _reference, context) =>
    findReturnProblems(payload, context.operations[creation].optional ?? [], context),
  push: async (payload, context) => {
    const body = await buildReturnDocument(payload, context, null);
    return readAnnouncement(creation, (await context.send({ operation: creation, body })).body, null);
  },
});
