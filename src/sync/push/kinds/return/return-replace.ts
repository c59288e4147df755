import type { z } from 'zod';
import { defineKind } from '../../payload/kind.ts';
import { idNumber } from '../../payload/payload.ts';
import { findAnnouncedId, readAnnouncement } from './announcement.ts';
import { buildReturnDocument, findReturnProblems, returnPayload } from './return-payload.ts';

const schema = returnPayload.extend({ returnMerchandiseAuthorizationId: idNumber.nullish() });

/** Replaces an announcement of a return (docs/interface.md, 11.4 Operations). */
export const returnReplace = defineKind<z.infer<typeof schema>>({
  name: 'return.replace',
  schema,
  operation: 'v3.returnMerchandiseAuthorizations.replace',
  notFoundMeansRoute: false,
  unknown: { do: 'resend' },
  check: findReturnProblems,
  push: async ({ returnMerchandiseAuthorizationId, ...payload }, context) => {
    const id = findAnnouncedId(returnMerchandiseAuthorizationId, context);
    const operation = 'v3.returnMerchandiseAuthorizations.replace';
    const body = await buildReturnDocument(payload, context, id);
    return readAnnouncement(operation, (await context.send({ operation, path: { id }, body })).body, id);
  },
});
