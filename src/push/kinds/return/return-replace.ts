import type { z } from 'zod';
import { defineKind } from '../../kind.ts';
import { returnReplacement } from '../../payloads/return.ts';
import {
  announceReturn,
  findAnnouncedId,
  findReturnProblems,
  replacement,
} from './announcement.ts';

/** Replaces an announcement of a return (docs/interface.md, 11.4 Operations). */
export const returnReplace = defineKind<z.infer<typeof returnReplacement>>({
  name: 'return.replace',
  schema: returnReplacement,
  operation: replacement,
  notFoundMeansRoute: false,
  unknown: { do: 'resend' },
  check: (payload, _reference, context) => findReturnProblems(replacement, payload, context),
  push: async ({ returnMerchandiseAuthorizationId, ...payload }, context) =>
    announceReturn(payload, context, findAnnouncedId(returnMerchandiseAuthorizationId, context)),
});
