import { defineKind } from '../../kind.ts';
import { type ReturnPayload, returnPayload } from '../../payloads/return.ts';
import { announceReturn, creation, findReturnProblems } from './announcement.ts';

/**
 * Announces a return (docs/interface.md, 11.4 Operations). No list has it, so it cannot be looked
 * up.
 */
export const returnCreate = defineKind<ReturnPayload>({
  name: 'return.create',
  schema: returnPayload,
  operation: creation,
  notFoundMeansRoute: true,
  unknown: { do: 'ask operator' },
  check: (payload, _reference, context) => findReturnProblems(creation, payload, context),
  push: (payload, context) => announceReturn(payload, context, null),
});
