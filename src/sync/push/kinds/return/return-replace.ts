import type { z } from 'zod';
import { defineKind, NotThereError, type PushContext } from '../../payload/kind.ts';
import { idNumber } from '../../payload/payload.ts';
import { announced } from './return-create.ts';
import { returnDocument, returnPayload, returnProblems } from './return-payload.ts';

const schema = returnPayload.extend({ returnMerchandiseAuthorizationId: idNumber.nullish() });

/** Replaces an announcement by another (interface.md, v3 return authorizations). */
export const returnReplace = defineKind<z.infer<typeof schema>>({
  name: 'return.replace',
  schema,
  operation: 'v3.returnMerchandiseAuthorizations.replace',
  notFoundMeansRoute: false,
  unknown: 'send again',
  check: returnProblems,
  push: async ({ returnMerchandiseAuthorizationId, ...payload }, context) => {
    const id = announcedId(returnMerchandiseAuthorizationId, context);
    const operation = 'v3.returnMerchandiseAuthorizations.replace';
    const body = await returnDocument(payload, context, id);
    return announced(operation, (await context.send({ operation, path: { id }, body })).body, id);
  },
});

/** Id of the announcement that is meant: the one named, else the one with the row's reference. @throws NotThereError */
export function announcedId(named: number | null | undefined, { row }: PushContext): number {
  const id = named ?? row.knownId;
  if (named === undefined || named === null) {
    if (row.knownCount > 1)
      throw new NotThereError(
        `${row.knownCount} announced returns have the reference ${row.reference}; name one by returnMerchandiseAuthorizationId`,
      );
  }
  if (id !== null) return id;
  throw new NotThereError(
    `no announced return with the reference ${row.reference} is known here; name it by returnMerchandiseAuthorizationId`,
  );
}
