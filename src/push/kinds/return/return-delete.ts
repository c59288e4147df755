import { z } from 'zod';
import { makeUndecodableError, WarehouseError } from '../../../core/errors.ts';
import { parseExact } from '../../../core/json.ts';
import { hasAuthorization } from '../../../pull/sql/authorization-rows.ts';
import { authorizations } from '../../../pull/streams/authorizations.ts';
import { readId } from '../../../service/decoding/jsonapi.ts';
import { saysNothing } from '../../answers.ts';
import { defineKind, NotFoundError } from '../../kind.ts';
import { idNumber } from '../../payload-members.ts';
import { findAnnouncedId } from './announce-return.ts';

const operation = 'v3.returnMerchandiseAuthorizations.delete';
const schema = z.strictObject({ returnMerchandiseAuthorizationId: idNumber.nullish() });

/**
 * Removes an announced return with its items (docs/interface.md, 11.4 Operations). If the service
 * does not have it, but our tables do or an earlier attempt may have removed it, the row is done.
 */
export const returnDelete = defineKind<z.infer<typeof schema>>({
  name: 'return.delete',
  schema,
  operation,
  notFoundMeansRoute: false,
  unknown: { do: 'resend' },
  push: async ({ returnMerchandiseAuthorizationId }, context) => {
    const id = findAnnouncedId(returnMerchandiseAuthorizationId, context);
    const removed = { result: { id }, gone: { stream: authorizations, id } };
    try {
      const answer = await context.send({ operation, path: { id } });
      if (saysNothing(answer) || readRemovedId(answer.body) === id) return removed;
    } catch (error) {
      if (!(error instanceof WarehouseError && error.status === 404 && error.jsonBody)) throw error;
      const { row, db } = context;
      if (row.maybeCarriedOut || (await hasAuthorization(db, row.client, id))) return removed;
      throw new NotFoundError(
        `the service has no announced return ${id}, and our tables have none either; check the id`,
      );
    }
    throw makeUndecodableError(`${operation}: the answer describes another return`);
  },
});

/**
 * Returns the id from the answer, which is an object with the id as text; null if it cannot be
 * read.
 */
function readRemovedId(body: string): number | null {
  try {
    return readId(parseExact(body));
  } catch (error) {
    if (error instanceof SyntaxError) return null;
    throw error;
  }
}
