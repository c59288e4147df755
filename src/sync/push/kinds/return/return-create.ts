import { defineKind } from '../../payload/kind.ts';
import { announced } from './announcement.ts';
import { type ReturnPayload, returnDocument, returnPayload, returnProblems } from './return-payload.ts';

/** Announces a return (interface.md, v3 return authorizations). It cannot be looked up. */
export const returnCreate = defineKind<ReturnPayload>({
  name: 'return.create',
  schema: returnPayload,
  operation: 'v3.returnMerchandiseAuthorizations.create',
  notFoundMeansRoute: true,
  unknown: { do: 'ask operator' },
  check: returnProblems,
  push: async (payload, context) => {
    const body = await returnDocument(payload, context, null);
    const operation = 'v3.returnMerchandiseAuthorizations.create';
    return announced(operation, (await context.send({ operation, body })).body, null);
  },
});
