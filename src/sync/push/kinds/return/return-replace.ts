import type { z } from 'zod';
import { defineKind } from '../../payload/kind.ts';
import { idNumber } from '../../payload/payload.ts';
import { announced, announcedId } from './announcement.ts';
import { returnDocument, returnPayload, returnProblems } from './return-payload.ts';

const schema = returnPayload.extend({ returnMerchandiseAuthorizationId: idNumber.nullish() });

/** Replaces an announcement by another (interface.md, v3 return authorizations). */
export const returnReplace = defineKind<z.infer<typeof schema>>({
  name: 'return.replace',
  schema,
  operation: 'v3.returnMerchandiseAuthorizations.replace',
  notFoundMeansRoute: false,
  unknown: { do: 'resend' },
  check: returnProblems,
  push: async ({ returnMerchandiseAuthorizationId, ...payload }, context) => {
    const id = announcedId(returnMerchandiseAuthorizationId, context);
    const operation = 'v3.returnMerchandiseAuthorizations.replace';
    const body = await returnDocument(payload, context, id);
    return announced(operation, (await context.send({ operation, path: { id }, body })).body, id);
  },
});
