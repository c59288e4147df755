import type { Operations } from '../../../../config/operations.ts';
import { defineKind } from '../../kind.ts';
import {
  announceReturn,
  creation,
  findReturnProblems,
  makeReturnPayload,
  type ReturnPayload,
} from './announcement.ts';

/**
 * Announces a return (docs/interface.md, 11.4 Operations). No list has it, so it cannot be looked
 * up.
 */
export const returnCreate = (operations: Operations) =>
  defineKind<ReturnPayload>({
    name: 'return.create',
    schema: makeReturnPayload(creation, operations),
    operation: creation,
    notFoundMeansRoute: true,
    unknown: { do: 'ask operator' },
    check: (payload, _reference, context) => findReturnProblems(creation, payload, context),
    push: (payload, context) => announceReturn(payload, context, null),
  });
