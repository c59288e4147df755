import { z } from 'zod';
import { undecodableAnswer, WarehouseError } from '../../../../core/errors.ts';
import { parseExact } from '../../../../core/json.ts';
import { knowsAuthorization } from '../../../../erp/resources/authorizations.ts';
import { readId } from '../../../../warehouse/decoding/jsonapi.ts';
import { authorizations } from '../../../streams/authorizations.ts';
import { defineKind, NotThereError } from '../../payload/kind.ts';
import { idNumber } from '../../payload/payload.ts';
import { announcedId } from './announcement.ts';

const operation = 'v3.returnMerchandiseAuthorizations.delete';
const schema = z.strictObject({ returnMerchandiseAuthorizationId: idNumber.nullish() });

/** Removes an announced return with its items (interface.md, v3 return authorizations). One that is not there is removed. */
export const returnDelete = defineKind<z.infer<typeof schema>>({
  name: 'return.delete',
  schema,
  operation,
  notFoundMeansRoute: false,
  unknown: { do: 'resend' },
  push: async ({ returnMerchandiseAuthorizationId }, context) => {
    const id = announcedId(returnMerchandiseAuthorizationId, context);
    const removed = { result: { id }, gone: { stream: authorizations, id } };
    try {
      const { body } = await context.send({ operation, path: { id } });
      if (removedId(body) === id) return removed;
    } catch (error) {
      if (!(error instanceof WarehouseError && error.status === 404 && error.jsonBody)) throw error;
      const { row, db } = context;
      if (row.mayBeWritten || (await knowsAuthorization(db, row.client, id))) return removed;
      throw new NotThereError(`the service has no announced return ${id}, and none was ever announced from here`);
    }
    throw undecodableAnswer(`${operation}: the answer is of another`);
  },
});

/** The answer is an object with the id, as text; null where it cannot be read. */
function removedId(body: string): number | null {
  try {
    return readId(parseExact(body));
  } catch (error) {
    if (error instanceof SyntaxError) return null;
    throw error;
  }
}
