import type { z } from 'zod';
import type { Operations } from '../../../../config/operations.ts';
import { defineKind } from '../../kind.ts';
import { idNumber } from '../../payloads/members.ts';
import {
  announceReturn,
  findAnnouncedId,
  findReturnProblems,
  makeReturnPayload,
  replacement,
} from './announcement.ts';

const makeSchema = (operations: Operations) =>
  makeReturnPayload(replacement, operations).extend({
    returnMerchandiseAuthorizationId: idNumber.nullish(),
  });

/** Replaces an announcement of a return (docs/interface.md, 11.4 Operations). */
export const returnReplace = (operations: Operations) =>
  defineKind<z.infer<ReturnType<typeof makeSchema>>>({
    name: 'return.replace',
    schema: makeSchema(operations),
    operation: replacement,
    notFoundMeansRoute: false,
    unknown: { do: 'resend' },
    check: (payload, _reference, context) => findReturnProblems(replacement, payload, context),
    push: async ({ returnMerchandiseAuthorizationId, ...payload }, context) =>
      announceReturn(payload, context, findAnnouncedId(returnMerchandiseAuthorizationId, context)),
  });
