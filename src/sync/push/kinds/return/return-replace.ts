import type { z } from 'zod';
import { returnReplacement } from '../../../../payloads/return.ts';
import { defineKind } from '../../payload/kind.ts';
import { findAnnouncedId, readAnnouncement } from './announcement.ts';
import { buildReturnDocument, findReturnProblems, replacement } from './return-payload.ts';

/** Replaces an announcement of a return (docs/interface.md, 11.4 Operations). */
export const returnReplace = defineKind<z.infer<typeof returnReplacement>>({
  name: 'return.replace',
  schema: returnReplacement,
  operation: replacement,
  notFoundMeansRoute: false,
  unknown: { do: 'resend' },
  check: (payload, _reference, context) =>
    findReturnProblems(payload, context.operations[replacement].optional ?? [], context),
  push: async ({ returnMerchandiseAuthorizationId, ...payload }, context) => {
    const id = findAnnouncedId(returnMerchandiseAuthorizationId, context);
    const body = await buildReturnDocument(payload, context, id);
    const { body: answer } = await context.send({ operation: replacement, path: { id }, body });
    return readAnnouncement(replacement, answer, id);
  },
});
